"""What ends a child with us, however we end: a pipe of which we alone hold the writing end.

The system closes it when we are gone, SIGKILL included. On Linux it then kills the child's process group by itself
(``F_SETSIG`` and ``O_ASYNC`` of ``fcntl(2)``): that needs no thread and no code in the child, reaches what the child
has started, and doesn't depend on which of our threads started it, as ``PR_SET_PDEATHSIG`` does. Elsewhere a thread of
the child waits for the end of the pipe (``graphdoctor/probe/ways_in/process.py``).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import TracebackType

_F_SETSIG = 10
"""As in Linux's ``fcntl.h``; ``fcntl`` has a name for it since Python 3.14."""


class Lifeline:
    """Ends one child with us; within ``with``, which the child shouldn't outlive either."""

    def __init__(self) -> None:
        self._is_armed = False
        self.descriptor, self._writing = os.pipe()

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the child is to be told."""
        return () if sys.platform == "linux" else (str(self.descriptor),)

    def hold(self, owner: int) -> None:
        """End this child with us from now on."""
        if sys.platform == "linux":
            import fcntl

            with contextlib.suppress(OSError):  # it has ended, or the system has no such thing
                fcntl.fcntl(self.descriptor, fcntl.F_SETOWN, owner)
                fcntl.fcntl(self.descriptor, _F_SETSIG, signal.SIGKILL)
                self._is_armed = True
                self._set_armed(is_armed=True)

    def __enter__(self) -> Lifeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What the program left running on purpose isn't ours to end.
        if self._is_armed:
            self._set_armed(is_armed=False)
        os.close(self.descriptor)
        os.close(self._writing)

    def _set_armed(self, *, is_armed: bool) -> None:
        import fcntl

        flags = fcntl.fcntl(self.descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self.descriptor, fcntl.F_SETFL, flags | os.O_ASYNC if is_armed else flags & ~os.O_ASYNC)

"""What ends a child with us, however we end: a pipe of which we alone hold the writing end.

The system closes it when we are gone, SIGKILL included. On Linux it then kills the child's process
group by itself (``F_SETSIG`` and ``O_ASYNC`` of ``fcntl(2)``): that needs no thread and no code in
the child, reaches what the child has started, and doesn't depend on which of our threads started
it, as ``PR_SET_PDEATHSIG`` does. Elsewhere a thread of the child waits for the end of the pipe
(``graphdoctor/probe/ways_in/process.py``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys

_F_SETSIG = 10
"""As in Linux's ``fcntl.h``; ``fcntl`` has a name for it since Python 3.14."""


class Lifeline:
    """Ends one child with us; within ``with``, which the child shouldn't outlive either."""

    def __init__(self) -> None:
        self.descriptor, self._writing = os.pipe()

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the arguments for the child's command line."""
        return () if sys.platform == "linux" else (str(self.descriptor),)

    def hold(self, owner: int) -> None:
        """End this child with us from now on."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # it has ended, or the system has no such thing
                fcntl.fcntl(self.descriptor, fcntl.F_SETOWN, owner)
                fcntl.fcntl(self.descriptor, _F_SETSIG, signal.SIGKILL)
                fcntl.fcntl(self.descriptor, fcntl.F_SETFL, self._flags() | os.O_ASYNC)

    def _flags(self) -> int:
        return fcntl.fcntl(self.descriptor, fcntl.F_GETFL)

    def __enter__(self) -> Lifeline:
        return self

    def __exit__(self, *_: object) -> None:
        # What the program left running on purpose isn't ours to end.
        fcntl.fcntl(self.descriptor, fcntl.F_SETFL, self._flags() & ~os.O_ASYNC)
        os.close(self.descriptor)
        os.close(self._writing)

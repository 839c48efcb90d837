"""Standard streams that are closed, full or gone."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import IO, NoReturn

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OF_THE_SYSTEM = (*_FULL, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EBADF, errno.EMFILE, errno.ENFILE)
"""Errors that are nobody's mistake in graphdoctor."""


class ClosedStream(io.TextIOBase):
    """Standard output of a process that was started without one (``>&-``)."""

    def write(self, _text: str) -> NoReturn:
        """Refuse, as the system would."""
        raise OSError(errno.EBADF, "it is closed", "standard output")

    @property
    def buffer(self) -> NoReturn:
        """There is none."""
        self.write("")


def stand_in_for_closed_streams() -> None:
    """Put something in the place of each standard stream that is closed.

    Otherwise the next file that is opened gets its number, and whatever is printed goes into that file.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number; a child doesn't inherit it, so there the stream is closed as well.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = ClosedStream()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for as long as the process lives


def drop_results() -> None:
    """Let go of what can't be written, or Python tries again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def system_error_text(error: OSError) -> str | None:
    """What the system refused, in a sentence; None for an error that the system alone doesn't explain."""
    if error.errno not in _OF_THE_SYSTEM:
        return None
    reason = error.strerror or "unknown error"
    if error.filename is None:
        return f"Standard output can't be written: {reason}."
    what = "can't be written" if error.errno in (*_FULL, errno.EROFS, errno.EBADF) else "can't be used"
    name = str(error.filename)
    return f"{name[:1].upper() + name[1:] if name == 'standard output' else name} {what}: {reason}."


def is_closed(stream: IO[str]) -> bool:
    """Whether a stream stands in for standard output that is closed."""
    return isinstance(stream, ClosedStream)

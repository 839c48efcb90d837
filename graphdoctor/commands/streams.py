"""Standard streams that are closed, full or gone."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from typing import IO, TYPE_CHECKING, NoReturn

from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OF_THE_SYSTEM = (
    *_FULL,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EBADF,
    errno.EMFILE,
    errno.ENFILE,
)
"""Errors that are nobody's mistake in graphdoctor."""
STANDARD_OUTPUT = "Standard output"
"""The name of its file in errors."""
_IN_ASCII = {
    **{
        "µ": "u",
        "·": "-",
        "→": "->",
        "×": "x",
        "…": "...",
        "–": "-",
        "│": "|",
        "§": "section ",
        "±": "+-",
    },
    **{"━": "-", "╸": "-", "╺": "-", "•": "*"},
}


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """What a stream writes in place of characters that its encoding lacks: units stay units."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(each) or ascii(each)[1:-1] for each in missing), error.end


def write_what_is_missing_in_ascii(stream: io.TextIOWrapper) -> None:
    """Let a stream write every text, whatever its encoding."""
    codecs.register_error("graphdoctor", _in_ascii)
    stream.reconfigure(errors="graphdoctor")


class _Results(io.FileIO):
    """Standard output, which the errors of its writes name."""

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise


class ClosedStream(io.TextIOBase):
    """Standard output of a process that was started without one (``>&-``)."""

    def write(self, _text: str) -> NoReturn:
        """Refuse, as the system would."""
        raise OSError(errno.EBADF, "it is closed", STANDARD_OUTPUT)

    @property
    def buffer(self) -> NoReturn:
        """There is none."""
        self.write("")


def prepare_streams() -> None:
    """Let errors name standard output, and put something in the place of each standard stream that
    is closed.

    Otherwise the next file that is opened gets its number, and whatever is printed goes into that
    file.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number; a child doesn't inherit it, so there the stream is closed as
            # well.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = ClosedStream()
    elif sys.stdout is sys.__stdout__:
        kept = {
            name: getattr(sys.stdout, name) for name in ("encoding", "errors", "line_buffering")
        }
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Results(1, "wb", closefd=False)), **kept)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for as long as the process lives


def drop_results() -> None:
    """Let go of what can't be written, or Python tries again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def system_error_text(error: OSError) -> str | None:
    """What the system refused, in a sentence; None for an error that the system alone doesn't
    explain.
    """
    if error.errno not in _OF_THE_SYSTEM:
        return None
    reason = error.strerror or "unknown error"
    if error.filename is None:
        return f"The system refused to go on: {reason}."
    what = (
        "can't be written" if error.errno in (*_FULL, errno.EROFS, errno.EBADF) else "can't be used"
    )
    return f"{error.filename} {what}: {reason}."


def is_closed(stream: IO[str]) -> bool:
    """Whether a stream stands in for standard output that is closed."""
    return isinstance(stream, ClosedStream)


def reported(error: BaseException) -> int:
    """Say on standard error what ended something, and return the exit status for it."""
    from graphdoctor.commands.terminal import complain, report_trouble, say

    match error:
        case GraphDoctorError():
            complain(error.message, error.hint)
            return error.exit_code
        case KeyboardInterrupt():
            say("Interrupted.")
            return 130
        case BrokenPipeError():
            # Whoever read our output has gone: `graphdoctor report | head`.
            sys.stderr.close()
            return 141
        case OSError() if (text := system_error_text(error)) is not None:
            complain(text)
        case _:
            report_trouble(error)
    if isinstance(error, OSError):
        drop_results()
    return 2

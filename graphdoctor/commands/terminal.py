"""The terminal: standard streams that are closed, full or gone, what commands print besides
results, and progress.

Light to import: ``graphdoctor --help`` takes little more than Python's own start.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, NoReturn

from graphdoctor import version
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.progress import PHASES_VARIABLE
from graphdoctor.views.printable import printable
from graphdoctor.wording import without_middle

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.status import Status

    from graphdoctor.facts.progress import TrialEvent
    from graphdoctor.trials.launch.child import Setup

Color = Literal["auto", "always", "never"]

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
EXIT_INTERRUPTED = 130
STANDARD_OUTPUT = "Standard output"
"""The name of its file in errors."""


class _Results(io.FileIO):
    """Standard output that names itself in write errors."""

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
    given = sys.stdout
    if given is None:
        sys.stdout = ClosedStream()
    elif sys.__stdout__ is not None and sys.__stdout__ == given:
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Results(1, "wb", closefd=False)),
            encoding=given.encoding,
            errors="backslashreplace",
            line_buffering=given.line_buffering,
        )
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for as long as the process lives


def drop_results() -> None:
    """Let go of what can't be written, or Python tries again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def system_error_text(error: OSError) -> str | None:
    """Say what the system refused; None for an error that the system alone doesn't explain."""
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
    """Tell whether a stream stands in for closed standard output."""
    return isinstance(stream, ClosedStream)


# Messages.


_MOST_CHARACTERS = 2_000
"""Of a line; a path alone can have 4,096."""


def say(*lines: str) -> None:
    """Print lines on standard error, without characters that a terminal would obey; nothing where
    that is full.
    """
    try:
        print(*map(_line, lines), sep="\n", file=sys.stderr, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        return


def say_result(*lines: str) -> None:
    """As ``say``, on standard output."""
    print(*map(_line, lines), sep="\n")


def say_serving() -> None:
    """Say to a person who starts a server in a terminal that it runs."""
    say("Serving on standard input and output until a client closes them.")


def complain(message: str, hint: str | None = None) -> None:
    """Say on standard error what is wrong and what to do; a hint can have several lines."""
    say(f"error: {message}")
    if hint:
        first, *rest = hint.splitlines()
        say(f"hint: {first}", *(line if line.startswith(" ") else f"  {line}" for line in rest))


def warn(message: str) -> None:
    """Say on standard error what may be a slip, and go on."""
    say(f"warning: {message}")


def _line(text: str) -> str:
    return without_middle(printable(text), _MOST_CHARACTERS)


def console_of(
    color: Color, *, is_stderr: bool = False, file: IO[str] | None = None, width: int | None = None
) -> Console:
    """Return a console; one on a file is colored only when that was asked for, whatever the
    environment says.
    """
    from rich.console import Console

    if color == "auto" and file is None:
        return Console(stderr=is_stderr)
    is_colored = color == "always"
    return Console(
        file=file,
        stderr=is_stderr,
        width=width,
        force_terminal=is_colored,
        color_system="standard" if is_colored else None,
        no_color=not is_colored,
    )


def live_console(*, is_quiet: bool) -> Console | None:
    """Return a console for progress: standard error, if it is a terminal that can redraw; else
    None.
    """
    if is_quiet or not sys.stderr.isatty():
        return None
    console = console_of("auto", is_stderr=True)
    return None if console.is_dumb_terminal else console


_PACKAGES = ("torch", "typer", "rich", "pydantic", "orjson", "jinja2", "libcst")


def report_trouble(error: BaseException) -> None:
    """Say in one line that graphdoctor itself failed, and where the log is."""
    path = _write_trouble_log(error)
    complain(
        f"graphdoctor failed: {type(error).__name__}: {error}",
        f"please report it with the log {path}",
    )


def _write_trouble_log(error: BaseException) -> Path:
    import importlib.metadata
    import platform
    import tempfile
    import traceback

    lines = [f"graphdoctor {version.__version__}", f"python {sys.version}", platform.platform()]
    for name in _PACKAGES:
        try:
            lines.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"{name} is not installed")
    lines += [f"command: {sys.argv}", "", *traceback.format_exception(error)]
    with tempfile.NamedTemporaryFile(
        "w", prefix="graphdoctor-", suffix=".log", delete=False, encoding="utf-8", errors="replace"
    ) as log:
        log.write("\n".join(lines))
    return Path(log.name)


def reported(error: BaseException) -> int:
    """Say on standard error what ended something, and return the exit status for it."""
    match error:
        case GraphDoctorError():
            complain(error.message, error.hint)
            return error.exit_code
        case KeyboardInterrupt():
            # What was kept, and how to go on, from who knows it.
            say(" ".join(("Interrupted.", *map(str, error.args))))
            return EXIT_INTERRUPTED
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


# Progress.


class _Line:
    """The phase and the time so far, on one line."""

    def __init__(self) -> None:
        self.phase = "starting"
        self._began = time.monotonic()

    def shown(self, width: int) -> str:
        """Write it in so many columns."""
        from graphdoctor.views.progress import phase_text

        return phase_text(self.phase, time.monotonic() - self._began, width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The line."""
        from rich.text import Text

        yield Text(self.shown(options.max_width), no_wrap=True, overflow="ellipsis")


_COLUMNS = 100
_SILENT_S = 30.0
"""After so long without a word, the status line is printed where no terminal shows it."""


class Progress:
    """A status line that makes way for the program's output and for verdicts."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._line = _Line()
        self._status: Status | None = None
        self._lock = threading.Lock()
        self._is_line_open = False
        self._said_s, self._is_over = time.monotonic(), threading.Event()
        # Not the program's: a graphdoctor in it would write to a descriptor that is something else
        # there.
        self._phases = os.environ.pop(PHASES_VARIABLE, None)
        if (console := live_console(is_quiet=is_quiet)) is not None:
            self._status = console.status(self._line)

    def setup(self, python: str | None, timeout_s: float | None) -> Setup:
        """Return how processes run while this shows their progress."""
        from graphdoctor.trials.launch.child import Setup

        return Setup(python, timeout_s, self.show_phase, self._pass_on, self.show_trial)

    def __enter__(self) -> Progress:
        if self._status is not None:
            self._status.start()
        elif not self._is_quiet:
            threading.Thread(target=self._break_silence, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        with self._lock:
            if self._status is not None:
                self._status.stop()
            if self._is_line_open:
                say("")

    def _break_silence(self) -> None:
        while not self._is_over.wait(max(_SILENT_S - (time.monotonic() - self._said_s), 0.1)):
            if time.monotonic() - self._said_s >= _SILENT_S:
                self.say(self._line.shown(_COLUMNS))

    def say(self, line: str) -> None:
        """Print a line of our own."""
        with self._lock:
            if self._status is not None:
                self._status.stop()
            # What the program printed last may lack the end of its line.
            say(*("",) if self._is_line_open else (), line)
            self._is_line_open, self._said_s = False, time.monotonic()
            if self._status is not None:
                self._status.start()

    def show_trial(self, event: TrialEvent) -> None:
        """Show what a trial showed, on a line of its own."""
        from graphdoctor.views.progress import event_text

        if not self._is_quiet:
            self.say(event_text(event))

    def show_phase(self, phase: str) -> None:
        """Show what is being done."""
        with self._lock:
            self._line.phase = phase
            if self._phases is not None:
                # Whoever asked may be gone.
                with contextlib.suppress(OSError, ValueError):
                    os.write(int(self._phases), f"{phase}\n".encode(errors="replace"))

    def _pass_on(self, chunk: bytes) -> None:
        with self._lock:
            if self._status is not None:
                self._status.stop()
            sys.stderr.buffer.write(chunk)
            sys.stderr.flush()
            self._is_line_open, self._said_s = not chunk.endswith(b"\n"), time.monotonic()
            # A half-written line (a program's own progress bar) keeps the terminal until it ends.
            if self._status is not None and not self._is_line_open:
                self._status.start()

"""What every command prints on the terminal besides its result: complaints, warnings, colors."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO, TYPE_CHECKING

from graphdoctor import version
from graphdoctor.commands.options import Color
from graphdoctor.views.printable import printable
from graphdoctor.wording import without_middle

if TYPE_CHECKING:
    from rich.console import Console

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
    """What a person sees who starts a server in a terminal."""
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
    """A console; one on a file is colored only when that was asked for, whatever the environment
    says.
    """
    from rich.console import Console

    if color == "always":
        return Console(
            file=file,
            stderr=is_stderr,
            width=width,
            force_terminal=True,
            color_system="standard",
            no_color=False,
        )
    if color == "never" or file is not None:
        return Console(
            file=file, stderr=is_stderr, width=width, force_terminal=False, color_system=None
        )
    return Console(stderr=is_stderr)


def live_console(*, is_quiet: bool) -> Console | None:
    """Where progress can be drawn over what was drawn before: standard error if it is such a
    terminal.
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

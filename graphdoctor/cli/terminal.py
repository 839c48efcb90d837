"""What every command prints on the terminal besides its result: complaints, warnings, colors."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING

from graphdoctor.cli.options import Color
from graphdoctor.render.printable import printable

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str) -> None:
    """Print on standard error, without characters that a terminal would obey; nothing where that is full."""
    try:
        print(printable(text), file=sys.stderr, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        return


def say_result(text: str) -> None:
    """As ``say``, on standard output."""
    print(printable(text))


def complain(message: str, hint: str | None = None) -> None:
    """Say on standard error what is wrong and what to do."""
    say(f"error: {message}")
    if hint:
        say(f"hint: {hint}")


def warn(message: str) -> None:
    """Say on standard error what may be a slip, and go on."""
    say(f"warning: {message}")


def file_console(file: IO[str], color: Color, *, width: int) -> Console:
    """A console on a file: colored only when that was asked for, whatever the environment says."""
    from rich.console import Console

    if color is Color.always:
        return Console(file=file, width=width, force_terminal=True, color_system="standard", no_color=False)
    return Console(file=file, width=width, force_terminal=False, color_system=None)


def stdout_console(color: Color) -> Console:
    """A console on standard output.

    Args:
        color: ``auto`` leaves it to the terminal, ``NO_COLOR`` and ``FORCE_COLOR``; the others overrule them.
    """
    return _terminal_console(color, is_stderr=False)


def stderr_console(color: Color) -> Console:
    """A console on standard error; ``color`` as in ``stdout_console``."""
    return _terminal_console(color, is_stderr=True)


def _terminal_console(color: Color, *, is_stderr: bool) -> Console:
    from rich.console import Console

    match color:
        case Color.always:
            return Console(stderr=is_stderr, force_terminal=True, color_system="standard", no_color=False)
        case Color.never:
            return Console(stderr=is_stderr, force_terminal=False, color_system=None)
        case _:
            return Console(stderr=is_stderr)

"""What every command says on the terminal, and how: colours, complaints."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING

from graphdoctor.cli.options import Colour
from graphdoctor.render.printable import printable

if TYPE_CHECKING:
    from rich.console import Console


def complain(message: str, hint: str | None = None) -> None:
    """Say on standard error what is wrong and what to do, without characters that a terminal would obey."""
    for label, text in (("error", message), ("hint", hint)):
        if text:
            print(f"{label}: {printable(text)}", file=sys.stderr)


def file_console(file: IO[str], colour: Colour, *, width: int) -> Console:
    """A console on a file: coloured only when that was asked for, whatever the environment says."""
    from rich.console import Console

    if colour is Colour.always:
        return Console(file=file, width=width, force_terminal=True, color_system="standard", no_color=False)
    return Console(file=file, width=width, force_terminal=False, color_system=None)


def stdout_console(colour: Colour) -> Console:
    """A console on standard output.

    Args:
        colour: ``auto`` leaves it to the terminal, ``NO_COLOR`` and ``FORCE_COLOR``; the others overrule them.
    """
    return _terminal_console(colour, is_stderr=False)


def stderr_console(colour: Colour) -> Console:
    """A console on standard error; ``colour`` as in ``stdout_console``."""
    return _terminal_console(colour, is_stderr=True)


def _terminal_console(colour: Colour, *, is_stderr: bool) -> Console:
    from rich.console import Console

    match colour:
        case Colour.always:
            return Console(stderr=is_stderr, force_terminal=True, color_system="standard", no_color=False)
        case Colour.never:
            return Console(stderr=is_stderr, force_terminal=False, color_system=None)
        case _:
            return Console(stderr=is_stderr)

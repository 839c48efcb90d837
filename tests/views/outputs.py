"""A view as text."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from graphdoctor.views.parts import View
from graphdoctor.views.terminal import write_view


def on_terminal(view: View, *, width: int = 80, is_verbose: bool = False) -> str:
    """What a terminal shows, without colors."""
    stream = StringIO()
    write_view(view, Console(file=stream, width=width, color_system=None), is_verbose=is_verbose)
    return stream.getvalue()

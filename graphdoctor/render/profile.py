"""A profile on the terminal: the answer, the lines and kernels that take the time, what fusion did, gaps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from graphdoctor.model.stack import relative
from graphdoctor.model.wording import percent
from graphdoctor.render.bench_words import time_text
from graphdoctor.render.cards import clean, write

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.model.profile import ProfileReport

_FEW = 10
"""Rows of a table, unless all are wanted."""


def render_profile(report: ProfileReport, console: Console, *, is_verbose: bool = False) -> None:
    """Write a profile to a terminal.

    Args:
        report: What to show.
        console: Where to.
        is_verbose: Show all lines and kernels.
    """
    for renderable in _report(report, is_verbose=is_verbose):
        write(console, renderable)


def _report(report: ProfileReport, *, is_verbose: bool) -> Iterator[RenderableType]:
    title = clean(report.target.text or "a program", "bold")
    environment = report.environment
    if environment is not None:
        title.append_text(clean(f" · torch {environment.torch} · {environment.device_name or 'CPU'}", "dim"))
    yield title
    if report.call_us is None:
        return
    yield Text()
    call = time_text(report.call_us.median)
    kernels = "" if report.kernels_us is None else f", {time_text(report.kernels_us)} of it in kernels"
    yield clean(f"A call takes {call}{kernels}.", "bold")
    most = None if is_verbose else _FEW
    yield Text()
    yield _lines(report, most)
    yield Text()
    yield _kernels(report, most)


def _lines(report: ProfileReport, most: int | None) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("share", "forward", "backward"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("line", overflow="fold")
    for line in report.lines[:most]:
        place = f"{relative(line.file, Path.cwd())}:{line.line}"
        table.add_row(percent(line.share), time_text(line.forward_us), time_text(line.backward_us), clean(place))
    return table


def _kernels(report: ProfileReport, most: int | None) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("share", "time", "calls", "kind"):
        table.add_column(name, justify="left" if name == "kind" else "right", no_wrap=True)
    table.add_column("kernel", overflow="fold")
    for kernel in report.kernels[:most]:
        time = time_text(kernel.time_us)
        table.add_row(percent(kernel.share), time, str(kernel.calls), kernel.kind, clean(kernel.name))
    return table

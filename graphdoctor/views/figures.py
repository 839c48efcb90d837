"""Tables of figures on the terminal: a figure and what belongs to it, such as its interval, in one line or in two.

Comes in: cells. Goes out: what rich shows. Nothing of a name is cut, and no number is broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.measure import Measurement
from rich.table import Table

from graphdoctor.views.cards import Prose, clean
from graphdoctor.views.wrapping import prose_breaks

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from graphdoctor.views.bench_words import Cell
    from graphdoctor.views.words import Tone

CELL_TONES: dict[Tone, str] = {"good": "green", "warning": "yellow", "bad": "red"}
NARROW = 100
"""Below this width, columns stand closer."""
ONE_LINE = 132
"""From this width on, a figure and what belongs to it stand in one line."""


class Folded(Prose):
    """Text in lines that fit, of which nothing is cut: a name that is too long for a line goes on in the next."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines."""
        for part in self.text.divide(prose_breaks(self.text.plain, options.max_width)):
            part.rstrip()
            yield from part.wrap(console, options.max_width, overflow="fold")


class Figure:
    """A figure and what belongs to it, in one line or below each other; it is wrapped only if it must be.

    Args:
        cell: The figure.
        is_wide: In one line.
        style: Of the figure.
    """

    def __init__(self, cell: Cell, *, is_wide: bool, style: str = "") -> None:
        tone = CELL_TONES[cell.tone] if cell.tone is not None else style
        if is_wide and cell.detail:
            self.lines = [clean(cell.text, tone).append_text(clean(f" ({cell.detail})", "dim"))]
        else:
            self.lines = [clean(cell.text, tone)] + ([clean(cell.detail, "dim")] if cell.detail else [])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines."""
        yield from map(Folded, self.lines)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """The longest line, but what is no number can be wrapped."""
        least, widest = 0, 0
        for line in self.lines:
            measured = Prose(line).__rich_measure__(console, options)
            has_number = any(letter.isdigit() for letter in line.plain)
            least = max(least, measured.maximum if has_number else measured.minimum)
            widest = max(widest, measured.maximum)
        return Measurement(least, widest)


def grid(width: int) -> Table:
    """A table without lines, for a terminal of this width."""
    gap = 1 if width < NARROW else 2
    return Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, gap, 0, 0))

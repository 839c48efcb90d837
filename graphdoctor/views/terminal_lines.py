"""Lines of a terminal: prose, diffs and figures in its width, and code as it is, all safe to show.

Text from outside, such as paths, messages and source lines, goes through ``clean`` and never
through markup, so a path such as ``[red]/x.py`` is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.measure import Measurement
from rich.segment import Segment
from rich.text import Text

from graphdoctor.views.printable import printable, printable_lines
from graphdoctor.wording import without_middle

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult


_BEGINNING = re.compile(r"GD\d|-->")
_MOST_CHARACTERS = 800
"""Of a name or a sentence: ten lines of 80 columns."""
_LONGEST_CODE = 6_000
"""Characters of a line of code or of a command."""
_MOST_OF_A_BLOCK = 20_000
"""Characters of a text of several lines."""
_MAX_DIFF_LINES = 16
_WIDEST_NAME = 32
"""A longer name may be cut rather than take the room of other columns."""
_LEAST_LABEL = 9
_LEAST_WIDTH = 8
"""Cells that a column of text is given at least."""
CUT = "…"
_WORD = re.compile(r"\s*\S+\s*")
_PARTS = re.compile(r"\w+[,;.]?(?=\s|$)|\w+|[^\w\s]+|\s+")
"""What stands together in a word; a comma stays with the name before it."""


def write(console: Console, renderable: RenderableType) -> None:
    """Print without markup and highlighting; a line of code that is too wide is left to the
    terminal.
    """
    shown = (
        Prose(renderable) if isinstance(renderable, Text) and not renderable.no_wrap else renderable
    )
    console.print(Indented(shown), markup=False, highlight=False, crop=False)


class Indented:
    """Anything after a label, or as much space; no line is cut or ends with spaces, so that code
    can be copied.
    """

    def __init__(self, shown: RenderableType, label: Text | None = None) -> None:
        self.shown = shown
        self._label = Text() if label is None else label

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines."""
        before, width = list(self._label.render(console)), self._label.cell_len
        inner = options.update_width(max(options.max_width - width, 1))
        for shown in Segment.split_lines(console.render(self.shown, inner)):
            line = [*before, *shown]
            while line and not line[-1].text.strip(" "):
                line.pop()
            if line:
                last = line.pop()
                line.append(Segment(last.text.rstrip(" "), last.style, last.control))
            yield from line
            yield Segment.line()
            before = [Segment(" " * width)]


class Prose:
    """Text in lines that fit, broken between words; ``least`` cells are what it needs in a
    table.
    """

    def __init__(self, text: Text, least: int | None = None) -> None:
        self.text = text
        self._least = min(longest_name(text.plain), _WIDEST_NAME) if least is None else least

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines."""
        for line in self.text.split("\n", allow_blank=True):
            yield from _parts(line, options.max_width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From the least width to the widest."""
        widest = max(map(cell_len, self.text.plain.split("\n")))
        return Measurement(min(self._least, options.max_width), min(widest, options.max_width))


def _parts(line: Text, width: int) -> Iterator[Text]:
    """Yield a line in parts that fit; one that would look like the beginning of a finding is
    indented.
    """
    first, *rest = line.divide(prose_breaks(line.plain, width))
    first.rstrip()
    yield first
    for part in rest:
        if _BEGINNING.match(part.plain) and width > _LEAST_WIDTH:
            yield from (Text("  ").append_text(piece) for piece in _parts(part, width - 2))
        else:
            part.rstrip()
            yield part


def code(text: str) -> Text:
    """Return code to paste: no line of it is broken, or cut unless it is longer than anybody's."""
    return Text(block(text, _LONGEST_CODE), "cyan", no_wrap=True, overflow="ignore")


def cut_lines(lines: Iterable[Text]) -> Text:
    """Return lines that aren't to be pasted, such as those of a diff: each is cut where it doesn't
    fit.
    """
    return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)


def pointed(number: int, text: str, start: int | None, end: int, width: int) -> Text:
    """Return a line of source with marks below an expression; where it doesn't fit, the part around
    the expression.
    """
    margin = " " * (len(str(number)) + 3)
    room = max(width - len(margin) - len("│ "), 1)
    skipped = 0
    if start is not None and cell_len(text[:end]) > room:
        before = max(room - cell_len(text[start:end]) - 2, 0)
        skipped = start
        while skipped and cell_len(text[skipped - 1 : start]) <= before:
            skipped -= 1
    shown = cut(CUT * bool(skipped) + text[skipped:], room)
    out = Text(no_wrap=True).append(f"  {number} │ ", "blue").append(shown)
    if start is not None:
        before = cell_len(text[skipped:start]) + bool(skipped)
        marked = min(cell_len(text[start:end]), room - before)
        out.append(f"\n{margin}│ ", "blue").append(" " * before + "^" * marked, "red")
    return out


def clean(text: str, style: str = "") -> Text:
    """Return text from outside, safe for a terminal: on one line, and without its middle if it is
    too long.
    """
    return Text(printable(without_middle(text, _MOST_CHARACTERS)), style=style)


def clean_lines(text: str) -> Text:
    """As ``clean``, for text that has several lines; to be shown indented, where no line can pass
    for one of ours.
    """
    return Text(block(text))


def block(text: str, most: int = _MOST_CHARACTERS) -> str:
    """Return text of several lines, safe for a terminal; each too long line, and the whole, without
    its middle.
    """
    lines = printable_lines(without_middle(text, _MOST_OF_A_BLOCK)).split("\n")
    return "\n".join(without_middle(line, most) for line in lines)


def diff_text(diff: str, *, is_whole: bool) -> RenderableType:
    """Return a diff, or its changed lines."""
    lines = diff.splitlines()
    if not is_whole:
        changed = [
            line for line in lines if line[:1] in ("+", "-") and line[:3] not in ("+++", "---")
        ]
        margin = min(
            (len(line[1:]) - len(line[1:].lstrip()) for line in changed if line[1:].strip()),
            default=0,
        )
        lines = [line[0] + line[1 + margin :] for line in changed[:_MAX_DIFF_LINES]]
        lines += (
            [f"… {len(changed) - _MAX_DIFF_LINES} more"] if len(changed) > _MAX_DIFF_LINES else []
        )
    styles = {"+": "green", "-": "red", "@": "cyan"}
    return cut_lines([clean(line, styles.get(line[:1], "dim")) for line in lines])


def labeled_rows(rows: Sequence[tuple[str, RenderableType]], width: int) -> Iterator[Indented]:
    """Labeled rows with a hanging indent, in a terminal of this width."""
    labels = [cut(clean(label).plain, width // 2) for label, _ in rows]
    most = max(_LEAST_LABEL, *map(cell_len, labels))
    for label, (_, shown) in zip(labels, rows, strict=True):
        yield Indented(shown, Text(f"  {' ' * (most - cell_len(label))}{label}  ", "blue"))


def figure(text: Text, detail: Text, *, is_wide: bool) -> Prose:
    """Return a figure and what belongs to it, in one line or below each other; it is wrapped only
    if it must be.
    """
    if detail and is_wide:
        text.append(" (", "dim").append_text(detail).append(")", "dim")
    elif detail:
        text.append("\n").append_text(detail)
    # What is no number can be wrapped.
    least = (
        cell_len(line) if any(map(str.isdigit, line)) else min(longest_name(line), _WIDEST_NAME)
        for line in text.plain.split("\n")
    )
    return Prose(text, max(least))


# Text in lines that fit.


def prose_breaks(text: str, width: int) -> list[int]:
    """Return where to break one line of prose so that each part fits.

    A word wider than the line, such as a path, is broken beside a name in it; only a name that is
    wider by itself continues on the next line.
    """
    breaks = []
    at = used = 0
    for word in _WORD.findall(text):
        is_wide = cell_len(word.rstrip()) > width
        names = (piece for part in _PARTS.findall(word) for piece in chop_cells(part, width))
        for piece in names if is_wide else (word,):
            if used and used + cell_len(piece.rstrip()) > width:
                breaks.append(at)
                used = 0
            at += len(piece)
            used += cell_len(piece)
    return breaks


def longest_name(text: str) -> int:
    """Return the cells of the longest part of a text that isn't broken."""
    return max((cell_len(part) for part in _PARTS.findall(text)), default=0)


def cut(line: str, width: int) -> str:
    """Return a line that fits, ended by a sign if something is missing."""
    return line if cell_len(line) <= width else set_cell_size(line, max(width - 1, 0)) + CUT[:width]

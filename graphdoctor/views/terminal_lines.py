"""Lines of a terminal: prose, code, commands, diffs and figures, safe to show and wrapped to its width.

Text from outside, such as paths, messages and source lines, goes through ``clean`` and never through markup, so a path
such as ``[red]/x.py`` is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import indent
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from graphdoctor.facts.wording import without_middle
from graphdoctor.views.printable import printable, printable_lines
from graphdoctor.views.wrapping import CUT, code_lines, command_lines, cut, longest_name, prose_breaks

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult


_BEGINNING = re.compile(r"GD\d|-->")
_MOST_CHARACTERS = 800
"""Of a name or a sentence: ten lines of 80 columns."""
_MOST_OF_A_BLOCK = 20_000
"""Characters of a text of several lines."""
_MAX_DIFF_LINES = 16
_WIDEST_NAME = 32
"""A longer name may be cut rather than take the room of other columns."""
_LEAST_WIDTH = 8
"""Cells that a column of text is given at least."""
NARROW = 100
"""Below this width, columns stand closer."""
ONE_LINE = 132
"""From this width on, a figure and what belongs to it stand in one line."""


def write(console: Console, renderable: RenderableType) -> None:
    """Print without markup, highlighting and spaces at the ends of lines."""
    if isinstance(renderable, Whole):
        # A line at the margin could pass for one of ours.
        code = indent(block(renderable.plain.rstrip()), "  ")
        console.print(Text(code, "dim"), soft_wrap=True, markup=False, highlight=False)
        return
    shown = Prose(renderable) if isinstance(renderable, Text) else renderable
    console.print(Trimmed(shown), markup=False, highlight=False)


def write_report(console: Console, report: Iterable[RenderableType], answer: Iterable[RenderableType]) -> None:
    """Print a report, and its answer once more where that has scrolled away."""
    with console.capture() as captured:
        for renderable in report:
            write(console, renderable)
    text = captured.get()
    console.file.write(text)
    if console.file.isatty() and text.count("\n") >= console.height:
        write(console, Text())
        for renderable in answer:
            write(console, renderable)


class Trimmed:
    """Anything without the spaces that fill its lines: after a backslash at the end of one, they would be an error."""

    def __init__(self, shown: RenderableType) -> None:
        self.shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines."""
        for line in console.render_lines(self.shown, options, pad=False):
            while line and not line[-1].text.strip(" "):
                line.pop()
            if line:
                last = line.pop()
                line.append(Segment(last.text.rstrip(" "), last.style, last.control))
            yield from line
            yield Segment.line()


class Lines:
    """Something in lines that fit."""

    def __init__(self, lines: Callable[[int], Iterable[Text]], least: int, widest: int) -> None:
        self._lines = lines
        self._least = least
        self._widest = widest

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines."""
        yield from self._lines(options.max_width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From the least width to the widest."""
        return Measurement(min(self._least, options.max_width), min(self._widest, options.max_width))


class Prose(Lines):
    """Text in lines that fit, broken between words, and beside a name where a word is too long."""

    def __init__(self, text: Text) -> None:
        self.text = text
        widest = max((cell_len(line) for line in text.plain.split("\n")), default=0)
        super().__init__(self.lines, min(longest_name(text.plain), _WIDEST_NAME), widest)

    def lines(self, width: int) -> Iterator[Text]:
        """The lines for a width."""
        for line in self.text.split("\n", allow_blank=True):
            for part in _parts(line, width):
                part.rstrip()
                if cell_len(part.plain) > width:
                    part.truncate(width, overflow="ellipsis")
                yield part


def _parts(line: Text, width: int) -> Iterator[Text]:
    """A line in parts that fit; one that would look like the beginning of a finding is indented."""
    first, *rest = line.divide(prose_breaks(line.plain, width))
    yield first
    for part in rest:
        if _BEGINNING.match(part.plain) and width > _LEAST_WIDTH:
            yield from (Text("  ").append_text(each) for each in _parts(part, width - 2))
        else:
            yield part


class Folded(Prose):
    """Text in lines that fit, of which nothing is cut: a name that is too long for a line goes on in the next."""

    def lines(self, width: int) -> Iterator[Text]:
        """The lines for a width."""
        for part in self.text.divide(prose_breaks(self.text.plain, width)):
            part.rstrip()
            yield from part.divide(_folds(part.plain, width))


def _folds(text: str, width: int) -> Iterator[int]:
    """Where a name goes on in the next line."""
    used = 0
    for at, letter in enumerate(text):
        used += cell_len(letter)
        if used > width:
            yield at
            used = cell_len(letter)


class Whole(Text):
    """Code whose lines are never broken, however wide they are, so that they can be copied."""


def code(text: str) -> Lines:
    """Whole statements of Python in lines that fit, which mean the same when they are pasted."""
    shown = block(text)
    widest = max((cell_len(line) for line in shown.splitlines()), default=0)
    return Lines(
        lambda width: (Text(line, "cyan", no_wrap=True) for line in code_lines(shown, width)), _LEAST_WIDTH, widest
    )


def command(text: str) -> Lines:
    """A shell's command in lines that can be pasted; it is one line, quoted for a shell."""
    shown = without_middle(printable(text), _MOST_OF_A_BLOCK)

    def lines(width: int) -> Iterator[Text]:
        return (Text(line, "cyan", no_wrap=True, overflow="ignore") for line in command_lines(shown, width))

    return Lines(lines, _LEAST_WIDTH, cell_len(shown))


def cut_lines(lines: Sequence[Text]) -> Lines:
    """Lines that aren't to be pasted, such as those of a diff: each is cut where it doesn't fit."""

    def shown(width: int) -> Iterator[Text]:
        for line in map(Text.copy, lines):
            line.truncate(width, overflow="ellipsis")
            line.no_wrap = True
            yield line

    return Lines(shown, _LEAST_WIDTH, max((cell_len(line.plain) for line in lines), default=0))


def pointed(number: int, text: str, start: int | None = None, end: int = 0) -> Lines:
    """A line of source with marks below an expression; where it doesn't fit, the part around the expression."""
    margin = " " * (len(str(number)) + 3)

    def lines(whole: int) -> Iterator[Text]:
        width = max(whole - len(margin) - len("│ "), 1)
        skipped = _skipped(text, start, end, width) if start is not None else 0
        shown = cut(CUT * bool(skipped) + text[skipped:], width)
        yield Text(no_wrap=True).append(f"  {number} │ ", "blue").append(shown)
        if start is not None:
            before = cell_len(text[skipped:start]) + bool(skipped)
            marked = min(cell_len(text[start:end]), width - before)
            yield Text(margin, no_wrap=True).append("│ ", "blue").append(" " * before + "^" * marked, "red")

    return Lines(lines, _LEAST_WIDTH, len(margin) + 2 + cell_len(text))


def _skipped(text: str, start: int, end: int, width: int) -> int:
    """How many characters are left out before the expression, so that it can be seen."""
    if cell_len(text[:end]) <= width:
        return 0
    room = max(width - cell_len(text[start:end]) - 2, 0)
    skipped = start
    while skipped and cell_len(text[skipped - 1 : start]) <= room:
        skipped -= 1
    return skipped


def clean(text: str, style: str = "") -> Text:
    """Text from outside, safe for a terminal: on one line, and without its middle if it is too long."""
    return Text(printable(without_middle(text, _MOST_CHARACTERS)), style=style)


def clean_lines(text: str, style: str = "") -> Text:
    """As ``clean``, for text that has several lines; to be shown indented, where no line can pass for one of ours."""
    return Text(block(text), style=style)


def block(text: str) -> str:
    """Text of several lines, safe for a terminal; each too long line, and the whole, without its middle."""
    lines = printable_lines(without_middle(text, _MOST_OF_A_BLOCK)).split("\n")
    return "\n".join(without_middle(line, _MOST_CHARACTERS) for line in lines)


def diff_text(diff: str, *, is_whole: bool) -> RenderableType:
    """A diff, or its changed lines."""
    return cut_lines([clean(line, _diff_style(line)) for line in _diff_lines(diff, is_whole=is_whole)])


def _diff_lines(diff: str, *, is_whole: bool) -> list[str]:
    lines = diff.splitlines()
    if is_whole:
        return lines
    changed = [line for line in lines if line[:1] in ("+", "-") and line[:3] not in ("+++", "---")]
    indent = min((len(line[1:]) - len(line[1:].lstrip()) for line in changed if line[1:].strip()), default=0)
    shown = [line[0] + line[1 + indent :] for line in changed]
    return (
        shown if len(shown) <= _MAX_DIFF_LINES else [*shown[:_MAX_DIFF_LINES], f"… {len(shown) - _MAX_DIFF_LINES} more"]
    )


def _diff_style(line: str) -> str:
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")


def labeled_rows(rows: Iterable[tuple[str, RenderableType]], *, style: str = "") -> Padding:
    """Labeled rows with a hanging indent."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", no_wrap=True, style="blue", min_width=9)
    grid.add_column(overflow="fold", style=style)
    for label, text in rows:
        grid.add_row(clean(label), Prose(text) if isinstance(text, Text) else text)
    return Padding(grid, (0, 0, 0, 2))


def figure(text: Text, detail: Text, *, is_wide: bool) -> Lines:
    """A figure and what belongs to it, in one line or below each other; it is wrapped only if it must be."""
    lines = [text, detail] if detail else [text]
    if is_wide and detail:
        lines = [text.copy().append(" (", "dim").append_text(detail).append(")", "dim")]
    widths = [cell_len(line.plain) for line in lines]
    # What is no number can be wrapped.
    least = max(
        width if any(letter.isdigit() for letter in line.plain) else min(longest_name(line.plain), _WIDEST_NAME)
        for line, width in zip(lines, widths, strict=True)
    )
    return Lines(lambda width: (part for line in lines for part in Folded(line).lines(width)), least, max(widths))


def grid(width: int) -> Table:
    """A table without lines, for a terminal of this width."""
    gap = 1 if width < NARROW else 2
    return Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, gap, 0, 0))

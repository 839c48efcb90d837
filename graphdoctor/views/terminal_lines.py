"""Lines of a terminal: prose, code, commands, diffs and figures, safe to show and wrapped to its width.

Text from outside, such as paths, messages and source lines, goes through ``clean`` and never through markup, so a path
such as ``[red]/x.py`` is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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
        code = indent(block(renderable.code.rstrip()), "  ")
        console.print(Text(code, "dim"), soft_wrap=True, markup=False, highlight=False)
        return
    shown = Prose(renderable) if isinstance(renderable, Text) else renderable
    console.print(Trimmed(shown), markup=False, highlight=False)


def write_report(console: Console, report: Iterable[RenderableType], answer: Iterable[RenderableType]) -> None:
    """Print a report, and its answer once more where that has scrolled away.

    Args:
        console: Where to.
        report: All of it.
        answer: What is said first in it.
    """
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
    """Anything without the spaces that fill its lines: after a backslash at the end of a line, they would be an error.

    Args:
        shown: What to show.
    """

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


class Prose:
    """Text in lines that fit, broken between words, and beside a name where a word is too long.

    Args:
        text: The text, which may have several lines.
    """

    def __init__(self, text: Text) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines."""
        width = options.max_width
        for line in self.text.split("\n", allow_blank=True):
            for part in _parts(line, width):
                part.rstrip()
                if cell_len(part.plain) > width:
                    part.truncate(width, overflow="ellipsis")
                yield part

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From the longest name to the longest line."""
        widest = max((cell_len(line) for line in self.text.plain.split("\n")), default=0)
        name = min(longest_name(self.text.plain), _WIDEST_NAME)
        return Measurement(min(name, options.max_width), min(widest, options.max_width))


def _parts(line: Text, width: int) -> Iterator[Text]:
    """A line in parts that fit; one that would look like the beginning of a finding is indented."""
    first, *rest = line.divide(prose_breaks(line.plain, width))
    yield first
    for part in rest:
        if _BEGINNING.match(part.plain) and width > _LEAST_WIDTH:
            yield from (Text("  ").append_text(each) for each in _parts(part, width - 2))
        else:
            yield part


class Code:
    """Python in lines that fit, which mean the same when they are pasted.

    Args:
        code: Whole statements.
        style: For all of it.
    """

    def __init__(self, code: str, style: str = "cyan") -> None:
        self.code = block(code)
        self.style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines."""
        for line in code_lines(self.code, options.max_width):
            yield Text(line, self.style, no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From a few cells to the longest line."""
        widest = max((cell_len(line) for line in self.code.splitlines()), default=0)
        return Measurement(min(widest, _LEAST_WIDTH), min(widest, options.max_width))


class Command:
    """A shell's command in lines that can be pasted.

    Args:
        command: One line, quoted for a shell.
    """

    def __init__(self, command: str) -> None:
        self.command = without_middle(printable(command), _MOST_OF_A_BLOCK)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines."""
        for line in command_lines(self.command, options.max_width):
            yield Text(line, "cyan", no_wrap=True, overflow="ignore")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From a few cells to the whole line."""
        widest = cell_len(self.command)
        return Measurement(min(widest, _LEAST_WIDTH), min(widest, options.max_width))


class Whole:
    """Code whose lines are never broken, however wide they are, so that they can be copied."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines."""
        yield Text(self.code, "dim", no_wrap=True, overflow="ignore")


class Cut:
    """Lines that aren't to be pasted, such as those of a diff: each is cut where it doesn't fit."""

    def __init__(self, lines: Sequence[Text]) -> None:
        self.lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines."""
        for line in self.lines:
            shown = line.copy()
            shown.truncate(options.max_width, overflow="ellipsis")
            shown.no_wrap = True
            yield shown

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From a few cells to the longest line."""
        widest = max((cell_len(line.plain) for line in self.lines), default=0)
        return Measurement(min(widest, _LEAST_WIDTH), min(widest, options.max_width))


class Pointed:
    """A line of source with marks below an expression; where it doesn't fit, the part around the expression.

    Args:
        number: The line's number.
        text: The line.
        start: Where the expression starts; None if nothing is marked.
        end: Where it ends.
    """

    def __init__(self, number: int, text: str, start: int | None = None, end: int = 0) -> None:
        self.number = number
        self.text = text
        self.start = start
        self.end = end

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The line, and the marks."""
        number = str(self.number)
        width = max(options.max_width - len(number) - len("   │ "), 1)
        skipped = self._skipped(width)
        shown = cut(CUT * bool(skipped) + self.text[skipped:], width)
        yield Text(no_wrap=True).append(f"  {number} │ ", "blue").append(shown)
        if self.start is not None:
            before = cell_len(self.text[skipped : self.start]) + bool(skipped)
            marked = min(cell_len(self.text[self.start : self.end]), width - before)
            margin = " " * (len(number) + 3)
            yield Text(margin, no_wrap=True).append("│ ", "blue").append(" " * before + "^" * marked, "red")

    def _skipped(self, width: int) -> int:
        """How many characters are left out before the expression, so that it can be seen."""
        if self.start is None or cell_len(self.text[: self.end]) <= width:
            return 0
        room = max(width - cell_len(self.text[self.start : self.end]) - 2, 0)
        skipped = self.start
        while skipped and cell_len(self.text[skipped - 1 : self.start]) <= room:
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
    """A diff, or its changed lines.

    Args:
        diff: The diff.
        is_whole: Show all of it.
    """
    return Cut([clean(line, _diff_style(line)) for line in _diff_lines(diff, is_whole=is_whole)])


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
        text: The figure.
        detail: What belongs to it, such as its interval; may be empty.
        is_wide: In one line.
    """

    def __init__(self, text: Text, detail: Text, *, is_wide: bool) -> None:
        if is_wide and detail:
            self.lines = [text.copy().append(" (", "dim").append_text(detail).append(")", "dim")]
        else:
            self.lines = [text, detail] if detail else [text]

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

"""Lines of a terminal: prose, code, commands, diffs and figures, safe to show and wrapped to its width.

Text from outside, such as paths, messages and source lines, goes through ``clean`` and never through markup, so a path
such as ``[red]/x.py`` is shown as it is.
"""

from __future__ import annotations

import io
import re
import shlex
import tokenize
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import indent
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from graphdoctor.facts.wording import without_middle
from graphdoctor.views.printable import printable, printable_lines

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
CUT = "…"
_WORD = re.compile(r"\s*\S+\s*")
_PARTS = re.compile(r"\w+[,;.]?(?=\s|$)|\w+|[^\w\s]+|\s+")
"""What stands together in a word; a comma stays with the name before it."""
_PLAIN_TEXT = re.compile(r"""(["'])(?!\1\1)((?:(?!\1)[^\\])*)\1""")
"""A text without a prefix and without a backslash, in single quotes of either kind."""
_BLANK = frozenset({"NEWLINE", "NL", "INDENT", "DEDENT", "ENDMARKER", "COMMENT"})
_LEAST_TEXT = 12
_CONTINUED = "    "
_BACKSLASH = " \\"


def write(console: Console, renderable: RenderableType) -> None:
    """Print without markup, highlighting and spaces at the ends of lines."""
    if isinstance(renderable, Whole):
        # A line at the margin could pass for one of ours.
        shown = indent(block(renderable.plain.rstrip()), "  ")
        console.print(Text(shown, "dim"), soft_wrap=True, markup=False, highlight=False)
        return
    wrapped = Prose(renderable) if isinstance(renderable, Text) else renderable
    console.print(Trimmed(wrapped), markup=False, highlight=False)


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
    lines = diff.splitlines()
    if not is_whole:
        changed = [line for line in lines if line[:1] in ("+", "-") and line[:3] not in ("+++", "---")]
        margin = min((len(line[1:]) - len(line[1:].lstrip()) for line in changed if line[1:].strip()), default=0)
        lines = [line[0] + line[1 + margin :] for line in changed[:_MAX_DIFF_LINES]]
        lines += [f"… {len(changed) - _MAX_DIFF_LINES} more"] if len(changed) > _MAX_DIFF_LINES else []
    styles = {"+": "green", "-": "red", "@": "cyan"}
    return cut_lines([clean(line, styles.get(line[:1], "dim")) for line in lines])


def labeled_rows(rows: Iterable[tuple[str, RenderableType]]) -> Padding:
    """Labeled rows with a hanging indent."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", no_wrap=True, style="blue", min_width=9)
    grid.add_column(overflow="fold")
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


# Text and code in lines that fit: no line ends within a name.


def prose_breaks(text: str, width: int) -> list[int]:
    """Where to break one line of prose so that each part fits.

    A word that is wider than the line, such as a path, is broken beside a name in it; only a name that is wider by
    itself stays whole.
    """
    found: list[int] = []
    used = 0
    for match in _WORD.finditer(text):
        word = match[0]
        if used and used + cell_len(word.rstrip()) > width:
            found.append(match.start())
            used = 0
        if cell_len(word.rstrip()) <= width:
            used += cell_len(word)
            continue
        for part in _PARTS.finditer(word):
            at = match.start() + part.start()
            if used and used + cell_len(part[0].rstrip()) > width:
                found.append(at)
                used = 0
            used += cell_len(part[0])
    return found


def longest_name(text: str) -> int:
    """The cells of the longest part of a text that isn't broken."""
    return max((cell_len(part) for part in _PARTS.findall(text)), default=0)


def cut(line: str, width: int) -> str:
    """A line that fits, ended by a sign if something is missing."""
    return line if cell_len(line) <= width else set_cell_size(line, max(width - 1, 0)) + CUT[:width]


def code_lines(code: str, width: int) -> list[str]:
    """Python in lines that fit, which means the same.

    A line is broken only between tokens: within brackets as it is, elsewhere with a backslash. A long text becomes
    several that Python joins. A token that doesn't fit by itself is cut.
    """
    # The tokenizer ends lines where Python does, ``splitlines`` at separators and control characters too.
    code = printable_lines(code).removesuffix("\n")
    if all(cell_len(line) <= width for line in code.split("\n")):
        return code.split("\n")
    code = _with_short_texts(code, width)
    lines = code.split("\n")
    breaks: dict[int, dict[int, bool]] = {}
    for token, is_within in _tokens(code):
        breaks.setdefault(token.start[0], {})[token.start[1]] = is_within
    return [part for number, line in enumerate(lines, start=1) for part in _broken(line, breaks.get(number, {}), width)]


def command_lines(command: str, width: int) -> list[str]:
    """A shell's command in lines that fit, which means the same: broken between arguments, with a backslash.

    An argument that doesn't fit by itself stays whole, so that the terminal wraps it.
    """
    words = [shlex.quote(word) for word in shlex.split(command)]
    lines, line = [], words[0]
    for number, word in enumerate(words[1:], start=2):
        following = "" if number == len(words) else _BACKSLASH
        if cell_len(f"{line} {word}{following}") > width:
            lines.append(line + _BACKSLASH)
            line = _CONTINUED + word
        else:
            line = f"{line} {word}"
    return [*lines, line]


def _with_short_texts(code: str, width: int) -> str:
    """Code whose plain texts within brackets are written in parts that fit, side by side: Python joins them."""
    lines = code.split("\n")
    for token, is_within in reversed(_tokens(code)):
        row, start = token.start
        line = lines[row - 1]
        room = width - len(line) + len(line.lstrip()) - len(_CONTINUED) - len(",")
        is_text = is_within and token.type == tokenize.STRING and row == token.end[0]
        is_in_the_way = is_text and cell_len(token.string) > room > _LEAST_TEXT and cell_len(line) > width
        if is_in_the_way and (plain := _PLAIN_TEXT.fullmatch(token.string)):
            parts = " ".join(f"{plain[1]}{part}{plain[1]}" for part in _texts(plain[2], room - 2))
            lines[row - 1] = line[:start] + parts + line[token.end[1] :]
    return "\n".join(lines)


def _texts(text: str, room: int) -> Iterator[str]:
    """A text between quotes in parts, each of which ends behind a space."""
    while cell_len(text) > room and (at := text.rfind(" ", 0, room)) > 0:
        yield text[: at + 1]
        text = text[at + 1 :]
    yield text


def _tokens(code: str) -> list[tuple[tokenize.TokenInfo, bool]]:
    """The tokens, each with whether it is within brackets, f-strings whole; none if the code can't be read."""
    found, depth, text_depth = [], 0, 0
    try:
        with warnings.catch_warnings():
            # From Python 3.12 on, the tokenizer warns about escapes in texts.
            warnings.simplefilter("ignore")
            for token in tokenize.generate_tokens(io.StringIO(code).readline):
                name = tokenize.tok_name[token.type]
                if name not in _BLANK and not text_depth:
                    found.append((token, depth > 0))
                text_depth += name.endswith("STRING_START") - name.endswith("STRING_END")
                if name == "OP" and not text_depth:
                    depth += (token.string in ("(", "[", "{")) - (token.string in (")", "]", "}"))
    except (tokenize.TokenError, SyntaxError, UnicodeError, SystemError):
        # The last two come from the tokenizer of 3.12, where a text that is no Python ends within a character.
        return []
    return found


def _broken(line: str, breaks: dict[int, bool], width: int) -> Iterator[str]:
    """One line in parts that fit; ``breaks`` are columns to break before, each with whether it is within brackets."""
    indent = line[: len(line) - len(line.lstrip())]
    start, prefix = len(indent), indent
    while cell_len(prefix + line[start:]) > width:
        fitting = [
            column
            for column in sorted(breaks)
            if line[start:column].strip()
            and cell_len(prefix + line[start:column].rstrip() + ("" if breaks[column] else _BACKSLASH)) <= width
        ]
        # Behind a space or an opening bracket it reads best.
        good = [column for column in fitting if line[column - 1] in " ([{"]
        at = next(reversed(good or fitting), None)
        if at is None:
            # Nothing fits: break behind the token that is too long, and cut it.
            at = next((column for column in sorted(breaks) if column > start), None)
            if at is None:
                break
        yield cut(prefix + line[start:at].rstrip() + ("" if breaks[at] else _BACKSLASH), width)
        start, prefix = at, indent + _CONTINUED
    yield cut(prefix + line[start:], width)

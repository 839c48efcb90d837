"""A view, and text from outside, as GitHub's Markdown.

Comes in: a ``View``, or any text. Goes out: Markdown in which text from outside is shown as it is:
no markup, no links, no mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from textwrap import indent
from typing import TypeVar

from graphdoctor.views.parts import (
    Block,
    Blocks,
    Card,
    Cards,
    Cell,
    Code,
    Diff,
    Done,
    Drawing,
    Figures,
    Inline,
    Note,
    Part,
    Place,
    Row,
    Rows,
    Section,
    Span,
    Table,
    Verdict,
    View,
    blocks,
    plain_text,
    spans,
)
from graphdoctor.views.printable import printable, printable_lines
from graphdoctor.wording import counted, join_texts

_Part = TypeVar("_Part", bound=Part)

MAX_CHARACTERS = 60_000
"""GitHub rejects comments of more than 65,536; a workflow may add some text of its own."""
MOST_OF_A_TEXT = 2000
"""Characters of one line of text."""
_ROOM_FOR_CUT = 300
"""Characters reserved to report what was cut, in a part and at the end."""
_LEFT_OUT = "left out to keep the comment short enough."

_ACTIVE = re.compile(r"[\\`*_\[\]~$!]")
# GitHub turns names after @, numbers after # or GH-, and addresses into links, and :words: into
# pictures. Escapes don't prevent that; a zero-width space between the two parts does.
_LINKED = re.compile(
    r"@(?=\S)|#(?=\d)|\bGH-(?=\d)|:(?=//)|\bwww(?=\.)|:(?=[\w+-]+:)", re.IGNORECASE
)
# Code may itself hold backticks, in a string: they stand next to quotes or names.
_SPANS = re.compile(r"(?<![^\s(\[])`(\S|\S.*?\S)`(?![^\s.,:;!?)\]'-])")


def one_line(text: str, limit: int) -> str:
    """Return text without newlines and control characters, cut at ``limit`` characters."""
    line = printable(" ".join(re.split(r"[ \t\r\n]+", text)).strip())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def plain(text: str, limit: int = 300) -> str:
    """Return text without markup."""
    return _plain(one_line(text, limit))


def sentence(text: str, limit: int = 300) -> str:
    """Return a sentence of graphdoctor's, with code between backticks."""
    pieces = _SPANS.split(one_line(text, limit))
    return "".join(
        code(part, limit) if number % 2 else _plain(part) for number, part in enumerate(pieces)
    )


def code(text: str, limit: int = 200) -> str:
    """Return text as code; empty for empty text."""
    line = one_line(text, limit)
    if not line:
        return ""
    return html_code(line, limit) if "`" in line or "|" in line else f"`{line}`"


def html_code(text: str, limit: int = 200) -> str:
    """Like ``code``, for places where Markdown isn't read, such as a ``<summary>``."""
    return f"<code>{html_text(text, limit)}</code>"


def html_text(text: str, limit: int = 200) -> str:
    """Like ``plain``, for places where Markdown isn't read."""
    line = escape(one_line(text, limit), quote=False)
    return _ACTIVE.sub(lambda match: f"&#{ord(match[0])};", line).replace("|", "&#124;")


def fenced(text: str, language: str = "") -> str:
    """Return a code block, with a fence longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{printable_lines(text)}\n{fence}"


def _plain(line: str) -> str:
    # A control character holds the place until all escaping is done.
    marked = _LINKED.sub("\\g<0>\0", line)
    escaped = escape(_ACTIVE.sub(r"\\\g<0>", marked), quote=False)
    return escaped.replace("|", "&#124;").replace("\0", "&#8203;")


def render_view_markdown(view: View) -> str:
    """Return a view as GitHub's Markdown, of at most ``MAX_CHARACTERS``; a note says what was
    cut.
    """
    first, *rest = view.title
    writer = _Writer()
    writer.add("## graphdoctor\n\n" + " · ".join([code(first), *map(plain, rest)]))
    writer.blocks(view.parts)
    if isinstance(view.then, Done):
        return f"{writer.text()}\nDone: {view.then.why}.\n"
    return writer.text() + (f"\nNext: {code(view.then, MAX_CHARACTERS)}\n" if view.then else "")


def inline(text: Inline) -> str:
    """Return a line with its marks."""
    return "".join(_marked(piece) for piece in spans(text)).strip()


def _marked(piece: str | Span | Place) -> str:
    if isinstance(piece, Place):
        return code(piece.shown)
    if isinstance(piece, str):
        made = sentence(piece, MOST_OF_A_TEXT)
    elif piece.mark == "code":
        return code(piece.text, MOST_OF_A_TEXT)
    else:
        made = plain(piece.text, MOST_OF_A_TEXT)
        made = f"**{made}**" if made and (piece.mark == "strong" or piece.tone == "bad") else made
    return _spaced(plain_text(piece), made)


class _Writer:
    """Markdown as long as there is room for it."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._room = MAX_CHARACTERS - _ROOM_FOR_CUT
        self._left_out = 0
        self._level = 2

    def text(self) -> str:
        """Everything that fit."""
        if self._left_out:
            self._out.append(f"_{counted(self._left_out, 'more line')}, {_LEFT_OUT}_")
        return "\n\n".join(self._out) + "\n"

    def add(self, text: str) -> None:
        """Add a paragraph or a block, if there is room."""
        if len(text) + 2 > self._room:
            self._left_out += text.count("\n") + 1
        else:
            self._room -= len(text) + 2
            self._out.append(text)

    def blocks(self, body: Block | Blocks) -> None:
        """Add the parts that Markdown shows."""
        for part in _shown(blocks(body)):
            match part:
                case Section():
                    self._section(part)
                case Drawing():
                    self.blocks(part.elsewhere)
                case Table(columns, rows) if rows:
                    rules = ["---:" if column.is_number else "---" for column in columns]
                    head = _cells(column.heading for column in columns)
                    lines = [_cells(map(_cell, row)) for row in rows]
                    self._items(lines, part.noun, f"{head}\n| {' | '.join(['---', *rules[1:]])} |")
                case Cards(cards):
                    self._items([_card(card) for card in _shown(cards)], "finding")
                case Rows():
                    self._items([_row(row) for row in _shown(part.rows)], part.noun)
                case _ if text := _block(part):
                    self.add(text)

    def _section(self, section: Section) -> None:
        opening, closing = f"{'#' * (self._level + 1)} {inline(section.title)}", ""
        if section.show == "long":
            opening, closing = f"<details><summary>{_html(section.title)}</summary>", "</details>"
        before, room = len(self._out), self._room
        self._room -= len(opening) + len(closing) + 4
        self._out.append(opening)
        self._level += 1
        self.blocks(section.parts)
        self._level -= 1
        if len(self._out) == before + 1:
            self._out.pop()
            self._room = room
        elif closing:
            self._out.append(closing)

    def _items(self, items: Sequence[str], noun: str, head: str = "") -> None:
        """Lines that belong together, as many as there is room for."""
        room = self._room - len(head) - _ROOM_FOR_CUT
        shown = []
        for item in items:
            room -= len(item) + 1
            if room < 0:
                break
            shown.append(item)
        left = len(items) - len(shown)
        if not shown:
            self._left_out += left
            return
        self.add("\n".join([head, *shown] if head else shown))
        if left:
            self.add(f"_{counted(left, f'more {noun}')}, {_LEFT_OUT}_")


def _shown(body: Iterable[_Part]) -> Iterator[_Part]:
    return (part for part in body if part.show != "short")


def _cells(cells: Iterable[Inline]) -> str:
    return f"| {' | '.join(inline(cell) for cell in cells)} |"


def _cell(cell: Cell) -> Inline:
    text = Span(plain_text(cell.text), "strong") if cell.tone == "bad" else cell.text
    return (text, " (", cell.detail, ")") if cell.detail else text


def _row(row: Row) -> str:
    """Return a labeled row as an item of a list; what belongs to it is indented."""
    label = row.label
    mark = Span(label, "strong") if isinstance(label, str) and label else label
    first, *rest = _texts(row.body) or [""]
    if first.startswith("```"):
        first, rest = "", [first, *rest]
    text = f"- {join_texts(' ', inline(mark), first)}"
    for more in rest:
        is_line = "\n" not in more and not more.startswith("- ")
        break_ = "  \n" if is_line else "\n\n" if more.startswith("```") else "\n"
        text += break_ + indent(more, "  ")
    return text


def _texts(body: Block | Blocks) -> list[str]:
    return list(filter(None, map(_block, _shown(blocks(body)))))


def _block(part: Part) -> str:
    """Return a part that is shown whole or not at all."""
    match part:
        case Verdict(text):
            return f"**{inline(text)}**"
        case Note(text):
            return inline(text)
        case Code(text, language):
            return fenced(text.rstrip(), "" if language == "text" else language)
        case Diff(text):
            return fenced(text.rstrip(), "diff")
        case Figures(figures):
            return " · ".join(
                f"{plain(figure.label)} **{plain(figure.value)}**"
                f"{f' ({plain(figure.note)})' if figure.note else ''}"
                for figure in figures
            )
        case Card():
            return _card(part)
        case Rows(rows):
            return "\n".join(map(_row, _shown(rows)))
        case _:
            return ""


def _card(card: Card) -> str:
    rows = [
        f"- **{plain(heading.code)}** {sentence(heading.message, MOST_OF_A_TEXT)}"
        for heading in card.headings
    ]
    where = f"  {code(card.place.shown)} in {code(card.function)}"
    body = (f"\n{indent(text, '  ')}" for text in _texts(card.parts))
    return "  \n".join([*rows, where]) + "".join(body)


def _html(text: Inline) -> str:
    """Return a line for a ``<summary>``, in which Markdown isn't read."""
    made = ""
    for piece in spans(text):
        is_code = isinstance(piece, Span) and piece.mark == "code"
        shown = plain_text(piece)
        made += _spaced(shown, html_code(shown) if is_code else html_text(shown))
    return made.strip()


def _spaced(text: str, made: str) -> str:
    return f"{' ' * text[:1].isspace()}{made}{' ' * (bool(made) and text[-1:].isspace())}"

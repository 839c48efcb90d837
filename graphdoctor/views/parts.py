"""A report as a tree of a few parts. Each backend (terminal, Markdown, HTML) shows all of them; no
part knows of one.

A document has one function that makes its ``View`` from facts, and words each statement there,
once::

    def export_view(report: ExportReport) -> View:
        rows = [Row(Span(flag(way), "code"), way_text(way)) for way in report.ways]
        return View(("model.py:Net", "torch 2.13"), "export", (
            Verdict(report.text, "good"),
            Note("The target was wrapped in a module.", "dim"),
            Section("Ways", Rows(rows)),
            Section("Inputs", Rows(inputs), show="long"),
        ))

Text: a ``str`` is a sentence of graphdoctor's, in which ``code`` may stand between backticks; a
    ``Span`` is shown
letter by letter, such as a name from outside; a tuple of both is one line. Nothing is escaped here:
backends make text safe to show. Where parts are listed, a ``str`` or a ``Span`` stands for a
``Note`` of it.

``show`` says how much has to be asked for: a terminal shows ``long`` parts with ``-v`` and
``short`` ones without it. Markdown and HTML show what is ``long`` too, a section folded, and never
what is ``short``. So a statement that has two forms is two parts, and every statement but a short
form is in all outputs, as a test finds. Imports the standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Tone = Literal["good", "warning", "bad", "dim"]
"""Good or bad news; ``dim`` has less weight."""

NOTHING = "–"
"""Shown in a table for what is unknown or wasn't measured."""

Mark = Literal["code", "strong"]
Show = Literal["always", "long", "short"]


@dataclass(frozen=True)
class Span:
    """Text that is shown letter by letter; ``link`` is an anchor in the page, after ``#``, or an
    address.
    """

    text: str
    mark: Mark | None = None
    tone: Tone | None = None
    link: str | None = None


@dataclass(frozen=True)
class Place:
    """A line of a file, shown as ``text`` if it has one; a page that shows the line links it."""

    file: str
    line: int
    text: str | None = None
    column: int | None = None

    @property
    def shown(self) -> str:
        """``file:line``, with the column if it is known."""
        column = "" if self.column is None else f":{self.column}"
        return f"{self.file if self.text is None else self.text}:{self.line}{column}"


Inline = str | Span | Place | tuple["Inline", ...]


@dataclass(frozen=True, kw_only=True)
class Part:
    """The base of all parts."""

    show: Show = "always"


Block = str | Span | Place | Part
"""A part, or a line of text that stands for a note."""

Blocks = tuple[Block, ...]


@dataclass(frozen=True)
class Verdict(Part):
    """The answer. A terminal repeats it at the end of a long report."""

    text: Inline
    tone: Tone | None = None


@dataclass(frozen=True)
class Note(Part):
    """A paragraph."""

    text: Inline
    tone: Tone | None = None


@dataclass(frozen=True)
class Figure:
    """A key figure: a number with its unit, or ``unknown``; ``link`` is the anchor of the section
    with its details.
    """

    label: str
    value: str
    note: str = ""
    tone: Tone | None = None
    link: str | None = None


@dataclass(frozen=True)
class Figures(Part):
    """Key figures, side by side."""

    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Where a terminal is too narrow for all, those of the highest ``rank`` are hidden first; 0 for
    never. Code in one that ``is_pasted`` is never broken.
    """

    heading: Inline
    is_number: bool = True
    meaning: str = ""
    rank: int = 0
    is_pasted: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell of a table; ``value`` is what rows are sorted by, None for the text."""

    text: Inline
    detail: Inline = ""
    tone: Tone | None = None
    value: float | None = None


TableRow = Iterable[Cell | Inline]
"""A row of a table: a text stands for a cell of it."""


@dataclass(frozen=True, init=False)
class Table(Part):
    """Rows of cells; the first names the row, which is a ``noun``. A column in which no row has
    anything is left out.

    A ``str`` stands for a column of text, or of numbers if it begins with ``#``. A terminal shows
    ``most`` rows without ``-v``, or all.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    noun: str
    most: int | None
    label: str

    def __init__(
        self,
        columns: Iterable[Column | str],
        rows: Iterable[TableRow],
        noun: str = "row",
        most: int | None = None,
        label: str = "",
        *,
        show: Show = "always",
    ) -> None:
        """Leave out empty columns."""
        cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
        named = [
            Column(column.removeprefix("#"), is_number=column.startswith("#"))
            if isinstance(column, str)
            else column
            for column in columns
        ]
        texts = [[plain_text(row[at].text) for row in cells] for at in range(len(named))]
        kept = [
            at
            for at, column_texts in enumerate(texts)
            if not at or not column_texts or {*column_texts} - {"", NOTHING}
        ]
        made = tuple(tuple(row[at] for at in kept) for row in cells)
        vars(self).update(columns=tuple(named[at] for at in kept), rows=made)
        vars(self).update(noun=noun, most=most, label=label, show=show)


@dataclass(frozen=True)
class Row(Part):
    """A labeled row; one without a label belongs to the one before it, and one without an anchor
    isn't linked to.
    """

    label: Inline
    body: Block | Blocks
    anchor: str | None = None


@dataclass(frozen=True, init=False)
class Rows(Part):
    """Labeled rows, each a ``noun``; a terminal shows ``most`` of them without ``-v``, or all."""

    rows: tuple[Row, ...]
    noun: str
    most: int | None

    def __init__(
        self,
        rows: Iterable[Row],
        noun: str = "row",
        most: int | None = None,
        *,
        show: Show = "always",
    ) -> None:
        """Keep the rows."""
        vars(self).update(rows=tuple(rows), noun=noun, most=most, show=show)


@dataclass(frozen=True)
class Source(Part):
    """A line of the program; the expression from ``start`` to ``end`` is marked, nothing if that is
    None.
    """

    number: int
    text: str
    start: int | None = None
    end: int = 0


@dataclass(frozen=True)
class Heading:
    """The subject of a card; nothing links to one without an anchor."""

    code: str
    message: str
    severity: Literal["error", "warning", "info"]
    anchor: str | None = None


@dataclass(frozen=True)
class Card(Part):
    """Findings about one line: what they are, where, and what belongs to them; the user's code has
    no ``package``.

    ``brief`` is what to know of that where a terminal has no room for the rest.
    """

    headings: tuple[Heading, ...]
    place: Place
    function: str
    package: str | None = None
    parts: Blocks = ()
    brief: str = ""


@dataclass(frozen=True)
class Cards(Part):
    """Cards, the worst first. A terminal without ``-v`` shows two screens of them, the rest in two
    lines each.
    """

    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Code(Part):
    """Code to paste, of which no line is broken, or a text; a terminal shows ``most`` lines without
    ``-v``, or all.
    """

    text: str
    language: Literal["python", "shell", "text"] = "python"
    most: int | None = None


@dataclass(frozen=True)
class Diff(Part):
    """A unified diff; a terminal shows its changed lines alone without ``-v``."""

    text: str


@dataclass(frozen=True, init=False)
class Section(Part):
    """Parts under a heading; one without parts isn't shown. ``anchor`` is what links on the page
    call it, its title if that is None.
    """

    title: Inline
    parts: Blocks
    anchor: str | None
    count: int | None
    tone: Tone | None

    def __init__(
        self,
        title: Inline,
        parts: Block | Iterable[Block],
        anchor: str | None = None,
        count: int | None = None,
        tone: Tone | None = None,
        *,
        show: Show = "always",
    ) -> None:
        """Keep the parts, or the one part."""
        inner = (parts,) if isinstance(parts, Block) else tuple(parts)
        vars(self).update(title=title, parts=inner, anchor=anchor)
        vars(self).update(count=count, tone=tone, show=show)


@dataclass(frozen=True)
class Drawing(Part):
    """What only a page can show; it makes no statement that isn't elsewhere in the tree.

    ``facts`` are the template's variables, ``blobs`` data of its scripts by name; a terminal and
    Markdown show ``elsewhere``.
    """

    template: str
    facts: Mapping[str, Any]
    blobs: Mapping[str, Any] = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    elsewhere: Blocks = ()


@dataclass(frozen=True)
class Done:
    """The end of the way: why no command is left to run, a clause."""

    why: str


@dataclass(frozen=True)
class View:
    """A whole document; ``links`` are anchors of the lines that the page shows, ``then`` the
    command to run next, or why there is none.
    """

    title: tuple[str, ...]
    kind: str
    parts: Blocks
    version: str = ""
    then: str | Done | None = None
    links: Mapping[tuple[str, int], str] = field(default_factory=dict)


def blocks(body: Block | Blocks) -> Iterator[Part]:
    """Yield the parts of a row or a section, lines of text as notes."""
    for block in body if isinstance(body, tuple) else (body,):
        yield block if isinstance(block, Part) else Note(block)


def spans(text: Inline) -> Iterator[str | Span | Place]:
    """Yield the pieces of a line."""
    if isinstance(text, tuple):
        for piece in text:
            yield from spans(piece)
    else:
        yield text


def plain_text(text: Inline) -> str:
    """Return a line without its marks."""
    return "".join(
        piece if isinstance(piece, str) else piece.text if isinstance(piece, Span) else piece.shown
        for piece in spans(text)
    )


def cell_line(cell: Cell) -> str:
    """Return a cell with its detail in one line."""
    text, detail = plain_text(cell.text), plain_text(cell.detail)
    return f"{text} ({detail})" if text and detail else text


def joined(pieces: Sequence[Inline], between: str = ", ") -> Inline:
    """Return pieces as one line."""
    return tuple(
        part
        for number, piece in enumerate(pieces)
        for part in ((between, piece) if number else (piece,))
    )


def has_content(body: Blocks) -> bool:
    """Test if a page shows anything of these parts."""
    for part in blocks(body):
        match part:
            case Part(show="short"):
                continue
            case Section(parts=inner):
                is_shown = has_content(inner)
            case Rows(items) | Cards(items) | Table(rows=items) | Figures(items):
                is_shown = bool(items)
            case _:
                is_shown = True
        if is_shown:
            return True
    return False

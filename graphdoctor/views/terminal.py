"""A view on a terminal, as wide as it is: the one place that knows how a part looks there.

Comes in: a ``View``. Goes out: text, through rich. Text from outside is made safe by ``clean`` and its like.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from graphdoctor.facts.wording import counted
from graphdoctor.views import parts
from graphdoctor.views.parts import Inline, Part, Place, Span, Tone, View, blocks, spans
from graphdoctor.views.printable import printable
from graphdoctor.views.terminal_lines import (
    ONE_LINE,
    Code,
    Command,
    Figure,
    Folded,
    Pointed,
    Prose,
    clean,
    clean_lines,
    diff_text,
    grid,
    labeled_rows,
    write_report,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_R = TypeVar("_R")

_TONES: dict[Tone | None, str] = {None: "", "good": "green", "warning": "yellow", "bad": "red", "dim": "dim"}
_SEVERITIES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_SPACED = (parts.Section, parts.Table, parts.Card, parts.Figures)
"""Parts with an empty line around them."""
_INDENTED = (parts.Code, parts.Diff)
"""Parts that don't begin at the margin, where a line of theirs could pass for one of ours."""


def write_view(view: View, console: Console, *, is_verbose: bool = False) -> None:
    """Write a view to a terminal, and its answer once more where that has scrolled away."""
    shown = _Shown(is_verbose=is_verbose, width=console.width)
    first, *rest = view.title
    title = clean(first, "bold")
    for part in rest:
        title.append(" · ", "dim").append_text(clean(part, "dim"))
    answers = [_verdict(part) for part in view.parts if isinstance(part, parts.Verdict)]
    write_report(console, [title, Text(), *shown.blocks(view.parts)], answers)


def shown_parts(body: parts.Block | parts.Blocks, *, width: int, is_verbose: bool) -> Iterator[RenderableType]:
    """Parts as what rich prints, for a report that is no tree yet."""
    return _Shown(is_verbose=is_verbose, width=width).blocks(body)


def line(text: Inline, tone: Tone | None = None, style: str = "") -> Text:
    """A line of text with its marks."""
    out = Text(style=style or _TONES[tone])
    for piece in spans(text):
        match piece:
            case Place():
                out.append_text(clean(piece.shown))
            case Span():
                strong = "bold " if piece.mark == "strong" else ""
                out.append_text(clean(piece.text, strong + _TONES[piece.tone]))
            case _:
                out.append_text(clean(piece))
    return out


def _verdict(part: parts.Verdict) -> Text:
    tone = _TONES[part.tone]
    return line(part.text, style=tone if part.tone == "dim" else f"bold {tone}".strip())


class _Shown:
    """The parts that are shown, as what rich prints."""

    def __init__(self, *, is_verbose: bool, width: int) -> None:
        self._is_verbose = is_verbose
        self._is_wide = width >= ONE_LINE
        self._width = width

    def _is_shown(self, part: Part) -> bool:
        return part.show == "always" or (part.show == "long") == self._is_verbose

    def blocks(self, body: parts.Block | parts.Blocks, *, is_at_margin: bool = True) -> Iterator[RenderableType]:
        """What is printed, in order."""
        before: Part | None = None
        for part in blocks(body):
            found = list(self._part(part)) if self._is_shown(part) else []
            if is_at_margin and isinstance(part, _INDENTED):
                found = [Padding(each, (0, 0, 0, 2)) for each in found]
            if found and before is not None and (isinstance(part, _SPACED) or isinstance(before, _SPACED)):
                yield Text()
            yield from found
            before = part if found else before

    def _part(self, part: Part) -> Iterator[RenderableType]:
        match part:
            case parts.Verdict():
                yield _verdict(part)
            case parts.Note(text, tone):
                yield Prose(line(text, tone))
            case parts.Code(text, "shell"):
                yield Command(text)
            case parts.Code(text):
                yield Code(text) if part.language == "python" else Prose(clean_lines(text))
            case parts.Diff(text):
                yield diff_text(text, is_whole=self._is_verbose)
            case parts.Source():
                yield Pointed(part.number, printable(part.text), part.start, part.end)
            case parts.Figures():
                yield Prose(_figures(part))
            case parts.Table(rows=rows) if rows:
                yield self._table(part)
            case parts.Rows():
                yield from self._rows(part)
            case parts.Card():
                yield from self._card(part)
            case parts.Section(title, body):
                # A section's own heading is no part of it that could need a line above.
                if inner := list(self.blocks(body)):
                    yield Prose(line(title, style=f"bold {_TONES[part.tone]}".strip()))
                    yield from inner

    def _rows(self, part: parts.Rows) -> Iterator[RenderableType]:
        rows = [row for row in part.rows if self._is_shown(row)]
        shown = self._few(rows, part.most)
        labeled: list[tuple[str, RenderableType]] = []
        for row in shown:
            made = list(self.blocks(row.body, is_at_margin=False))
            labeled.append((parts.plain_text(row.label), made[0] if len(made) == 1 else Group(*made)))
        if len(shown) < len(rows):
            labeled.append(("", Prose(self._more(len(rows) - len(shown), part.noun))))
        if labeled:
            yield labeled_rows(labeled)

    def _few(self, rows: list[_R], most: int | None) -> list[_R]:
        return rows if self._is_verbose or most is None else rows[:most]

    def _more(self, number: int, noun: str) -> Text:
        return clean(f"and {counted(number, f'more {noun}')} (-v shows all)", "dim")

    def _card(self, card: parts.Card) -> Iterator[RenderableType]:
        for heading in card.headings:
            text = clean(f"{heading.code} ", _SEVERITIES[heading.severity])
            yield Prose(text.append_text(clean(heading.message, "bold")))
        where = Text("  ").append("--> ", "blue").append_text(clean(card.place.text or card.place.file, "bold"))
        where.append(card.place.shown.removeprefix(card.place.text or card.place.file))
        where.append(" in ").append_text(clean(card.function))
        if card.package:
            where.append_text(clean(f"  [{card.package}]", "magenta"))
        yield Prose(where)
        yield from self.blocks(card.parts)

    def _table(self, part: parts.Table) -> RenderableType:
        table = grid(self._width)
        for number, column in enumerate(part.columns):
            table.add_column(Folded(line(column.heading)), justify="right" if number and column.is_number else "left")
        rows = self._few(list(part.rows), part.most)
        for first, *cells in rows:
            table.add_row(_name(first), *(self._cell(cell) for cell in cells))
        if len(rows) == len(part.rows):
            return table
        return Group(table, Prose(self._more(len(part.rows) - len(rows), part.noun)))

    def _cell(self, cell: parts.Cell) -> RenderableType:
        return Figure(line(cell.text, cell.tone), line(cell.detail, "dim"), is_wide=self._is_wide)


def _name(cell: parts.Cell) -> RenderableType:
    """What a row is about, and below it what belongs to it."""
    tone = _TONES[cell.tone]
    name = Folded(line(cell.text, style=f"bold {tone}".strip()))
    return Group(name, Folded(line(cell.detail, "dim"))) if cell.detail else name


def _figures(part: parts.Figures) -> Text:
    out = Text()
    for number, one in enumerate(part.figures):
        out.append(" · " if number else "", "dim").append_text(clean(f"{one.label} ", "dim"))
        out.append_text(clean(one.value, f"bold {_TONES[one.tone]}".strip()))
        if one.note:
            out.append_text(clean(f" ({one.note})", "dim"))
    return out

"""A view on a terminal, as wide as it is: the one place that knows how a part looks there.

Comes in: a ``View``. Goes out: text, through rich. Text from outside is made safe by ``clean`` and
its like.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from graphdoctor.views import parts
from graphdoctor.views.printable import printable
from graphdoctor.views.terminal_lines import (
    ONE_LINE,
    Indented,
    Prose,
    above,
    clean,
    clean_lines,
    code,
    cut_lines,
    diff_text,
    figure,
    grid,
    labeled_rows,
    longest_name,
    pointed,
    write,
)
from graphdoctor.wording import counted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


_R = TypeVar("_R")

_TONES: dict[parts.Tone | None, str] = {
    None: "",
    "good": "green",
    "warning": "yellow",
    "bad": "red",
    "dim": "dim",
}
SEVERITIES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_WIDEST_TEXT = 28
"""Cells of a text in a table that has more columns than there is room for."""
_LEAST_TEXT = 12
"""Cells that figures leave to a text beside them before they wrap."""
_MOST_CARDS = 10
_MOST_LINES = 40
"""Of whole cards, and of a whole diagnosis where that can be."""
_ROOMS: dict[str, tuple[tuple[int, int | None], ...]] = {
    "report": ((_MOST_LINES, None), (20, 10), (12, 6), (0, 4), (0, 2), (0, 1), (-1, 2)),
    "guards": ((_MOST_LINES, None), (20, 10), (12, 6), (0, 4), (0, 2), (0, 1), (-1, 1)),
    "fixes": ((_MOST_LINES, None), (20, 10), (12, 6), (0, 4), (0, 2), (-1, 6), (-1, 3), (-1, 1)),
}
"""Of kinds of views that are shortened until they fit, lines for whole cards, and rows of what is
cut, at each try.

With -1, the first card isn't whole either.
"""
_SPACED = (parts.Section, parts.Table, parts.Card, parts.Cards, parts.Figures)
"""Parts with an empty line around them."""
_INDENTED = (parts.Code, parts.Diff)
"""Parts that don't begin at the margin, where a line of theirs could pass for one of ours."""


def write_view(view: parts.View, console: Console, *, is_verbose: bool = False) -> None:
    """Write a view to a terminal, and its answer once more where that has scrolled away."""
    first, *rest = view.title
    title = clean(first, "bold")
    for part in rest:
        title.append(" · ", "dim").append_text(clean(part, "dim"))
    most_lines = _MOST_LINES - (0 if view.then is None else 2)
    text = ""
    for room, most in _ROOMS.get(view.kind, ((_MOST_LINES, None),)):
        shown = _Shown(console, is_verbose=is_verbose, room=room, most=most)
        with console.capture() as captured:
            for renderable in (title, Text(), *shown.blocks(view.parts)):
                write(console, renderable)
        text = captured.get()
        if is_verbose or text.count("\n") <= most_lines:
            break
    console.file.write(text)
    if console.file.isatty() and text.count("\n") >= console.height:
        for renderable in (
            Text(),
            *(_verdict(part) for part in view.parts if isinstance(part, parts.Verdict)),
        ):
            write(console, renderable)
    if view.then is not None:
        for renderable in (
            Text(),
            Text("Next: ", no_wrap=True, overflow="ignore").append_text(code(view.then)),
        ):
            write(console, renderable)


def write_parts(body: parts.Block | parts.Blocks, console: Console) -> None:
    """Write parts alone, without ``-v``."""
    for renderable in _Shown(console, is_verbose=False).blocks(body):
        write(console, renderable)


def line(text: parts.Inline, tone: parts.Tone | None = None, style: str = "") -> Text:
    """A line of text with its marks."""
    out = Text(style=style or _TONES[tone])
    for piece in parts.spans(text):
        match piece:
            case parts.Place():
                out.append_text(clean(piece.shown))
            case parts.Span():
                strong = "bold " if piece.mark == "strong" else ""
                out.append_text(clean(piece.text, strong + _TONES[piece.tone]))
            case _:
                out.append_text(clean(piece))
    return out


def _verdict(part: parts.Verdict) -> Text:
    return line(part.text, style="dim" if part.tone == "dim" else _bold(part.tone))


def _bold(tone: parts.Tone | None) -> str:
    return f"bold {_TONES[tone]}".strip()


class _Shown:
    """The parts that are shown, as what rich prints."""

    def __init__(
        self,
        console: Console,
        *,
        is_verbose: bool,
        room: int = _MOST_LINES,
        most: int | None = None,
    ) -> None:
        self._console = console
        self._is_verbose = is_verbose
        self._room = room
        self._most = most
        self._is_wide = console.width >= ONE_LINE

    def _is_shown(self, part: parts.Part) -> bool:
        return part.show == "always" or (part.show == "long") == self._is_verbose

    def blocks(
        self, body: parts.Block | parts.Blocks, *, is_at_margin: bool = True
    ) -> Iterator[RenderableType]:
        """Yield what is printed, in order."""
        before: parts.Part | None = None
        for part in parts.blocks(body):
            printed = list(self._part(part)) if self._is_shown(part) else []
            if is_at_margin and isinstance(part, _INDENTED):
                printed = [Indented(piece, Text("  ")) for piece in printed]
            if (
                printed
                and before is not None
                and (isinstance(part, _SPACED) or isinstance(before, _SPACED))
            ):
                yield Text()
            yield from printed
            before = part if printed else before

    def _part(self, part: parts.Part) -> Iterator[RenderableType]:
        match part:
            case parts.Verdict():
                yield _verdict(part)
            case parts.Note(text, tone):
                yield Prose(line(text, tone))
            case parts.Code(text):
                lines = text.split("\n")
                few = self._few(lines, part.most)
                shown = "\n".join(few)
                yield Prose(clean_lines(shown)) if part.language == "text" else code(shown)
                if len(few) < len(lines):
                    yield Prose(self._more(len(lines) - len(few), "line"))
            case parts.Diff(text):
                yield diff_text(text, is_whole=self._is_verbose)
            case parts.Source():
                yield pointed(
                    part.number, printable(part.text), part.start, part.end, self._console.width
                )
            case parts.Figures():
                yield Prose(_figures(part))
            case parts.Table(rows=rows) if rows:
                yield self._code_table(part) or self._table(part)
            case parts.Rows():
                yield from self._rows(part)
            case parts.Card():
                yield from (*map(Prose, _card_lines(part)), *self.blocks(part.parts))
            case parts.Drawing():
                yield from self.blocks(part.elsewhere)
            case parts.Cards(cards):
                yield from self._cards([card for card in cards if self._is_shown(card)])
            case parts.Section(title, body):
                # A section's own heading is no part of it that could need a line above.
                if inner := list(self.blocks(body)):
                    yield Prose(line(title, style=_bold(part.tone)))
                    yield from inner

    def _rows(self, part: parts.Rows) -> Iterator[RenderableType]:
        rows = [row for row in part.rows if self._is_shown(row)]
        shown = self._few(rows, part.most)
        labeled: list[tuple[str, RenderableType]] = []
        for row in shown:
            made = list(self.blocks(row.body, is_at_margin=False))
            labeled.append((parts.plain_text(row.label), Group(*made or [Text()])))
        if len(shown) < len(rows):
            labeled.append(("", Prose(self._more(len(rows) - len(shown), part.noun))))
        if labeled:
            yield from labeled_rows(labeled, self._console.width)

    def _few(self, rows: list[_R], most: int | None) -> list[_R]:
        if self._is_verbose or most is None:
            return rows
        return rows[: most if self._most is None else min(most, self._most)]

    def _more(self, number: int, noun: str) -> Text:
        return clean(f"{counted(number, f'more {noun}')}: -v", "dim")

    def _cards(self, cards: list[parts.Card]) -> Iterator[RenderableType]:
        room = 0 if self._is_verbose else self._room
        shown = self._few(cards, _MOST_CARDS)
        for number, card in enumerate(shown):
            was_whole = room >= 0
            whole = Group(*self._part(card))
            # After one that has no room, no later one is whole: they would stand out without being
            # worse.
            height = (
                0 if self._is_verbose else len(self._console.render_lines(whole, pad=False)) + 1
            )
            is_whole = self._is_verbose or height <= room or (number == 0 and room >= 0)
            room = max(room - height, 0) if is_whole else -1
            yield from (Text(),) if number and was_whole else ()
            brief = [clean(f"      {card.brief}", "dim")] if card.brief else []
            yield whole if is_whole else cut_lines([*_card_lines(card), *brief])
        if len(shown) < len(cards) or (cards and room < 0):
            more = len(cards) - len(shown)
            text = f"{counted(more, 'more finding')}: -v" if more else "Each in full: -v"
            yield from (Text(), Text(text, "dim"))

    def _table(self, part: parts.Table) -> RenderableType:
        rows = self._few(list(part.rows), part.most)
        if not rows:
            return Prose(self._more(len(part.rows), part.noun))
        table = grid(self._console.width)
        shown, widths = self._fitting(part.columns, rows)
        for at in shown:
            is_right = at > 0 and part.columns[at].is_number
            heading = Prose(line(part.columns[at].heading))
            table.add_column(heading, justify="right" if is_right else "left", width=widths.get(at))
        for row in rows:
            figures = (
                figure(line(cell.text, cell.tone), line(cell.detail, "dim"), is_wide=self._is_wide)
                for cell in (row[at] for at in shown[1:])
            )
            name = line(row[0].text, style=_bold(row[0].tone))
            table.add_row(Prose(above(name, line(row[0].detail, "dim"))), *figures)
        below = []
        if hidden := [
            parts.plain_text(column.heading)
            for at, column in enumerate(part.columns)
            if at not in shown
        ]:
            below.append(Prose(clean(f"Hidden columns: {', '.join(hidden)}", "dim")))
        if len(rows) < len(part.rows):
            below.append(Prose(self._more(len(part.rows) - len(rows), part.noun)))
        return Group(table, *below) if below else table

    def _code_table(self, part: parts.Table) -> RenderableType | None:
        """A table whose rows are code to paste that a column has no room for: each line whole, what
        it does below.
        """
        rows = self._few(list(part.rows), part.most)
        names = [row[0].text for row in rows]
        coded = [
            name.text for name in names if isinstance(name, parts.Span) and name.mark == "code"
        ]
        if not part.columns[0].is_pasted or all(
            cell_len(text) <= self._console.width // 3 for text in coded
        ):
            return None
        lines: list[RenderableType] = []
        for name, (_, *cells) in zip(names, rows, strict=True):
            text = parts.plain_text(name)
            lines.append(Indented(code(text) if text in coded else Prose(line(name)), Text("  ")))
            details = [
                line(
                    cell.text
                    if parts.plain_text(cell.text).startswith("(")
                    else (column.heading, " ", cell.text)
                )
                for column, cell in zip(part.columns[1:], cells, strict=True)
                if parts.plain_text(cell.text)
            ]
            lines.append(Indented(Prose(Text(", ").join(details)), Text("      ")))
        if len(rows) < len(part.rows):
            lines.append(Prose(self._more(len(part.rows) - len(rows), part.noun)))
        return Group(*lines)

    def _fitting(
        self, columns: tuple[parts.Column, ...], rows: Sequence[tuple[parts.Cell, ...]]
    ) -> tuple[list[int], dict[int, int]]:
        """The columns that there is room for, and the widths of figures that would wrap beside
        texts that can.
        """
        gap = grid(self._console.width).padding[1]
        room = self._console.width + gap
        least = [
            self._least_width(column, [row[at] for row in rows]) + gap
            for at, column in enumerate(columns)
        ]
        shown = list(range(len(columns)))
        for at in sorted(shown, key=lambda at: -columns[at].rank):
            if sum(least[shown_at] for shown_at in shown) <= room or not columns[at].rank:
                break
            shown.remove(at)
        figures = [at for at in shown[1:] if columns[at].is_number]
        texts = len(shown) - len(figures)
        whole = sum(
            max(least[at], cell_len(parts.plain_text(columns[at].heading)) + gap) for at in shown
        )
        has_room = sum(least[at] for at in figures) + texts * _LEAST_TEXT <= room
        return shown, {at: least[at] - gap for at in figures} if whole > room and has_room else {}

    def _least_width(self, column: parts.Column, cells: Sequence[parts.Cell]) -> int:
        heading = longest_name(parts.plain_text(column.heading))
        lines = (
            [parts.cell_line(cell)]
            if self._is_wide
            else map(parts.plain_text, (cell.text, cell.detail))
            for cell in cells
        )
        widest = max((cell_len(text) for texts in lines for text in texts), default=0)
        return max(heading, widest if column.is_number else min(widest, _WIDEST_TEXT))


def _card_lines(card: parts.Card) -> Iterator[Text]:
    for heading in card.headings:
        yield clean(f"{heading.code} ", SEVERITIES[heading.severity]).append_text(
            clean(heading.message, "bold")
        )
    file = card.place.text or card.place.file
    where = Text("  ").append("--> ", "blue").append_text(clean(file, "bold"))
    where.append(card.place.shown.removeprefix(file)).append(" in ").append_text(
        clean(card.function)
    )
    yield where.append_text(clean(f"  [{card.package}]", "magenta")) if card.package else where


def _figures(part: parts.Figures) -> Text:
    out = Text()
    for number, shown in enumerate(part.figures):
        out.append(" · " if number else "", "dim").append_text(clean(f"{shown.label} ", "dim"))
        out.append_text(clean(shown.value, _bold(shown.tone)))
        if shown.note:
            out.append_text(clean(f" ({shown.note})", "dim"))
    return out

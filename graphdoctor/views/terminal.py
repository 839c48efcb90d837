"""A view on a terminal, as wide as it is: the one place that knows how a part looks there.

Comes in: a ``View``. Goes out: text, through rich. Text from outside is made safe by ``clean`` and
its like.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeGuard, TypeVar

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table as Grid
from rich.text import Text

from graphdoctor.views.parts import (
    Block,
    Blocks,
    Card,
    Cards,
    Cell,
    Code,
    Column,
    Diff,
    Done,
    Drawing,
    Figures,
    Inline,
    Note,
    Part,
    Rows,
    Section,
    Source,
    Span,
    Table,
    Tone,
    Verdict,
    View,
    blocks,
    cell_line,
    plain_text,
    spans,
)
from graphdoctor.views.printable import printable
from graphdoctor.views.terminal_lines import (
    Indented,
    Prose,
    clean,
    clean_lines,
    code,
    cut_lines,
    diff_text,
    figure,
    labeled_rows,
    longest_name,
    pointed,
    write,
)
from graphdoctor.wording import counted, listed

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


_T = TypeVar("_T")

_TONES: dict[Tone | None, str] = {
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
_MOST_NAMED = 6
_MOST_LINES = 40
"""Of whole cards, and of a whole diagnosis where that can be."""
_ROOMS = (
    *((_MOST_LINES, None), (20, 16), (20, 10), (12, 6), (0, 4), (0, 2), (0, 1)),
    *((-1, 6), (-1, 3), (-1, 1)),
)
"""Of views that are shortened until they fit, lines for whole cards, and rows of what is cut, at
each try.

With -1, the first card isn't whole either.
"""
_SHORTENED = ("report", "guards", "fixes")
"""Kinds of views that are shortened."""
_NARROW = 100
"""Below this width, columns stand closer."""
_ONE_LINE = 132
"""From this width on, a figure and what belongs to it stand in one line."""
_SPACED = (Section, Table, Card, Cards, Figures)
"""Parts with an empty line around them."""
_INDENTED = (Code, Diff)
"""Parts that don't begin at the margin, where a line of theirs could pass for one of ours."""


def write_view(view: View, console: Console, *, is_verbose: bool = False) -> None:
    """Write a view to a terminal, and its answer once more where that has scrolled away."""
    first, *rest = view.title
    title = clean(first, "bold")
    for part in rest:
        title.append(" · ", "dim").append_text(clean(part, "dim"))
    most_lines = _MOST_LINES - (0 if view.then is None else 2)
    text = ""
    for room, most in _ROOMS if view.kind in _SHORTENED else _ROOMS[:1]:
        shown = _Shown(console, is_verbose=is_verbose, room=room, most=most)
        with console.capture() as captured:
            for renderable in (title, Text(), *shown.blocks(view.parts)):
                write(console, renderable)
        text = captured.get()
        if is_verbose or text.count("\n") <= most_lines:
            break
    console.file.write(text)
    ending = []
    if console.file.isatty() and text.count("\n") >= console.height:
        verdicts = (part for part in view.parts if isinstance(part, Verdict))
        ending += [Text(), *map(_verdict, verdicts)]
    if isinstance(view.then, Done):
        ending += [Text(), clean(f"Done: {view.then.why}.")]
    elif view.then is not None:
        command = Text("Next: ", no_wrap=True, overflow="ignore").append_text(code(view.then))
        ending += [Text(), command]
    for renderable in ending:
        write(console, renderable)


def write_parts(body: Block | Blocks, console: Console) -> None:
    """Write parts alone, without ``-v``."""
    for renderable in _Shown(console, is_verbose=False).blocks(body):
        write(console, renderable)


def line(text: Inline, tone: Tone | None = None, style: str = "") -> Text:
    """Return a line of text with its marks."""
    out = Text(style=style or _TONES[tone])
    for piece in spans(text):
        shown, style = plain_text(piece), ""
        if isinstance(piece, Span):
            style = ("bold " if piece.mark == "strong" else "") + _TONES[piece.tone]
        out.append_text(clean(shown, style))
    return out


def _verdict(part: Verdict) -> Text:
    return line(part.text, style="dim" if part.tone == "dim" else _bold(part.tone))


def _bold(tone: Tone | None) -> str:
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

    def _is_shown(self, part: Part) -> bool:
        return part.show == "always" or (part.show == "long") == self._is_verbose

    def _few(
        self, items: Sequence[_T], most: int | None, noun: str
    ) -> tuple[Sequence[_T], list[Text]]:
        """Return the first of several items without ``-v``, and a line that says how many there are
        more.
        """
        if self._is_verbose or most is None:
            return items, []
        shown = items[: most if self._most is None else min(most, self._most)]
        more = len(items) - len(shown)
        text = f"{counted(more, f'more {noun}')} (show with -v)"
        return shown, [clean(text, "dim")] if more else []

    def blocks(
        self, body: Block | Blocks, *, is_at_margin: bool = True
    ) -> Iterator[RenderableType]:
        """Yield what is printed, in order."""
        before = None
        for part in blocks(body):
            printed = list(self._part(part)) if self._is_shown(part) else []
            if not printed:
                continue
            if is_at_margin and isinstance(part, _INDENTED):
                printed = [Indented(piece, Text("  ")) for piece in printed]
            if before is not None and (isinstance(part, _SPACED) or isinstance(before, _SPACED)):
                yield Text()
            yield from printed
            before = part

    def _part(self, part: Part) -> Iterator[RenderableType]:
        match part:
            case Verdict():
                yield _verdict(part)
            case Note(text, tone):
                yield Prose(line(text, tone))
            case Code(text):
                lines, more = self._few(text.split("\n"), part.most, "line")
                shown = "\n".join(lines)
                yield Prose(clean_lines(shown)) if part.language == "text" else code(shown)
                yield from map(Prose, more)
            case Diff(text):
                yield diff_text(text, is_whole=self._is_verbose)
            case Source():
                yield pointed(
                    part.number, printable(part.text), part.start, part.end, self._console.width
                )
            case Figures(figures):
                out = Text()
                for number, shown_figure in enumerate(figures):
                    out.append(" · " if number else "", "dim")
                    out.append_text(clean(f"{shown_figure.label} ", "dim"))
                    out.append_text(clean(shown_figure.value, _bold(shown_figure.tone)))
                    note = f" ({shown_figure.note})" if shown_figure.note else ""
                    out.append_text(clean(note, "dim"))
                yield Prose(out)
            case Table(rows=rows) if rows:
                few, more = self._few(rows, part.most, part.noun)
                coded = {cell_len(row[0].text.text) for row in few if _is_code(row[0].text)}
                is_wide = max(coded, default=0) > self._console.width // 3
                is_pasted = part.columns[0].is_pasted and is_wide
                if few:
                    yield from (self._pasted if is_pasted else self._table)(part, few)
                yield from map(Prose, more)
            case Rows():
                yield from self._rows(part)
            case Card():
                yield from (*map(Prose, _card_lines(part)), *self.blocks(part.parts))
            case Drawing():
                yield from self.blocks(part.elsewhere)
            case Cards(cards):
                yield from self._cards([card for card in cards if self._is_shown(card)])
            case Section(title, body):
                # A section's own heading is no part of it that could need a line above.
                if inner := list(self.blocks(body)):
                    yield Prose(line(title, style=_bold(part.tone)))
                    yield from inner

    def _rows(self, part: Rows) -> Iterator[RenderableType]:
        rows, more = self._few(
            [row for row in part.rows if self._is_shown(row)], part.most, part.noun
        )
        labeled: list[tuple[str, RenderableType]] = []
        for row in rows:
            made = list(self.blocks(row.body, is_at_margin=False))
            labeled.append((plain_text(row.label), Group(*made or [Text()])))
        labeled += [("", Prose(text)) for text in more]
        if labeled:
            yield from labeled_rows(labeled, self._console.width)

    def _cards(self, cards: list[Card]) -> Iterator[RenderableType]:
        room = 0 if self._is_verbose else self._room
        shown, more = self._few(cards, _MOST_CARDS, "finding")
        hidden = [f"{card.headings[0].code} {card.place.shown}" for card in cards[len(shown) :]]
        more = [text.append(f": {listed(hidden, _MOST_NAMED)}", "dim") for text in more]
        for number, card in enumerate(shown):
            was_whole = room >= 0
            whole = Group(*self._part(card))
            # After one that has no room, no later one is whole: they would stand out without being
            # worse.
            is_whole = self._is_verbose
            if not is_whole:
                height = len(self._console.render_lines(whole, pad=False)) + 1
                is_whole = height <= room or (number == 0 and room >= 0)
                room = max(room - height, 0) if is_whole else -1
            yield from (Text(),) if number and was_whole else ()
            brief = [clean(f"      {card.brief}", "dim")] if card.brief else []
            yield whole if is_whole else cut_lines([*_card_lines(card), *brief])
        if cards and room < 0 and not more:
            more = [Text("Show each in full with -v", "dim")]
        yield from (Text(), *more) if more else ()

    def _table(self, part: Table, rows: Sequence[tuple[Cell, ...]]) -> Iterator[RenderableType]:
        width, is_wide = self._console.width, self._console.width >= _ONE_LINE
        gap = 1 if width < _NARROW else 2
        shown, widths = _fitting(part.columns, rows, width + gap, gap, is_wide=is_wide)
        table = Grid(
            box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, gap, 0, 0)
        )
        for at in shown:
            heading, is_right = part.columns[at].heading, at > 0 and part.columns[at].is_number
            table.add_column(
                Prose(line(heading)), justify="right" if is_right else "left", width=widths.get(at)
            )
        for row in rows:
            name, *cells = (row[at] for at in shown)
            title = line(name.text, style=_bold(name.tone))
            if name.detail:
                title.append("\n").append_text(line(name.detail, "dim"))
            figures = (
                figure(line(cell.text, cell.tone), line(cell.detail, "dim"), is_wide=is_wide)
                for cell in cells
            )
            table.add_row(Prose(title), *figures)
        yield table
        columns = (part.columns[at] for at in range(len(part.columns)) if at not in shown)
        if hidden := [plain_text(column.heading) for column in columns]:
            yield Prose(clean(f"Hidden columns: {', '.join(hidden)}", "dim"))

    def _pasted(self, part: Table, rows: Sequence[tuple[Cell, ...]]) -> Iterator[RenderableType]:
        """Yield rows of code to paste that a column has no room for: each line whole, what it does
        below.
        """
        for name, *cells in rows:
            text = plain_text(name.text)
            shown = code(text) if _is_code(name.text) else Prose(line(name.text))
            yield Indented(shown, Text("  "))
            details = [
                line(
                    (
                        column.heading,
                        " ",
                        cell.text,
                        *((" (", cell.detail, ")") if cell.detail else ()),
                    )
                )
                for column, cell in zip(part.columns[1:], cells, strict=True)
                if plain_text(cell.text)
            ]
            yield Indented(Prose(Text(", ").join(details)), Text("      "))


def _is_code(text: Inline) -> TypeGuard[Span]:
    return isinstance(text, Span) and text.mark == "code"


def _fitting(
    columns: Sequence[Column],
    rows: Sequence[tuple[Cell, ...]],
    room: int,
    gap: int,
    *,
    is_wide: bool,
) -> tuple[list[int], dict[int, int]]:
    """Return the columns that there is room for, and the widths of figures that would wrap beside
    texts that can.
    """
    headings = [plain_text(column.heading) for column in columns]
    least = []
    for at, column in enumerate(columns):
        cells = [row[at] for row in rows]
        texts = [cell_line(cell) for cell in cells]
        if not is_wide:
            texts = [plain_text(text) for cell in cells for text in (cell.text, cell.detail)]
        widest = max(map(cell_len, texts), default=0)
        widest = widest if column.is_number else min(widest, _WIDEST_TEXT)
        least.append(max(longest_name(headings[at]), widest) + gap)
    shown = list(range(len(columns)))
    for at in sorted(shown, key=lambda at: -columns[at].rank):
        if sum(least[shown_at] for shown_at in shown) <= room or not columns[at].rank:
            break
        shown.remove(at)
    figures = [at for at in shown[1:] if columns[at].is_number]
    whole = sum(max(least[at], cell_len(headings[at]) + gap) for at in shown)
    text_room = (len(shown) - len(figures)) * _LEAST_TEXT
    is_narrow = whole > room and sum(least[at] for at in figures) + text_room <= room
    return shown, {at: least[at] - gap for at in figures} if is_narrow else {}


def _card_lines(card: Card) -> Iterator[Text]:
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

"""Two surveys on the terminal: how they differ, the answer, the numbers by variant, then pieces, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from graphdoctor.facts.wording import counted, shortened
from graphdoctor.views import survey_comparison_words as words
from graphdoctor.views.survey_words import cause_fix, cause_place, some_names
from graphdoctor.views.terminal_lines import ONE_LINE, Prose, cell_figure, clean, grid, labeled_rows, write

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.facts.survey import SharedCause, SurveyRow
    from graphdoctor.facts.survey_comparison import ComparedPiece, SurveyComparison, SurveySide, SurveyVerdict
    from graphdoctor.views.parts import Tone

_TONES: dict[Tone, str] = {"good": "bold green", "warning": "bold yellow", "bad": "bold red"}
_SEVERITIES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_IN_FULL: tuple[SurveyVerdict, ...] = ("unknown", "failing", "worse", "flaky")
_IN_SHORT: tuple[SurveyVerdict, ...] = ("fixed", "better")
_MAX_PIECES = 10
"""Of a verdict, unless everything is asked for."""
_MAX_CHANGES = 4
"""Of a piece."""
_MAX_CAUSES = 5
_MAX_NAMES = 4
_LONGEST_ERROR = 200


def render_survey_comparison(comparison: SurveyComparison, console: Console, *, is_verbose: bool = False) -> None:
    """Write a comparison of surveys to a terminal.

    Args:
        comparison: What to show.
        console: Where to.
        is_verbose: Show all pieces and all that changed in them, single measurements too.
    """
    for renderable in _sections(comparison, console.width, is_verbose=is_verbose):
        write(console, renderable)


def _sections(comparison: SurveyComparison, width: int, *, is_verbose: bool) -> Iterator[RenderableType]:
    yield labeled_rows([("before", _side(comparison.before)), ("after", _side(comparison.after))])
    if comparison.mismatches:
        yield Text()
        yield Text("The surveys differ", "bold yellow")
        yield labeled_rows([("note", clean(words.mismatch_text(each))) for each in comparison.mismatches])
    yield Text()
    yield from _answer(comparison)
    yield from _variants(comparison, width)
    yield from _gone(comparison, is_verbose=is_verbose)
    yield from _causes(comparison.new_causes, is_verbose=is_verbose)
    for verdict in _IN_FULL:
        yield from _pieces(comparison, verdict, is_verbose=is_verbose)
    yield from _short(comparison, is_verbose=is_verbose)
    if is_verbose:
        yield from _noted(comparison)
    yield from _closing(comparison, is_verbose=is_verbose)


def _side(side: SurveySide) -> Text:
    first, *rest = words.side_parts(side)
    text = clean(first, "bold")
    for part in rest:
        text.append(" · ", "dim").append_text(clean(part, "dim"))
    if side.path:
        text.append("\n").append_text(clean(side.path, "dim"))
    return text


def _answer(comparison: SurveyComparison) -> Iterator[Text]:
    said, tone = words.verdict(comparison)
    yield clean(said, _TONES[tone])
    if (why := words.exit_text(comparison)) is not None:
        yield clean(why, "red")


def _variants(comparison: SurveyComparison, width: int) -> Iterator[RenderableType]:
    shown = words.variant_grid(comparison)
    table = grid(width)
    for number, heading in enumerate(shown.headings):
        table.add_column(Prose(clean(heading)), justify="right" if number else "left")
    for name, cells in shown.rows:
        table.add_row(Prose(clean(name, "bold")), *(cell_figure(cell, is_wide=width >= ONE_LINE) for cell in cells))
    yield Text()
    yield table


def _gone(comparison: SurveyComparison, *, is_verbose: bool) -> Iterator[RenderableType]:
    if comparison.gone:
        yield Text()
        yield Text("Only in the first survey", "bold red")
        yield _names(comparison.gone, comparison, is_verbose=is_verbose)


def _names(rows: Sequence[SurveyRow], comparison: SurveyComparison, *, is_verbose: bool) -> RenderableType:
    names = [words.piece_name(row, comparison) for row in rows]
    return Padding(Prose(clean(some_names(names, len(names) if is_verbose else _MAX_PIECES))), (0, 0, 0, 2))


# What got worse.


def _causes(causes: Sequence[SharedCause], *, is_verbose: bool) -> Iterator[RenderableType]:
    if not causes:
        return
    shown = causes if is_verbose else causes[:_MAX_CAUSES]
    yield Text()
    yield Text("New findings", "bold red")
    for cause in shown:
        heading = clean(f"{cause.code} ", _SEVERITIES[cause.severity]).append_text(
            clean(words.cause_head(cause), "bold")
        )
        rows = [("at", clean(cause_place(cause), "dim"))]
        if cause.text:
            rows.append(("", clean(cause.text, "cyan")))
        rows.append(("in", clean(some_names(cause.targets, len(cause.targets) if is_verbose else _MAX_NAMES))))
        if (fix := cause_fix(cause)) is not None:
            rows.append(("fix" if fix[1] else "try", clean(fix[0], "green" if fix[1] else "")))
        yield Group(Prose(heading.append_text(clean(f": {cause.message}"))), labeled_rows(rows))
    yield from _more(len(causes) - len(shown), "more")


def _pieces(comparison: SurveyComparison, verdict: SurveyVerdict, *, is_verbose: bool) -> Iterator[RenderableType]:
    found = comparison.of(verdict)
    if not found:
        return
    shown = found if is_verbose else found[:_MAX_PIECES]
    yield Text()
    tone = words.TONES.get(verdict)
    yield Text(words.HEADINGS[verdict], _TONES[tone] if tone is not None else "bold")
    for piece in shown:
        yield from _piece(piece, comparison, is_verbose=is_verbose)
    yield from _more(len(found) - len(shown), "more")


def _piece(piece: ComparedPiece, comparison: SurveyComparison, *, is_verbose: bool) -> Iterator[RenderableType]:
    name = clean(words.piece_name(piece.after, comparison), "bold")
    texts = list(words.piece_texts(piece))
    shown = texts if is_verbose else texts[:_MAX_CHANGES]
    first, *rest = shown
    yield Padding(Prose(name.append_text(clean(f"  {first}", "not bold"))), (0, 0, 0, 2))
    lines = [clean(text) for text in rest]
    if len(shown) < len(texts):
        lines.append(Text(f"and {len(texts) - len(shown)} more (-v shows all)", "dim"))
    if (why := words.failure_text(piece.after)) is not None:
        lines.append(clean(why if is_verbose else shortened(why, _LONGEST_ERROR), "dim"))
    is_bad = words.TONES.get(piece.verdict) == "bad"
    if piece.after.command is not None and (piece.verdict == "failing" or (is_verbose and is_bad)):
        lines.append(clean(piece.after.command, "dim"))
    for line in lines:
        yield Padding(Prose(line), (0, 0, 0, 6))


def _more(number: int, noun: str) -> Iterator[Text]:
    if number > 0:
        yield Text(f"and {number:,} {noun} (-v shows all)", "dim")


# What didn't.


def _short(comparison: SurveyComparison, *, is_verbose: bool) -> Iterator[RenderableType]:
    for verdict in _IN_SHORT:
        found = comparison.of(verdict)
        if is_verbose:
            yield from _pieces(comparison, verdict, is_verbose=True)
        elif found:
            yield Text()
            yield Text(f"{words.HEADINGS[verdict]}", "bold green")
            yield _names([piece.after for piece in found], comparison, is_verbose=False)


def _noted(comparison: SurveyComparison) -> Iterator[RenderableType]:
    rows = [
        (words.piece_name(piece.after, comparison), text)
        for piece in comparison.pieces
        for text in words.noted_texts(piece)
    ]
    other = [piece for piece in comparison.of("changed") if any(change.kind == "status" for change in piece.noted)]
    if not (rows or other):
        return
    yield Text()
    yield Text("Noted", "bold")
    for piece in other:
        yield from _piece(piece, comparison, is_verbose=False)
    for name, text in rows:
        yield Padding(Prose(clean(name, "bold").append_text(clean(f"  {text}", "not bold"))), (0, 0, 0, 2))


def _closing(comparison: SurveyComparison, *, is_verbose: bool) -> Iterator[RenderableType]:
    lines = list(words.closing_texts(comparison))
    noted = sum(bool(words.noted_texts(piece)) for piece in comparison.pieces)
    if noted:
        hint = "" if is_verbose else f" {counted(noted, 'piece')} with such differences (-v shows all)."
        lines.append(f"{words.SINGLE}{hint}")
    if lines:
        yield Text()
        yield from (clean(line, "dim") for line in lines)

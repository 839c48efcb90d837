"""Two surveys side by side as one self-contained HTML file, whose size doesn't grow with pieces that differ."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from graphdoctor.facts.wording import bytes_text, duration, factor_text, percents, shortened, without_middle
from graphdoctor.views import survey_comparison_words as words
from graphdoctor.views.bench_words import Cell, seconds_text
from graphdoctor.views.html import plots
from graphdoctor.views.html.document import write_document
from graphdoctor.views.html.plots import Axis
from graphdoctor.views.survey_failures import failures
from graphdoctor.views.survey_words import (
    NOTHING,
    cause_costs,
    cause_fix,
    cause_place,
    interval_text,
    outcome_text,
    some_names,
    speedup_cell,
)

if TYPE_CHECKING:
    from graphdoctor.facts.survey import SharedCause, SurveyRow
    from graphdoctor.facts.survey_comparison import (
        ComparedPiece,
        SurveyChange,
        SurveyChangeKind,
        SurveyComparison,
        SurveySide,
        SurveyVerdict,
    )
    from graphdoctor.views.parts import Tone

_IN_FULL: tuple[SurveyVerdict, ...] = ("unknown", "failing", "worse", "flaky", "fixed", "better")
_MAX_WHOLE = 60
"""Pieces of a verdict that are shown with all of their numbers."""
_MAX_SHORT = 240
"""Pieces of a verdict after those, a line each."""
_MAX_NOTED = 300
_MAX_ROWS = 300
"""Of pieces that one survey alone has."""
_MAX_BARS = 20
_MAX_ERRORS = 40
_MAX_CAUSES = 40
_MAX_CHANGES = 12
"""Of a piece."""
_MAX_TARGETS = 200
"""Names of a finding's targets."""
_LONGEST = 1_200
"""Characters of an error."""
_LONGEST_TRACEBACK = 2_000
_LONGEST_SHARED = 400
"""Characters of an error that pieces share."""
_LONGEST_SHORT = 200


def render_survey_comparison_page(comparison: SurveyComparison, *, has_source: bool = True) -> str:
    """The page.

    Args:
        comparison: What to show.
        has_source: Show lines of code.

    Returns:
        A whole HTML document.
    """
    if not has_source:
        from graphdoctor.views.html.sourceless import without_source

        comparison = without_source(comparison)
    said, tone = words.verdict(comparison)
    bars = list(_bars(comparison))
    noted = [(piece, texts) for piece in comparison.pieces if (texts := words.noted_texts(piece))]
    context = {
        "comparison": comparison,
        "title": [_title(side) for side in (comparison.before, comparison.after)],
        "sentence": said,
        "tone": tone,
        "why": words.exit_text(comparison),
        "has_source": has_source,
        "mismatches": [words.mismatch_text(each) for each in comparison.mismatches],
        "tiles": list(_tiles(comparison)),
        "variants": words.variant_grid(comparison),
        "bars": bars[:_MAX_BARS],
        "more_bars": max(len(bars) - _MAX_BARS, 0),
        "causes": [_cause(cause) for cause in comparison.new_causes[:_MAX_CAUSES]],
        "more_causes": max(len(comparison.new_causes) - _MAX_CAUSES, 0),
        "errors": list(_errors(comparison)),
        "parts": [_part(verdict, comparison) for verdict in _IN_FULL if comparison.of(verdict)],
        "gone": [_row(row, comparison) for row in comparison.gone[:_MAX_ROWS]],
        "more_gone": max(len(comparison.gone) - _MAX_ROWS, 0),
        "added": [_row(row, comparison) for row in comparison.added[:_MAX_ROWS]],
        "more_added": max(len(comparison.added) - _MAX_ROWS, 0),
        "noted": [(words.piece_name(piece.after, comparison), texts) for piece, texts in noted[:_MAX_NOTED]],
        "more_noted": max(len(noted) - _MAX_NOTED, 0),
        "single": words.SINGLE,
        "closing": list(words.closing_texts(comparison)),
        "sides": [(name, words.side_parts(side), side) for name, side in _sides(comparison)],
    }
    return write_document(
        "survey_comparison.html.j2", context, blobs={}, scripts=(), styles=("bench.css", "survey_comparison.css")
    )


def _title(side: SurveySide) -> str:
    """What tells the two sides apart: the file, otherwise name and date."""
    return side.path or f"{side.name} {side.started.partition('T')[0]}"


def _sides(comparison: SurveyComparison) -> Iterator[tuple[str, SurveySide]]:
    yield "before", comparison.before
    yield "after", comparison.after


# The head.


@dataclass(frozen=True)
class _Tile:
    label: str
    value: str
    link: str | None
    tone: Tone | None = None
    note: str = ""


def _tiles(comparison: SurveyComparison) -> Iterator[_Tile]:
    """How many pieces are what, those that there are."""
    for verdict in _IN_FULL:
        if number := len(comparison.of(verdict)):
            yield _Tile(words.HEADINGS[verdict].lower(), f"{number:,}", verdict, words.TONES.get(verdict))
    if comparison.gone:
        yield _Tile("only in the first", f"{len(comparison.gone):,}", "gone", "bad")
    if comparison.added:
        yield _Tile("only in the second", f"{len(comparison.added):,}", "added")
    alike = comparison.unchanged + len(comparison.of("changed"))
    note = f"{comparison.still_failing:,} pass in neither" if comparison.still_failing else ""
    yield _Tile("neither worse nor better", f"{alike:,}", None, note=note)


# Speed-ups.


@dataclass(frozen=True)
class _Bar:
    name: str
    anchor: str | None
    """None if the piece isn't on the page."""
    drawn: Markup
    text: str
    note: str


def _bars(comparison: SurveyComparison) -> Iterator[_Bar]:
    """Speed-ups that differ beyond noise, the largest differences first."""
    found = [
        (piece, before, after, side)
        for piece in comparison.pieces
        for side, changes in (("worse", piece.worse), ("better", piece.better))
        if any(change.kind == "speedup" for change in changes)
        and (before := _ratio(piece.before)) is not None
        and (after := _ratio(piece.after)) is not None
    ]
    if not found:
        return
    shown = {
        _anchor(piece.after) for verdict in _IN_FULL for piece in comparison.of(verdict)[: _MAX_WHOLE + _MAX_SHORT]
    }
    ends = [end for _, before, after, _ in found for end in (*before, *after)]
    axis = Axis(min(ends) / 1.05, max(1.0, *ends) * 1.05, is_log=True)
    for piece, before, after, side in sorted(found, key=lambda each: -_distance(each[1][1], each[2][1])):
        anchor = _anchor(piece.after)
        yield _Bar(
            name=words.piece_name(piece.after, comparison),
            anchor=anchor if anchor in shown else None,
            drawn=plots.moved(axis, before, after),
            text=f"{factor_text(before[1])} → {factor_text(after[1])}",
            note=f"{side}, {interval_text(before[0], before[2])} → {interval_text(after[0], after[2])}",
        )


def _ratio(row: SurveyRow) -> tuple[float, float, float] | None:
    """The speed-up between both ends of its interval; None if it can't be drawn."""
    if row.speedup is None or row.speedup_low is None or row.speedup_high is None or row.speedup_low <= 0:
        return None
    return row.speedup_low, row.speedup, row.speedup_high


def _distance(before: float, after: float) -> float:
    return max(before / after, after / before)


# Findings and errors.


def _cause(cause: SharedCause) -> dict[str, object]:
    return {
        "cause": cause,
        "message": shortened(cause.message, _LONGEST),
        "head": words.cause_head(cause),
        "place": cause_place(cause),
        "costs": cause_costs(cause),
        "fix": cause_fix(cause),
        "targets": cause.targets[:_MAX_TARGETS],
        "more_targets": max(len(cause.targets) - _MAX_TARGETS, 0),
    }


def _errors(comparison: SurveyComparison) -> Iterator[tuple[str, int, str, str]]:
    """New failures by error, if several pieces fail alike: outcome, how many targets, error, their names."""
    found = failures(piece.after for piece in comparison.of("failing"))
    if all(len(failure.rows) == 1 for failure in found):
        return
    for failure in found[:_MAX_ERRORS]:
        error = shortened(failure.error, _LONGEST_SHARED) if failure.error is not None else "no message"
        names = some_names(failure.targets, _MAX_CHANGES)
        yield outcome_text(failure.status, failure.stage), len(failure.targets), error, names


def _row(row: SurveyRow, comparison: SurveyComparison) -> dict[str, object]:
    """A row that one of the surveys has."""
    why = words.failure_text(row)
    return {
        "name": words.piece_name(row, comparison),
        "outcome": outcome_text(row.status, None if row.is_passed else row.stage),
        "speedup": speedup_cell(row).line,
        "why": None if why is None else shortened(why, _LONGEST_SHORT),
    }


# Pieces.


@dataclass(frozen=True)
class _Part:
    verdict: SurveyVerdict
    heading: str
    count: int
    whole: list[dict[str, object]]
    short: list[dict[str, object]]
    more: int


def _part(verdict: SurveyVerdict, comparison: SurveyComparison) -> _Part:
    pieces = comparison.of(verdict)
    short = pieces[_MAX_WHOLE : _MAX_WHOLE + _MAX_SHORT]
    return _Part(
        verdict,
        words.HEADINGS[verdict],
        len(pieces),
        [_piece(piece, comparison) for piece in pieces[:_MAX_WHOLE]],
        [_short(piece, comparison) for piece in short],
        len(pieces) - min(len(pieces), _MAX_WHOLE) - len(short),
    )


def _short(piece: ComparedPiece, comparison: SurveyComparison) -> dict[str, object]:
    texts = list(words.piece_texts(piece))
    return {
        "anchor": _anchor(piece.after),
        "name": words.piece_name(piece.after, comparison),
        "text": shortened("; ".join(texts), _LONGEST_SHORT),
    }


def _piece(piece: ComparedPiece, comparison: SurveyComparison) -> dict[str, object]:
    texts = list(words.piece_texts(piece))
    why = words.failure_text(piece.after)
    traceback = piece.after.traceback
    return {
        "anchor": _anchor(piece.after),
        "name": words.piece_name(piece.after, comparison),
        "family": piece.after.family,
        "fails": piece.fails(comparison.fail_on),
        "texts": [shortened(text, _LONGEST) for text in texts[:_MAX_CHANGES]],
        "more_texts": max(len(texts) - _MAX_CHANGES, 0),
        "why": None if why is None else shortened(why, _LONGEST),
        "traceback": without_middle(traceback, _LONGEST_TRACEBACK) if traceback else None,
        "command": piece.after.command if words.TONES.get(piece.verdict) == "bad" else None,
        "numbers": list(_numbers(piece)),
    }


def _anchor(row: SurveyRow) -> str:
    """An id that stays the same from night to night, whatever the names hold."""
    digest = hashlib.sha256("\0".join(row.key).encode(errors="replace")).hexdigest()
    return f"piece-{digest[:12]}"


@dataclass(frozen=True)
class _Number:
    label: str
    before: str
    after: str
    judged: str
    """In a word; empty if it is the same, or nothing is known of it."""


def _numbers(piece: ComparedPiece) -> Iterator[_Number]:
    """What was measured on either side, and what is said of the difference."""
    judged: dict[SurveyChangeKind, str] = {}
    sides: tuple[tuple[str, Sequence[SurveyChange]], ...] = (
        ("noted", piece.noted),
        ("better", piece.better),
        ("worse", piece.worse),
    )
    for word, changes in sides:
        judged |= {change.kind: word for change in changes}
    judged |= dict.fromkeys((*piece.unknown, *(("status",) if piece.is_unjudged else ())), "unknown now")
    if piece.is_noisy and "speedup" not in judged:
        judged["speedup"] = "not compared: the machine was too busy"
    for kind, label, shown in _FIGURES:
        before, after = shown(piece.before, piece.after)
        if before.text != NOTHING or after.text != NOTHING:
            yield _Number(label, before.line, after.line, judged.get(kind, ""))


_Shown = Callable[["SurveyRow", "SurveyRow"], tuple[Cell, Cell]]


def _each(shown: Callable[[SurveyRow], Cell]) -> _Shown:
    return lambda before, after: (shown(before), shown(after))


def _number(name: str, text: Callable[[float], str] = lambda value: f"{value:,.0f}") -> _Shown:
    def cell(row: SurveyRow) -> Cell:
        value = getattr(row, name)
        return Cell(NOTHING if value is None else text(value))

    return _each(cell)


def _flag(name: str) -> _Shown:
    return _each(lambda row: Cell({True: "yes", False: "no", None: NOTHING}[getattr(row, name)]))


def _coverages(before: SurveyRow, after: SurveyRow) -> tuple[Cell, Cell]:
    """With as many digits as tell both apart."""
    if before.coverage is not None and after.coverage is not None:
        one, other = percents(before.coverage, after.coverage)
        return Cell(one), Cell(other)
    known = [value for value in (before.coverage, after.coverage) if value is not None]
    text = percents(known[0], known[0])[0] if known else NOTHING
    return Cell(text if before.coverage is not None else NOTHING), Cell(text if after.coverage is not None else NOTHING)


_FIGURES: tuple[tuple[SurveyChangeKind, str, _Shown], ...] = (
    ("status", "outcome", _each(lambda row: Cell(outcome_text(row.status, None if row.is_passed else row.stage)))),
    ("break_sites", "break sites", _number("break_sites")),
    ("skipped_frames", "skipped frames", _number("skipped_frames")),
    ("recompiles", "recompiles", _number("recompiles")),
    ("frames_over_limit", "functions over the recompile limit", _number("frames_over_limit")),
    ("coverage", "coverage", _coverages),
    ("speedup", "speed-up", _each(speedup_cell)),
    ("call_us", "call", _number("call_us", duration)),
    ("compile_cold_s", "cold compile", _number("compile_cold_s", seconds_text)),
    ("compile_s", "compile of the recorded run", _number("compile_s", seconds_text)),
    ("peak_memory_bytes", "peak memory", _number("peak_memory_bytes", lambda value: bytes_text(int(value)))),
    ("correct", "correct results", _flag("correct")),
    ("exports", "torch.export", _flag("exports")),
    ("is_steady", "stops compiling when calls repeat", _flag("is_steady")),
)

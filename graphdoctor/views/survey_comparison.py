"""A ``SurveyComparison`` in, its view out: how the surveys differ, the answer, the numbers by
variant, then pieces, the worst first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphdoctor.facts.survey import SurveyRow
from graphdoctor.facts.survey_comparison import (
    ComparedPiece,
    ComparedVariant,
    SurveyChange,
    SurveyComparison,
    SurveyMismatch,
    SurveySide,
    SurveyVerdict,
)
from graphdoctor.views.measures import interval_text, seconds_text
from graphdoctor.views.next_step import after_survey_comparison
from graphdoctor.views.parts import (
    NOTHING,
    Block,
    Cards,
    Cell,
    Column,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Table,
    Tone,
    Verdict,
    View,
    cell_line,
)
from graphdoctor.views.survey import (
    MEASURES,
    attempts_text,
    cause_card,
    failure_rows,
    failure_text,
    measure_cell,
    outcome_text,
    row_name,
)
from graphdoctor.views.words import base_name, few_text, percents
from graphdoctor.wording import counted, factor_text, join_texts, shortened

_SHOWN: dict[SurveyVerdict, tuple[str, Tone]] = {
    "unknown": ("Unknown now", "bad"),
    "failing": ("New failures", "bad"),
    "worse": ("Worse", "bad"),
    "flaky": ("Flaky", "warning"),
    "fixed": ("Fixed", "good"),
    "better": ("Better", "good"),
}
"""Headings of the verdicts whose pieces are shown in full."""
_MAX_PIECES = 10
"""Pieces of a verdict that a terminal shows."""
_MAX_CHANGES = 4
"""Changes of a piece that a terminal shows."""
_MAX_NAMES = 3
_MAX_MESSAGE = 400


def survey_comparison_view(comparison: SurveyComparison) -> View:
    """Return the comparison as a tree."""
    sides = (comparison.before, comparison.after)
    title = (side.path or f"{side.name} {side.started.partition('T')[0]}" for side in sides)
    content, then = tuple(_parts(comparison)), after_survey_comparison(comparison)
    version = comparison.graphdoctor_version
    return View((" → ".join(title),), "surveys", content, version, then)


def _parts(comparison: SurveyComparison) -> Iterator[Block]:
    sides = (("before", comparison.before), ("after", comparison.after))
    yield Rows(Row(name, Span(_side(side))) for name, side in sides)
    if comparison.mismatches:
        yield Note("The surveys differ:", "warning")
        yield Rows(Row("note", _mismatch(mismatch)) for mismatch in comparison.mismatches)
    yield Verdict(*_verdict(comparison))
    if (why := _exit_text(comparison)) is not None:
        yield Note(why, "bad")
    meaning = "A geometric mean with its 95% interval, over the pieces that pass in both."
    speed, compiling = Column("speed-up", meaning=meaning), Column("compile", meaning="A median.")
    rows = ([Cell(Span(variant.variant)), *_variant(variant)] for variant in comparison.variants)
    columns = ("#variant", "#passed", speed, compiling)
    yield Table(columns, rows, "variant", label="Each variant before and after")
    count = len(comparison.variants)
    gone = _only(comparison.gone, count)
    yield Section("Only in the first survey: unknown now", gone, "Gone", tone="bad")
    cards = [
        cause_card(cause, cause.message, f"finding-{number}")
        for number, cause in enumerate(comparison.new_causes, start=1)
    ]
    yield Section("New findings", Cards(tuple(cards)), "Findings", tone="bad")
    for verdict, (heading, tone) in _SHOWN.items():
        pieces = comparison.of(verdict)
        shown = [_piece(piece, count) for piece in pieces]
        if verdict == "failing":
            shown = list(failure_rows(piece.after for piece in pieces))
        rows_shown = Rows(shown, "piece", _MAX_PIECES)
        yield Section(heading, rows_shown, count=len(pieces), tone=tone)
    added = _only(comparison.added, count)
    yield Section("Only in the second survey", added, "Added", len(comparison.added))
    noted = [
        Row(Span(row_name(piece.after, count)), Span("; ".join(texts)))
        for piece in comparison.pieces
        if (texts := [_change(change, piece) for change in piece.noted])
    ]
    yield Section("Noted", Rows(noted, "piece"), count=len(noted), show="long")
    alike = comparison.unchanged + len(comparison.of("changed"))
    others = {
        "fail in both surveys": comparison.still_failing,
        "not compared in speed, because the machine was too busy": comparison.noisy,
        "neither worse nor better": alike,
    }
    texts = [f"{number:,} {what}" for what, number in others.items() if number]
    if texts:
        yield Note(f"Other pieces: {'; '.join(texts)}.", "dim")


def _side(side: SurveySide) -> str:
    rows = counted(side.rows, "row")
    texts = (
        side.path,
        side.name,
        side.started.partition("T")[0],
        f"torch {', '.join(side.torch)}" if side.torch else None,
        few_text(side.devices, _MAX_NAMES),
        rows if side.rows >= side.planned else f"{side.rows} of {counted(side.planned, 'row')}",
        None if side.shard is None else f"shard {side.shard}",
    )
    return join_texts(" · ", *texts)


def _mismatch(mismatch: SurveyMismatch) -> str:
    """Return one way in which the surveys differ, a sentence."""
    before, after = mismatch.before or "none", mismatch.after or "none"
    aspect = mismatch.aspect
    where = "" if mismatch.pieces is None else f", in {counted(mismatch.pieces, 'piece')}"
    subject = join_texts(" ", aspect.removesuffix("s"), mismatch.name)
    return f"{subject}: {before} before, {after} now{where}."


def _verdict(comparison: SurveyComparison) -> tuple[str, Tone]:
    counts = {verdict: len(comparison.of(verdict)) for verdict in _SHOWN}
    counts["unknown"] += len(comparison.gone)
    texts = [f"{_SHOWN[verdict][0].lower()}: {count}" for verdict, count in counts.items() if count]
    if not (counts["failing"] or counts["worse"] or counts["unknown"]):
        texts.insert(0, "no regressions")
    compared = counted(comparison.unchanged + len(comparison.pieces), "piece")
    is_doubtful = counts["worse"] or counts["flaky"]
    tone: Tone = "bad" if comparison.exit_code else "warning" if is_doubtful else "good"
    return f"{compared} compared: {', '.join(texts)}.", tone


def _exit_text(comparison: SurveyComparison) -> str | None:
    """Return why the comparison fails or is unknown; None if it passes."""
    reasons = {
        "of the second survey didn't finish": comparison.after.planned - comparison.after.rows,
        "of the first survey missing now": len(comparison.gone),
        "can't be judged any more": len(comparison.of("unknown")),
    }
    texts = [f"{counted(count, 'piece')} {text}" for text, count in reasons.items() if count > 0]
    if texts:
        return f"Not a pass: {', '.join(texts)}."
    if not comparison.failing:
        return None
    pieces = counted(len(comparison.failing), "piece")
    return f"Failed: {pieces} at or above --fail-on {comparison.fail_on}."


def _variant(variant: ComparedVariant) -> Iterator[Cell]:
    """Yield its cells: before and now, over the pieces that both surveys have."""
    was, now = variant.passed_before, variant.passed_after
    passed = Cell(f"{was:,} → {now:,}", f"of {variant.judged:,}", _tone(now > was, now < was))
    yield passed if variant.judged else Cell("none judged")
    before, after = variant.speedup_before, variant.speedup_after
    if before is None or after is None:
        yield Cell(NOTHING)
    else:
        spans = " → ".join(interval_text(mean.low, mean.high) for mean in (before, after))
        tone = _tone(after.low > before.high, after.high < before.low)
        ratios = f"{factor_text(before.ratio)} → {factor_text(after.ratio)}"
        yield Cell(ratios, f"{spans}, {counted(variant.timed, 'piece')}", tone)
    times = (variant.compile_cold_s_before, variant.compile_cold_s_after)
    yield Cell(NOTHING if None in times else " → ".join(map(seconds_text, times)))


def _tone(is_better: bool, is_worse: bool) -> Tone | None:
    return "good" if is_better else "bad" if is_worse else None


# Pieces.


def _only(rows: Iterable[SurveyRow], variant_count: int) -> Rows:
    """Return the rows that one of the surveys has."""
    texts = (
        Row(Span(row_name(row, variant_count)), Span(join_texts(": ", outcome_text(row), why)))
        for row in rows
        for why in [failure_text(row)]
    )
    return Rows(texts, "piece", _MAX_PIECES)


def _piece(piece: ComparedPiece, variant_count: int) -> Row:
    texts = list(_texts(piece))
    body: list[Block] = [
        Note(text, show="always" if at < _MAX_CHANGES else "long") for at, text in enumerate(texts)
    ]
    if (more := len(texts) - _MAX_CHANGES) > 0:
        body.append(Note(f"{counted(more, 'more change')} (show with -v)", "dim", show="short"))
    if (why := failure_text(piece.after)) is not None:
        body.append(Note(Span(why), "dim"))
    return Row(Span(row_name(piece.after, variant_count)), tuple(body))


def _texts(piece: ComparedPiece) -> Iterator[str]:
    """Yield what changed in a piece, the worst first."""
    if piece.is_unjudged:
        yield _outcomes(piece)
    if piece.unknown:
        yield f"no longer known: {', '.join(MEASURES[name].label for name in piece.unknown)}"
    noted = () if piece.is_unjudged else piece.noted
    yield from (_change(change, piece) for change in (*piece.worse, *noted))
    mark = "" if piece.verdict in ("fixed", "better") else "better: "
    yield from (f"{mark}{_change(change, piece)}" for change in piece.better)


def _change(change: SurveyChange, piece: ComparedPiece) -> str:
    """Return what changed, a clause."""
    before, after = piece.before, piece.after
    if (cause := change.cause) is not None:
        state = "new" if change in piece.worse else "gone"
        place = f"{base_name(cause.file)}:{cause.line}"
        return f"{state} {cause.code} {place}: {shortened(cause.message, _MAX_MESSAGE)}"
    if change.kind == "status":
        attempts = (
            f" (attempts: {attempts_text(before)} → {attempts_text(after)})"
            if change.is_flaky
            else ""
        )
        return _outcomes(piece) + attempts
    texts = [cell_line(measure_cell(row, change.kind)) for row in (before, after)]
    if change.kind == "coverage":
        texts = [*percents(before.coverage or 0.0, after.coverage or 0.0)]
    return f"{MEASURES[change.kind].label} {' → '.join(texts)}"


def _outcomes(piece: ComparedPiece) -> str:
    return f"{outcome_text(piece.after)}, was {outcome_text(piece.before)}"

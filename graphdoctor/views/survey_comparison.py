"""A ``SurveyComparison`` in, its view out: how the surveys differ, the answer, the numbers by variant,
then pieces, the worst first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from graphdoctor.facts.survey import SurveyRow
from graphdoctor.facts.survey_comparison import (
    ComparedPiece,
    ComparedVariant,
    SurveyAspect,
    SurveyChange,
    SurveyChangeKind,
    SurveyComparison,
    SurveyMismatch,
    SurveySide,
    SurveyVerdict,
)
from graphdoctor.views import parts
from graphdoctor.views import survey_words as words
from graphdoctor.views.measures import interval_text, seconds_text
from graphdoctor.views.next_step import after_survey_comparison
from graphdoctor.views.parts import NOTHING, Block, Cell, Note, Row, Rows, Section, Span, Tone
from graphdoctor.views.words import base_name, few_text, percents
from graphdoctor.wording import counted, factor_text, join_texts, shortened, without_middle

_SINGLE = (
    "Times of compiling, times of calls and peak memory are single measurements: noted, but never "
    "a regression."
)
_SHOWN: dict[SurveyVerdict, tuple[str, Tone]] = {
    "unknown": ("Unknown now", "bad"),
    "failing": ("New failures", "bad"),
    "worse": ("Worse", "bad"),
    "flaky": ("Flaky", "warning"),
    "fixed": ("Fixed", "good"),
    "better": ("Better", "good"),
}
"""Headings of the verdicts whose pieces are shown in full."""
_FLAGS: dict[SurveyChangeKind, tuple[str, str]] = {
    "correct": ("wrong results, which were right", "right results, which were wrong"),
    "exports": ("torch.export fails, which worked", "torch.export works, which failed"),
    "is_steady": (
        "keeps compiling when calls repeat, which settled",
        "stops compiling when calls repeat",
    ),
}
"""Clauses for what no longer holds, and for what holds now."""
_ASPECTS: dict[SurveyAspect, str] = {
    "torch": "torch",
    "device": "The device",
    "host": "The machine",
    "python": "Python",
    "library": "The library",
    "graphdoctor": "graphdoctor",
    "target": "The target",
    "dtype": "The dtype",
    "batch": "The batch size",
    "calls": "The number of calls",
    "shard": "The shard",
    "planned": "Pieces that finished",
}
_MAX_PIECES = 10
"""Of a verdict, on a terminal."""
_MAX_WHOLE = 60
"""Pieces of a verdict that have their whole errors and tracebacks."""
_MAX_CHANGES = 4
"""Of a piece, on a terminal."""
_MAX_ERRORS = 40
_MAX_NAMES = 3
_MAX_TARGETS = 200
_MAX_TEXT = 1_200
_MAX_SHORT = 200
_MAX_TRACEBACK = 2_000


def survey_comparison_view(comparison: SurveyComparison) -> parts.View:
    """Return the comparison as a tree."""
    sides = (comparison.before, comparison.after)
    title = (side.path or f"{side.name} {side.started.partition('T')[0]}" for side in sides)
    content, then = tuple(_parts(comparison)), after_survey_comparison(comparison)
    version = comparison.graphdoctor_version
    return parts.View((" → ".join(title),), "surveys", content, version, then)


def _parts(comparison: SurveyComparison) -> Iterator[Block]:
    sides = (("before", comparison.before), ("after", comparison.after))
    yield Rows(Row(name, tuple(_side(side))) for name, side in sides)
    if comparison.mismatches:
        yield Note("The surveys differ:", "warning")
        yield Rows(Row("note", _mismatch(mismatch)) for mismatch in comparison.mismatches)
    yield parts.Verdict(*_verdict(comparison))
    if (why := _exit_text(comparison)) is not None:
        yield Note(why, "bad")
    yield _variants(comparison)
    gone = _only(comparison.gone, "Whether these still pass is unknown.", comparison)
    yield Section("Only in the first survey", gone, "Gone", tone="bad")
    cards = []
    for number, cause in enumerate(comparison.new_causes, start=1):
        targets = Row("in", Span(few_text(cause.targets, _MAX_TARGETS)))
        cards.append(words.cause_card(cause, cause.message, f"finding-{number}", targets))
    yield Section("New findings", parts.Cards(tuple(cards)), "Findings", tone="bad")
    for name, (heading, tone) in _SHOWN.items():
        pieces = comparison.of(name)
        rows = [
            _piece(piece, comparison, is_whole=at < _MAX_WHOLE) for at, piece in enumerate(pieces)
        ]
        content = [_errors(pieces)] if name == "failing" else []
        content += [Rows(rows, "piece", _MAX_PIECES)]
        yield Section(heading, content if rows else (), count=len(rows), tone=tone)
    added = _only(comparison.added, _added_text(comparison), comparison)
    yield Section("Only in the second survey", added, "Added", show="long")
    yield _noted(comparison)
    yield from (Note(text, "dim") for text in _closing(comparison))


def _variants(comparison: SurveyComparison) -> parts.Table:
    """Return a row for each variant: before and now, over the pieces that both surveys have."""
    meaning = "A geometric mean with its 95% interval, over the pieces that pass in both."
    columns = (
        "#variant",
        "#passed",
        parts.Column("speed-up", meaning=meaning),
        parts.Column("compile", meaning="A median."),
    )
    rows = ((Cell(Span(side.variant)), *_variant(side)) for side in comparison.variants)
    return parts.Table(columns, rows, "variant", label="Each variant before and after")


def _variant(variant: ComparedVariant) -> Iterator[Cell]:
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


def _only(rows: Sequence[SurveyRow], text: str, comparison: SurveyComparison) -> Iterator[Block]:
    """Yield rows that one of the surveys has."""
    listed = []
    for row in rows:
        speed = parts.cell_line(words.field_cell(row, "speedup")) if row.speedup else None
        body: list[Block] = [Span(join_texts(", ", words.outcome_text(row), speed))]
        if (why := words.failure_text(row)) is not None:
            body.append(Note(Span(shortened(why, _MAX_SHORT)), "dim"))
        listed.append(Row(Span(_name(row, comparison)), tuple(body)))
    if listed:
        yield from (text, Rows(listed, "piece", _MAX_PIECES))


# Pieces.


def _errors(pieces: Sequence[ComparedPiece]) -> Block:
    """Return new failures by error, if several pieces fail alike."""
    failures = words.failures(piece.after for piece in pieces)
    shown = failures[:_MAX_ERRORS] if any(len(failure.rows) > 1 for failure in failures) else []

    def which(failure: words.Failure) -> Cell:
        return Cell(Span(few_text(failure.targets, _MAX_PIECES)))

    return words.failure_table(shown, which, longest=_MAX_SHORT)


def _piece(piece: ComparedPiece, comparison: SurveyComparison, *, is_whole: bool) -> Row:
    texts = [shortened(text, _MAX_TEXT) for text in _texts(piece)]
    body: list[Block] = [
        Note(text, show="always" if at < _MAX_CHANGES else "long") for at, text in enumerate(texts)
    ]
    if (more := len(texts) - _MAX_CHANGES) > 0:
        body.append(Note(f"{counted(more, 'more change')}: -v", "dim", show="short"))
    if piece.is_noisy:
        body.append(Note("The machine was too busy to compare speed-ups.", "dim", show="long"))
    if (why := words.failure_text(piece.after)) is not None:
        body.append(Note(Span(shortened(why, _MAX_TEXT if is_whole else _MAX_SHORT)), "dim"))
    if is_whole and piece.after.traceback:
        text = without_middle(piece.after.traceback, _MAX_TRACEBACK)
        body.append(parts.Drawing("traceback.html.j2", {"traceback": text}))
    if piece.after.command is not None and piece.verdict in ("unknown", "failing", "worse"):
        show: parts.Show = "always" if piece.verdict == "failing" else "long"
        body.append(parts.Code(piece.after.command, "shell", show=show))
    # An id that stays the same from night to night, whatever the names hold.
    digest = hashlib.sha256("\0".join(piece.after.key).encode(errors="replace")).hexdigest()
    name = Span(_name(piece.after, comparison))
    return Row(name, tuple(body), anchor=f"piece-{digest[:12]}")


def _name(row: SurveyRow, comparison: SurveyComparison) -> str:
    return words.row_name(row, has_variants=len(comparison.variants) > 1)


def _texts(piece: ComparedPiece) -> Iterator[str]:
    """Yield what changed in a piece, the worst first."""
    noted = [change for change in piece.noted if change.kind == "status"]
    if piece.is_unjudged:
        yield _outcomes(piece)
        noted = []
    if piece.unknown:
        yield f"no longer known: {', '.join(words.FIELDS[name].label for name in piece.unknown)}"
    yield from (_change(change, piece) for change in (*piece.worse, *noted))
    mark = "" if piece.verdict in ("fixed", "better") else "better: "
    yield from (f"{mark}{_change(change, piece)}" for change in piece.better)


def _change(change: SurveyChange, piece: ComparedPiece) -> str:
    """Return what changed, a clause."""
    if (cause := change.cause) is not None:
        state = "new" if change in piece.worse else "gone"
        place = f"{base_name(cause.file)}:{cause.line}"
        return f"{state} {cause.code} {place}: {cause.message.rstrip('.')}"
    if change.kind == "status":
        if change.is_flaky and piece.after.is_flaky:
            return f"attempts: {words.flaky_text(piece.after)}"
        before = f"; attempts before: {words.flaky_text(piece.before)}" if change.is_flaky else ""
        return _outcomes(piece) + before
    if change.kind in _FLAGS:
        return _FLAGS[change.kind][bool(change.after)]
    cells = [words.field_cell(row, change.kind) for row in (piece.before, piece.after)]
    texts = tuple(map(parts.cell_line, cells))
    if change.kind == "coverage":
        texts = percents(piece.before.coverage or 0.0, piece.after.coverage or 0.0)
    return f"{words.FIELDS[change.kind].label} {' → '.join(texts)}"


def _outcomes(piece: ComparedPiece) -> str:
    return f"{words.outcome_text(piece.after)}, was {words.outcome_text(piece.before)}"


def _noted(comparison: SurveyComparison) -> Section:
    """Return single measurements that differ, and pieces that came out otherwise without being
    worse.
    """
    rows = [
        _piece(piece, comparison, is_whole=False)
        for piece in comparison.of("changed")
        if any(change.kind == "status" for change in piece.noted)
    ]
    for piece in comparison.pieces:
        changes = [change for change in piece.noted if change.kind != "status"]
        if texts := [_change(change, piece) for change in changes]:
            rows.append(Row(Span(_name(piece.after, comparison)), Span("; ".join(texts))))
    content = (Note(_SINGLE, "dim"), Rows(rows, "piece")) if rows else ()
    return Section("Noted", content, count=len(rows), show="long")


# In words.


def _verdict(comparison: SurveyComparison) -> tuple[str, Tone]:
    counts = {name: len(comparison.of(name)) for name in _SHOWN}
    counts["unknown"] += len(comparison.gone)
    texts = [counted(counts["failing"], "new failure")] if counts["failing"] else []
    order: tuple[SurveyVerdict, ...] = ("worse", "unknown", "flaky", "fixed", "better")
    texts += [
        f"{counts[name]} {'unknown now' if name == 'unknown' else name}"
        for name in order
        if counts[name]
    ]
    if not (counts["failing"] or counts["worse"] or counts["unknown"]):
        texts.insert(0, "no regressions")
    compared = counted(comparison.unchanged + len(comparison.pieces), "piece")
    is_doubtful = counts["worse"] or counts["flaky"]
    tone: Tone = "bad" if comparison.exit_code else "warning" if is_doubtful else "good"
    return f"{compared} compared: {', '.join(texts)}.", tone


def _exit_text(comparison: SurveyComparison) -> str | None:
    """Return why the comparison fails or is unknown; None if it passes."""
    reasons = []
    if (missing := comparison.after.planned - comparison.after.rows) > 0:
        reasons.append(f"{counted(missing, 'piece')} of the second survey didn't finish")
    if number := len(comparison.gone):
        are = "is" if number == 1 else "are"
        reasons.append(f"{counted(number, 'piece')} of the first survey {are} missing")
    if lost := comparison.of("unknown"):
        reasons.append(f"{counted(len(lost), 'piece')} can't be judged any more")
    if reasons:
        return f"Not a pass: {', '.join(reasons)}."
    if not comparison.failing:
        return None
    pieces = counted(len(comparison.failing), "piece")
    return f"Failed: {pieces} at or above --fail-on {comparison.fail_on}."


def _closing(comparison: SurveyComparison) -> Iterator[str]:
    if comparison.added:
        yield f"Only in the second survey: {_added_text(comparison)}."
    if number := comparison.still_failing:
        yield f"{counted(number, 'piece')} {'passes' if number == 1 else 'pass'} in neither survey."
    if comparison.noisy:
        pieces = counted(comparison.noisy, "piece")
        yield f"The speed-ups of {pieces} weren't compared, because the machine was too busy."
    if alike := comparison.unchanged + len(comparison.of("changed")):
        yield f"{counted(alike, 'piece')} {'is' if alike == 1 else 'are'} neither worse nor better."


def _added_text(comparison: SurveyComparison) -> str:
    failing = [_name(row, comparison) for row in comparison.added if not row.is_passed]
    text = counted(len(comparison.added), "piece")
    if not failing:
        return f"{text}, all pass" if len(comparison.added) > 1 else f"{text}, passes"
    fail = "fails" if len(failing) == 1 else "fail"
    return f"{text}, {len(failing)} of them {fail}: {few_text(failing, _MAX_NAMES)}"


def _side(side: SurveySide) -> Iterator[Block]:
    texts = [side.name, side.started.partition("T")[0]]
    texts += [f"torch {', '.join(side.torch)}"] if side.torch else []
    texts += [few_text(side.devices, _MAX_NAMES)] if side.devices else []
    is_finished = side.rows >= side.planned
    size = counted(side.rows, "row")
    texts.append(size if is_finished else f"{side.rows} of {counted(side.planned, 'row')}")
    texts += [] if side.shard is None else [f"shard {side.shard}"]
    yield Span(" · ".join(texts))
    if side.path:
        yield Note(Span(side.path), "dim")


def _mismatch(mismatch: SurveyMismatch) -> str:
    """Return one way in which the surveys differ, a sentence."""
    before, after = mismatch.before or "none", mismatch.after or "none"
    name = mismatch.name or ""
    if mismatch.aspect == "measured":
        measure = words.FIELDS[name].label if name in words.FIELDS else name
        which = "second" if mismatch.before is None else "first"
        return f"Only the {which} survey measured {measure}."
    if mismatch.aspect in ("options", "variant"):
        return f"The {mismatch.aspect.removesuffix('s')} {name} was {before}, now {after}."
    where = "" if mismatch.pieces is None else f" in {counted(mismatch.pieces, 'piece')}"
    aspect = _ASPECTS[mismatch.aspect]
    if mismatch.before is None and mismatch.after is None:
        return f"{aspect} differs{where}."
    return f"{aspect}: {before} before, {after} now{f',{where}' if where else ''}."

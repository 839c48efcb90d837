"""A ``SurveyComparison`` in, its view out: how the surveys differ, the answer, the numbers by
variant, then pieces, the worst first.
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
from graphdoctor.views import survey_words as words
from graphdoctor.views.measures import interval_text, seconds_text
from graphdoctor.views.next_step import after_survey_comparison
from graphdoctor.views.parts import (
    NOTHING,
    Block,
    Cards,
    Cell,
    Code,
    Column,
    Drawing,
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
    "device": "The device",
    "host": "The machine",
    "python": "Python",
    "library": "The library",
    "target": "The target",
    "dtype": "The dtype",
    "batch": "The batch size",
    "calls": "The number of calls",
    "shard": "The shard",
    "planned": "Pieces that finished",
}
"""Aspects that have another name for people."""
_MAX_PIECES = 10
"""Pieces of a verdict that a terminal shows."""
_MAX_WHOLE = 60
"""Pieces of a verdict that have their whole errors and tracebacks."""
_MAX_CHANGES = 4
"""Changes of a piece that a terminal shows."""
_MAX_ERRORS = 40
_MAX_NAMES = 3
_MAX_TARGETS = 200
_MAX_TEXT = 1_200
_MAX_SHORT = 200
_MAX_TRACEBACK = 2_000


def survey_comparison_view(comparison: SurveyComparison) -> View:
    """Return the comparison as a tree."""
    sides = (comparison.before, comparison.after)
    title = (side.path or f"{side.name} {side.started.partition('T')[0]}" for side in sides)
    content, then = tuple(_parts(comparison)), after_survey_comparison(comparison)
    version = comparison.graphdoctor_version
    return View((" → ".join(title),), "surveys", content, version, then)


def _parts(comparison: SurveyComparison) -> Iterator[Block]:
    sides = (("before", comparison.before), ("after", comparison.after))
    yield Rows(Row(name, tuple(_side(side))) for name, side in sides)
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
    gone = (_only(row, count) for row in comparison.gone)
    parts = ("Whether these still pass is unknown.", Rows(gone, "piece", _MAX_PIECES))
    yield Section("Only in the first survey", parts[: 2 * len(comparison.gone)], "Gone", tone="bad")
    cards = []
    for number, cause in enumerate(comparison.new_causes, start=1):
        targets = Row("in", Span(few_text(cause.targets, _MAX_TARGETS)))
        cards.append(words.cause_card(cause, cause.message, f"finding-{number}", targets))
    yield Section("New findings", Cards(tuple(cards)), "Findings", tone="bad")
    for verdict, (heading, tone) in _SHOWN.items():
        pieces = comparison.of(verdict)
        shown = [_piece(piece, count, is_whole=at < _MAX_WHOLE) for at, piece in enumerate(pieces)]
        content = [_errors(pieces)] if verdict == "failing" else []
        content += [Rows(shown, "piece", _MAX_PIECES)] if shown else []
        yield Section(heading, content, count=len(pieces), tone=tone)
    if comparison.added:
        added = Rows((_only(row, count) for row in comparison.added), "piece", show="long")
        yield Section("Only in the second survey", (_added_text(comparison), added), "Added")
    noted = [
        _piece(piece, count, is_whole=False)
        for piece in comparison.of("changed")
        if any(change.kind == "status" for change in piece.noted)
    ]
    for piece in comparison.pieces:
        changes = [change for change in piece.noted if change.kind != "status"]
        if texts := [_change(change, piece) for change in changes]:
            noted.append(Row(Span(words.row_name(piece.after, count)), Span("; ".join(texts))))
    measured = (Note(_SINGLE, "dim"), Rows(noted, "piece")) if noted else ()
    yield Section("Noted", measured, count=len(noted), show="long")
    if number := comparison.still_failing:
        text = (
            f"{counted(number, 'piece')} {'passes' if number == 1 else 'pass'} in neither survey."
        )
        yield Note(text, "dim")
    if comparison.noisy:
        noisy = counted(comparison.noisy, "piece")
        text = f"The speed-ups of {noisy} weren't compared, because the machine was too busy."
        yield Note(text, "dim")
    if alike := comparison.unchanged + len(comparison.of("changed")):
        are = "is" if alike == 1 else "are"
        yield Note(f"{counted(alike, 'piece')} {are} neither worse nor better.", "dim")


def _side(side: SurveySide) -> Iterator[Block]:
    rows = counted(side.rows, "row")
    texts = (
        side.name,
        side.started.partition("T")[0],
        f"torch {', '.join(side.torch)}" if side.torch else None,
        few_text(side.devices, _MAX_NAMES),
        rows if side.rows >= side.planned else f"{side.rows} of {counted(side.planned, 'row')}",
        None if side.shard is None else f"shard {side.shard}",
    )
    yield Span(join_texts(" · ", *texts))
    if side.path:
        yield Note(Span(side.path), "dim")


def _mismatch(mismatch: SurveyMismatch) -> str:
    """Return one way in which the surveys differ, a sentence."""
    before, after = mismatch.before or "none", mismatch.after or "none"
    name, aspect = mismatch.name or "", mismatch.aspect
    if aspect == "measured":
        measure = words.FIELDS[name].label if name in words.FIELDS else name
        return (
            f"Only the {'second' if mismatch.before is None else 'first'} survey measured"
            f" {measure}."
        )
    if aspect in ("options", "variant"):
        return f"The {aspect.removesuffix('s')} {name} was {before}, now {after}."
    where = "" if mismatch.pieces is None else f" in {counted(mismatch.pieces, 'piece')}"
    subject = _ASPECTS.get(aspect, aspect)
    if mismatch.before is None and mismatch.after is None:
        return f"{subject} differs{where}."
    return f"{subject}: {before} before, {after} now{where and f',{where}'}."


def _verdict(comparison: SurveyComparison) -> tuple[str, Tone]:
    counts = {verdict: len(comparison.of(verdict)) for verdict in _SHOWN}
    counts["unknown"] += len(comparison.gone)
    texts = [counted(counts["failing"], "new failure")] if counts["failing"] else []
    order: tuple[SurveyVerdict, ...] = ("worse", "unknown", "flaky", "fixed", "better")
    texts += [
        f"{counts[verdict]} {'unknown now' if verdict == 'unknown' else verdict}"
        for verdict in order
        if counts[verdict]
    ]
    if not (counts["failing"] or counts["worse"] or counts["unknown"]):
        texts.insert(0, "no regressions")
    compared = counted(comparison.unchanged + len(comparison.pieces), "piece")
    is_doubtful = counts["worse"] or counts["flaky"]
    tone: Tone = "bad" if comparison.exit_code else "warning" if is_doubtful else "good"
    return f"{compared} compared: {', '.join(texts)}.", tone


def _exit_text(comparison: SurveyComparison) -> str | None:
    """Return why the comparison fails or is unknown; None if it passes."""
    missing = comparison.after.planned - comparison.after.rows
    gone, unknown = len(comparison.gone), len(comparison.of("unknown"))
    reasons = {
        "of the second survey didn't finish": missing,
        f"of the first survey {'is' if gone == 1 else 'are'} missing": gone,
        "can't be judged any more": unknown,
    }
    texts = [f"{counted(count, 'piece')} {text}" for text, count in reasons.items() if count > 0]
    if texts:
        return f"Not a pass: {', '.join(texts)}."
    if not comparison.failing:
        return None
    pieces = counted(len(comparison.failing), "piece")
    return f"Failed: {pieces} at or above --fail-on {comparison.fail_on}."


def _added_text(comparison: SurveyComparison) -> str:
    count = len(comparison.variants)
    failing = [words.row_name(row, count) for row in comparison.added if not row.is_passed]
    text = counted(len(comparison.added), "piece")
    if not failing:
        return f"{text}, all pass." if len(comparison.added) > 1 else f"{text}, passes."
    fail = "fails" if len(failing) == 1 else "fail"
    return f"{text}, {len(failing)} of them {fail}: {few_text(failing, _MAX_NAMES)}."


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


def _only(row: SurveyRow, variant_count: int) -> Row:
    """Return a row that one of the surveys has."""
    speed = cell_line(words.field_cell(row, "speedup")) if row.speedup else None
    said = [Note(Span(join_texts(", ", words.outcome_text(row), speed)))]
    if (why := words.failure_text(row)) is not None:
        said.append(Note(Span(shortened(why, _MAX_SHORT)), "dim"))
    return Row(Span(words.row_name(row, variant_count)), tuple(said))


def _errors(pieces: Sequence[ComparedPiece]) -> Block:
    """Return new failures by error, if several pieces fail alike."""
    failures = words.failures(piece.after for piece in pieces)
    is_shared = any(len(failure.rows) > 1 for failure in failures)
    return words.failure_table(
        failures[:_MAX_ERRORS] if is_shared else [],
        lambda failure: Cell(Span(few_text(failure.targets, _MAX_PIECES))),
        longest=_MAX_SHORT,
    )


def _piece(piece: ComparedPiece, variant_count: int, *, is_whole: bool) -> Row:
    row, texts = piece.after, [shortened(text, _MAX_TEXT) for text in _texts(piece)]
    body: list[Block] = [
        Note(text, show="always" if at < _MAX_CHANGES else "long") for at, text in enumerate(texts)
    ]
    if (more := len(texts) - _MAX_CHANGES) > 0:
        body.append(Note(f"{counted(more, 'more change')} (show with -v)", "dim", show="short"))
    if piece.is_noisy:
        body.append(Note("The machine was too busy to compare speed-ups.", "dim", show="long"))
    if (why := words.failure_text(row)) is not None:
        body.append(Note(Span(shortened(why, _MAX_TEXT if is_whole else _MAX_SHORT)), "dim"))
    if is_whole and row.traceback:
        text = without_middle(row.traceback, _MAX_TRACEBACK)
        body.append(Drawing("traceback.html.j2", {"traceback": text}))
    if row.command is not None and piece.verdict in ("unknown", "failing", "worse"):
        is_failing = piece.verdict == "failing"
        body.append(Code(row.command, "shell", show="always" if is_failing else "long"))
    # An id that stays the same from night to night, whatever the names hold.
    digest = hashlib.sha256("\0".join(row.key).encode(errors="replace")).hexdigest()
    name = Span(words.row_name(row, variant_count))
    return Row(name, tuple(body), anchor=f"piece-{digest[:12]}")


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
    before, after = piece.before, piece.after
    if (cause := change.cause) is not None:
        state = "new" if change in piece.worse else "gone"
        place = f"{base_name(cause.file)}:{cause.line}"
        return f"{state} {cause.code} {place}: {cause.message.rstrip('.')}"
    if change.kind == "status":
        if change.is_flaky and after.is_flaky:
            return f"attempts: {words.flaky_text(after)}"
        attempts = f"; attempts before: {words.flaky_text(before)}" if change.is_flaky else ""
        return _outcomes(piece) + attempts
    if change.kind in _FLAGS:
        return _FLAGS[change.kind][bool(change.after)]
    texts = [cell_line(words.field_cell(row, change.kind)) for row in (before, after)]
    if change.kind == "coverage":
        texts = [*percents(before.coverage or 0.0, after.coverage or 0.0)]
    return f"{words.FIELDS[change.kind].label} {' → '.join(texts)}"


def _outcomes(piece: ComparedPiece) -> str:
    return f"{words.outcome_text(piece.after)}, was {words.outcome_text(piece.before)}"

"""Two surveys side by side: how they differ, the answer, the numbers by variant, then pieces, the worst first.

Comes in: a ``SurveyComparison``. Goes out: a view.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import bytes_text, counted, duration, factor_text, percents, shortened, without_middle
from graphdoctor.views.bench_words import seconds_text
from graphdoctor.views.html import plots
from graphdoctor.views.html.plots import Axis
from graphdoctor.views.parts import (
    Block,
    Card,
    Cell,
    Code,
    Column,
    Drawing,
    Figure,
    Figures,
    Heading,
    Note,
    Place,
    Row,
    Rows,
    Section,
    Source,
    Span,
    Table,
    Verdict,
    View,
    cell_line,
)
from graphdoctor.views.survey_failures import error_text, failures
from graphdoctor.views.survey_words import (
    NOTHING,
    cause_costs,
    cause_fix,
    cause_function,
    cause_place,
    cause_size,
    flaky_text,
    interval_text,
    outcome_text,
    row_name,
    some_names,
    speedup_cell,
)
from graphdoctor.views.words import base_name

if TYPE_CHECKING:
    from graphdoctor.facts.survey import GeometricMean, SharedCause, SurveyRow
    from graphdoctor.facts.survey_comparison import (
        ComparedPiece,
        ComparedVariant,
        SurveyAspect,
        SurveyChange,
        SurveyChangeKind,
        SurveyComparison,
        SurveyMeasure,
        SurveyMismatch,
        SurveySide,
        SurveyVerdict,
    )
    from graphdoctor.views.parts import Show, Tone

SINGLE = "Times of compiling, times of calls and peak memory are single measurements: noted, but never a regression."
"""What to know about what is noted."""

HEADINGS: dict[SurveyVerdict, str] = {
    "unknown": "Unknown now",
    "failing": "New failures",
    "worse": "Worse",
    "flaky": "Flaky",
    "fixed": "Fixed",
    "better": "Better",
    "changed": "Noted",
}
"""What views call the pieces of each verdict."""

TONES: dict[SurveyVerdict, Tone] = {
    "unknown": "bad",
    "failing": "bad",
    "worse": "bad",
    "flaky": "warning",
    "fixed": "good",
    "better": "good",
}
"""Whether a verdict is good news; it is neither if it isn't in here."""

MEASURE_TEXTS: dict[SurveyMeasure, str] = {
    "break_sites": "break sites",
    "skipped_frames": "skipped frames",
    "recompiles": "recompiles",
    "frames_over_limit": "functions over the recompile limit",
    "coverage": "coverage",
    "speedup": "speed-up",
    "call_us": "call",
    "compile_cold_s": "compile",
    "compile_s": "compile",
    "peak_memory_bytes": "peak memory",
    "correct": "correct results",
    "exports": "torch.export",
    "is_steady": "steady",
}
"""What views call what is compared."""

_FLAGS: dict[SurveyChangeKind, tuple[str, str]] = {
    "correct": ("wrong results, which were right", "right results, which were wrong"),
    "exports": ("torch.export fails, which worked", "torch.export works, which failed"),
    "is_steady": ("keeps compiling when calls repeat, which settled", "stops compiling when calls repeat"),
}
"""What is said of what no longer holds, and of what holds now."""

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


_IN_FULL: tuple[SurveyVerdict, ...] = ("unknown", "failing", "worse", "flaky", "fixed", "better")
_MAX_PIECES = 10
"""Of a verdict, on a terminal."""
_MAX_WHOLE = 60
"""Pieces of a verdict that have all of their numbers."""
_MAX_CHANGES = 4
"""Of a piece, on a terminal."""
_MAX_BARS = 20
_MAX_ERRORS = 40
_MAX_CAUSES = 5
_MAX_TARGETS = 200
_LONGEST = 1_200
"""Characters of an error."""
_LONGEST_TRACEBACK = 2_000
_LONGEST_SHORT = 200


def survey_comparison_view(comparison: SurveyComparison) -> View:
    """The comparison as a tree."""
    title = tuple(side.path or f"{side.name} {_day(side)}" for side in (comparison.before, comparison.after))
    return View((" → ".join(title),), "surveys", tuple(_parts(comparison)), comparison.graphdoctor_version)


def _parts(comparison: SurveyComparison) -> Iterator[Block]:
    sides = (("before", comparison.before), ("after", comparison.after))
    yield Rows(tuple(Row(name, _side(side)) for name, side in sides))
    if comparison.mismatches:
        yield Note("The surveys differ:", "warning")
        yield Rows(tuple(Row("note", mismatch_text(each)) for each in comparison.mismatches))
    yield Verdict(*verdict(comparison))
    if (why := exit_text(comparison)) is not None:
        yield Note(why, "bad")
    yield Figures(tuple(_figures(comparison)))
    yield _variants(comparison)
    yield Section("Speed-ups that changed", _bars(comparison), "Speed")
    gone = tuple(_only(row, comparison) for row in comparison.gone)
    yield Section("Only in the first survey", _listed(gone, "Whether these still pass is unknown."), "Gone", tone="bad")
    cards = [_cause(cause, number) for number, cause in enumerate(comparison.new_causes)]
    yield Section("New findings", (*cards, *_more(len(cards) - _MAX_CAUSES, "finding")), "Findings", tone="bad")
    for each in _IN_FULL:
        if pieces := comparison.of(each):
            yield _pieces(each, pieces, comparison)
    added = tuple(_only(row, comparison) for row in comparison.added)
    yield Section("Only in the second survey", _listed(added, added_text(comparison)), "Added", show="long")
    yield _noted(comparison)
    yield from (Note(text, "dim") for text in closing_texts(comparison))


def _more(number: int, noun: str) -> Iterator[Note]:
    if number > 0:
        yield Note(f"and {counted(number, f'more {noun}')} (-v shows all)", "dim", show="short")


def _day(side: SurveySide) -> str:
    return side.started.partition("T")[0]


def _side(side: SurveySide) -> tuple[Note, ...]:
    said = Note(Span(" · ".join(side_parts(side))))
    return (said, Note(Span(side.path), "dim")) if side.path else (said,)


def _figures(comparison: SurveyComparison) -> Iterator[Figure]:
    """How many pieces are what, those that there are."""
    for each in _IN_FULL:
        if number := len(comparison.of(each)):
            heading = HEADINGS[each].lower()
            yield Figure(heading, f"{number:,}", tone=TONES.get(each), link=heading.replace(" ", "-"))
    if comparison.gone:
        yield Figure("only in the first", f"{len(comparison.gone):,}", tone="bad", link="gone")
    if comparison.added:
        yield Figure("only in the second", f"{len(comparison.added):,}", link="added")
    alike = comparison.unchanged + len(comparison.of("changed"))
    note = f"{comparison.still_failing:,} pass in neither" if comparison.still_failing else ""
    yield Figure("neither worse nor better", f"{alike:,}", note)


def _variants(comparison: SurveyComparison) -> Table:
    """A row for each variant: before and now, over the pieces that both surveys have."""
    variants = comparison.variants
    columns = [(Column("passed"), [_passed_cell(one) for one in variants])]
    if any(one.speedup_before is not None for one in variants):
        meaning = "A geometric mean with its 95% interval, over the pieces that pass in both."
        columns.append((Column("speed-up", meaning=meaning), [_speedup_cell(one) for one in variants]))
    if any(one.compile_cold_s_before is not None for one in variants):
        columns.append((Column("compile", meaning="A median."), [_compile_cell(one) for one in variants]))
    rows = ((Cell(Span(one.variant)), *(cells[at] for _, cells in columns)) for at, one in enumerate(variants))
    heads = (Column("variant"), *(column for column, _ in columns))
    return Table(heads, tuple(rows), "variant", label="Each variant before and after")


def _bars(comparison: SurveyComparison) -> tuple[Drawing, ...]:
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
        return ()
    ends = [end for _, before, after, _ in found for end in (*before, *after)]
    axis = Axis(min(ends) / 1.05, max(1.0, *ends) * 1.05, is_log=True)
    found.sort(key=lambda each: -max(each[1][1] / each[2][1], each[2][1] / each[1][1]))
    bars = [
        {
            "name": piece_name(piece.after, comparison),
            "anchor": _anchor(piece.after),
            "drawn": plots.moved(axis, before, after),
            "text": f"{factor_text(before[1])} → {factor_text(after[1])}",
            "note": f"{side}, {interval_text(before[0], before[2])} → {interval_text(after[0], after[2])}",
        }
        for piece, before, after, side in found[:_MAX_BARS]
    ]
    facts = {"bars": bars, "more_bars": max(len(found) - _MAX_BARS, 0)}
    return (Drawing("survey_moves.html.j2", facts, styles=("bench.css", "survey_comparison.css")),)


def _ratio(row: SurveyRow) -> tuple[float, float, float] | None:
    """The speed-up between both ends of its interval; None if it can't be drawn."""
    if row.speedup is None or row.speedup_low is None or row.speedup_high is None or row.speedup_low <= 0:
        return None
    return row.speedup_low, row.speedup, row.speedup_high


# What one survey alone has, and what got worse.


def _listed(rows: tuple[Row, ...], said: str | None) -> tuple[Block, ...]:
    return (*([said] if said is not None else []), Rows(rows, "piece", _MAX_PIECES)) if rows else ()


def _only(row: SurveyRow, comparison: SurveyComparison) -> Row:
    """A row that one of the surveys has."""
    said = [_outcome(row), *([cell_line(speedup_cell(row))] if row.speedup is not None else [])]
    why = failure_text(row)
    return Row(
        Span(piece_name(row, comparison)),
        (Span(", ".join(said)), *([Note(Span(shortened(why, _LONGEST_SHORT)), "dim")] if why is not None else [])),
    )


def _cause(cause: SharedCause, number: int) -> Card:
    rows = [Row("places", Span(cause_place(cause)))] if len(cause.lines) > 1 or cause.functions > 1 else []
    rows.append(Row("in", Span(some_names(cause.targets, _MAX_TARGETS))))
    rows += [Row("costs", costs)] if (costs := cause_costs(cause)) else []
    if (fix := cause_fix(cause)) is not None:
        rows.append(Row("fix" if fix[1] else "try", Note(fix[0], "good" if fix[1] else None)))
    function = cause_function(cause)
    head = cause_size(cause) if function is None else f"{cause_size(cause)} of {function}"
    return Card(
        (Heading(cause.code, f"{head}: {cause.message}", cause.severity, f"finding-{number + 1}"),),
        Place(cause.file, cause.lines[0]),
        cause.function,
        cause.package,
        (*((Source(cause.lines[0], cause.text),) if cause.text else ()), Rows(tuple(rows))),
        show="always" if number < _MAX_CAUSES else "long",
    )


# Pieces.


def _pieces(kind: SurveyVerdict, pieces: Sequence[ComparedPiece], comparison: SurveyComparison) -> Section:
    rows = tuple(_piece(piece, comparison, is_whole=at < _MAX_WHOLE) for at, piece in enumerate(pieces))
    errors = (_errors(pieces),) if kind == "failing" else ()
    listed = Rows(rows, "piece", _MAX_PIECES)
    return Section(HEADINGS[kind], (*errors, listed), count=len(pieces), tone=TONES.get(kind))


def _errors(pieces: Sequence[ComparedPiece]) -> Table:
    """New failures by error, if several pieces fail alike."""
    found = failures(piece.after for piece in pieces)
    columns = (Column("outcome"), Column("targets"), Column("error", is_number=False), Column("which", is_number=False))
    rows = [
        (
            Cell(outcome_text(one.status, one.stage)),
            Cell(f"{len(one.targets):,}"),
            Cell(Span(shortened(one.error or "no message", _LONGEST_SHORT))),
            Cell(Span(some_names(one.targets, _MAX_PIECES))),
        )
        for one in found[:_MAX_ERRORS]
    ]
    return Table(columns, tuple(rows) if any(len(one.rows) > 1 for one in found) else (), "error", label="By error")


def _piece(piece: ComparedPiece, comparison: SurveyComparison, *, is_whole: bool) -> Row:
    texts = [shortened(text, _LONGEST) for text in piece_texts(piece)]
    parts: list[Block] = [Note(text, show="always" if at < _MAX_CHANGES else "long") for at, text in enumerate(texts)]
    parts += _more(len(texts) - _MAX_CHANGES, "change")
    if (why := failure_text(piece.after)) is not None:
        parts.append(Note(Span(shortened(why, _LONGEST if is_whole else _LONGEST_SHORT)), "dim"))
    if is_whole:
        parts.append(Rows(tuple(Row(label, text, show="long") for label, text in _numbers(piece))))
        if piece.after.traceback:
            text = without_middle(piece.after.traceback, _LONGEST_TRACEBACK)
            parts.append(Drawing("traceback.html.j2", {"traceback": text}))
    if piece.after.command is not None and TONES.get(piece.verdict) == "bad":
        show: Show = "always" if piece.verdict == "failing" else "long"
        parts.append(Code(piece.after.command, "shell", show=show))
    return Row(Span(piece_name(piece.after, comparison)), tuple(parts), anchor=_anchor(piece.after))


def _anchor(row: SurveyRow) -> str:
    """An id that stays the same from night to night, whatever the names hold."""
    return f"piece-{hashlib.sha256(chr(0).join(row.key).encode(errors='replace')).hexdigest()[:12]}"


def _numbers(piece: ComparedPiece) -> Iterator[tuple[str, str]]:
    """What was measured on either side, and what is said of the difference."""
    sides = (("noted", piece.noted), ("better", piece.better), ("worse", piece.worse))
    judged: dict[SurveyChangeKind, str] = {change.kind: word for word, changes in sides for change in changes}
    judged |= dict.fromkeys((*piece.unknown, *(("status",) if piece.is_unjudged else ())), "unknown now")
    if piece.is_noisy and "speedup" not in judged:
        judged["speedup"] = "not compared: the machine was too busy"
    for kind, (label, shown) in _FIGURES.items():
        before, after = shown(piece.before), shown(piece.after)
        if kind == "coverage" and piece.before.coverage is not None and piece.after.coverage is not None:
            before, after = percents(piece.before.coverage, piece.after.coverage)
        if (before, after) != (NOTHING, NOTHING):
            yield label, f"{before} → {after}" + (f", {judged[kind]}" if kind in judged else "")


def _number(name: str, text: Callable[[float], str] = "{:,.0f}".format) -> Callable[[SurveyRow], str]:
    def shown(row: SurveyRow) -> str:
        value = getattr(row, name)
        return (
            NOTHING if value is None else {True: "yes", False: "no"}[value] if isinstance(value, bool) else text(value)
        )

    return shown


def _noted(comparison: SurveyComparison) -> Section:
    """Single measurements that differ, and pieces that came out otherwise without being worse."""
    rows = [
        _piece(piece, comparison, is_whole=False)
        for piece in comparison.of("changed")
        if any(change.kind == "status" for change in piece.noted)
    ]
    found = [(piece, texts) for piece in comparison.pieces if (texts := noted_texts(piece))]
    rows += [Row(Span(piece_name(piece.after, comparison)), Span("; ".join(texts))) for piece, texts in found]
    parts = (Note(SINGLE, "dim"), Rows(tuple(rows), "piece")) if rows else ()
    return Section("Noted", parts, count=len(rows), show="long")


# In words.


def verdict(comparison: SurveyComparison) -> tuple[str, Tone]:
    """How many pieces are what, in a sentence, and whether that is good news."""
    unknown = len(comparison.of("unknown")) + len(comparison.gone)
    failing, worse = len(comparison.of("failing")), len(comparison.of("worse"))
    counts = [
        (counted(failing, "new failure"), failing),
        (f"{worse} worse", worse),
        (f"{unknown} unknown now", unknown),
        *(
            (f"{number} {name}", number)
            for name in ("flaky", "fixed", "better")
            if (number := _count(comparison, name))
        ),
    ]
    said = [text for text, number in counts if number]
    if not (failing or worse or unknown):
        said.insert(0, "no regressions")
    compared = comparison.unchanged + len(comparison.pieces)
    tone: Tone = "bad" if comparison.exit_code else "warning" if worse or comparison.of("flaky") else "good"
    return f"{counted(compared, 'piece')} compared: {', '.join(said)}.", tone


def _count(comparison: SurveyComparison, name: SurveyVerdict) -> int:
    return len(comparison.of(name))


def exit_text(comparison: SurveyComparison) -> str | None:
    """Why the comparison fails or can't tell; None if it passes."""
    reasons = []
    if (missing := comparison.after.planned - comparison.after.rows) > 0:
        reasons.append(f"{counted(missing, 'piece')} of the second survey didn't finish")
    if comparison.gone:
        reasons.append(f"{counted(len(comparison.gone), 'piece')} of the first survey {_is(comparison.gone)} missing")
    if lost := comparison.of("unknown"):
        reasons.append(f"{counted(len(lost), 'piece')} can't be judged any more")
    if reasons:
        return f"Not a pass: {', '.join(reasons)}."
    if failing := comparison.failing:
        return f"Failed: {counted(len(failing), 'piece')} at or above --fail-on {comparison.fail_on}."
    return None


def closing_texts(comparison: SurveyComparison) -> Iterator[str]:
    """What is left to say of the comparison, in sentences."""
    if (added := added_text(comparison)) is not None:
        yield f"Only in the second survey: {added}."
    yield from filter(None, (still_failing_text(comparison), noisy_text(comparison)))


def _is(values: Sequence[object]) -> str:
    return "is" if len(values) == 1 else "are"


def side_parts(side: SurveySide) -> list[str]:
    """What was surveyed on one side: name, date, versions, devices, size."""
    parts = [side.name, side.started.partition("T")[0]]
    parts += [f"torch {', '.join(side.torch)}"] if side.torch else []
    parts += [some_names(side.devices)] if side.devices else []
    size = counted(side.rows, "row")
    parts.append(size if side.rows >= side.planned else f"{side.rows} of {counted(side.planned, 'row')}")
    return [*parts, *([f"shard {side.shard}"] if side.shard is not None else [])]


def mismatch_text(mismatch: SurveyMismatch) -> str:
    """One way in which the surveys differ, a sentence."""
    before, after = mismatch.before or "none", mismatch.after or "none"
    if mismatch.aspect == "measured":
        measure = next((text for name, text in MEASURE_TEXTS.items() if name == mismatch.name), mismatch.name)
        return f"Only the {'second' if mismatch.before is None else 'first'} survey measured {measure}."
    if mismatch.aspect == "options":
        return f"The option {mismatch.name} was {before}, now {after}."
    if mismatch.aspect == "variant":
        return f"The variant {mismatch.name} was {before}, now {after}."
    where = f" in {counted(mismatch.pieces, 'piece')}" if mismatch.pieces is not None else ""
    what = _ASPECTS[mismatch.aspect]
    if mismatch.before is None and mismatch.after is None:
        return f"{what} differs{where}."
    return f"{what}: {before} before, {after} now{f',{where}' if where else ''}."


# Pieces.


def piece_name(row: SurveyRow, comparison: SurveyComparison) -> str:
    """The name of a piece; with that of its variant where there are several."""
    return row_name(row, has_variants=len(comparison.variants) > 1)


def piece_texts(piece: ComparedPiece) -> Iterator[str]:
    """What changed in a piece, the worst first."""
    yield from unknown_parts(piece)
    for change in piece.worse:
        yield change_text(change, piece)
    if not piece.is_unjudged:
        for change in piece.noted:
            if change.kind == "status":
                yield change_text(change, piece)
    mark = "" if piece.verdict in ("fixed", "better") else "better: "
    yield from (f"{mark}{change_text(change, piece)}" for change in piece.better)


def unknown_parts(piece: ComparedPiece) -> Iterator[str]:
    """What can't be told of a piece."""
    if piece.is_unjudged:
        yield f"{outcome_text(piece.after.status, piece.after.stage)}, was {_outcome(piece.before)}"
    if piece.unknown:
        yield f"no longer known: {', '.join(MEASURE_TEXTS[name] for name in piece.unknown)}"


def noted_texts(piece: ComparedPiece) -> list[str]:
    """The single measurements of a piece that differ."""
    return [number_text(change) for change in piece.noted if change.kind != "status"]


def change_text(change: SurveyChange, piece: ComparedPiece) -> str:
    """What changed, a clause."""
    if change.cause is not None:
        cause = change.cause
        state = "new" if change in piece.worse else "gone"
        return f"{state} {cause.code} {base_name(cause.file)}:{cause.line}: {cause.message.rstrip('.')}"
    if change.kind == "status":
        return _status_text(change, piece)
    if change.kind in _FLAGS:
        return _FLAGS[change.kind][bool(change.after)]
    return _speedup_text(piece) if change.kind == "speedup" else number_text(change)


def _speedup_text(piece: ComparedPiece) -> str:
    """The speed-ups of both sides with their intervals."""
    return f"speed-up {cell_line(speedup_cell(piece.before))} → {cell_line(speedup_cell(piece.after))}"


def _status_text(change: SurveyChange, piece: ComparedPiece) -> str:
    if change.is_flaky and piece.after.is_flaky:
        return f"attempts: {flaky_text(piece.after)}"
    text = f"{outcome_text(piece.after.status, piece.after.stage)}, was {_outcome(piece.before)}"
    return f"{text}; attempts before: {flaky_text(piece.before)}" if change.is_flaky else text


def _outcome(row: SurveyRow) -> str:
    return outcome_text(row.status, None if row.is_passed else row.stage)


def number_text(change: SurveyChange) -> str:
    """A number of both sides: ``break sites 0 → 2``."""
    name = next((text for measure, text in MEASURE_TEXTS.items() if measure == change.kind), change.kind)
    before, after = _number_texts(change)
    return f"{name} {before} → {after}"


def _number_texts(change: SurveyChange) -> tuple[str, str]:
    before, after = (float(value) if isinstance(value, int | float) else 0.0 for value in (change.before, change.after))
    match change.kind:
        case "coverage":
            return percents(before, after)
        case "call_us":
            return duration(before), duration(after)
        case "compile_cold_s" | "compile_s":
            return seconds_text(before), seconds_text(after)
        case "peak_memory_bytes":
            return bytes_text(int(before)), bytes_text(int(after))
        case _:
            return f"{before:,.0f}", f"{after:,.0f}"


def failure_text(row: SurveyRow) -> str | None:
    """Why a piece doesn't pass; None if it does or says nothing."""
    return None if row.is_passed else error_text(row)


def added_text(comparison: SurveyComparison) -> str | None:
    """How many pieces are new, and which of them don't pass; None if there are none."""
    if not comparison.added:
        return None
    failing = [piece_name(row, comparison) for row in comparison.added if not row.is_passed]
    text = counted(len(comparison.added), "piece")
    if not failing:
        return f"{text}, all pass" if len(comparison.added) > 1 else f"{text}, passes"
    return f"{text}, {len(failing)} of them {'fails' if len(failing) == 1 else 'fail'}: {some_names(failing)}"


def still_failing_text(comparison: SurveyComparison) -> str | None:
    """How many pieces fail as before; None if none does."""
    number = comparison.still_failing
    return f"{counted(number, 'piece')} {'passes' if number == 1 else 'pass'} in neither survey." if number else None


def noisy_text(comparison: SurveyComparison) -> str | None:
    """How many speed-ups weren't compared; None if all were."""
    if not comparison.noisy:
        return None
    pieces = counted(comparison.noisy, "piece")
    return f"The speed-ups of {pieces} weren't compared, because the machine was too busy."


def _passed_cell(one: ComparedVariant) -> Cell:
    if not one.judged:
        return Cell("none judged")
    tone: Tone | None = None
    if one.passed_after != one.passed_before:
        tone = "bad" if one.passed_after < one.passed_before else "good"
    return Cell(f"{one.passed_before:,} → {one.passed_after:,}", f"of {one.judged:,}", tone)


def _speedup_cell(one: ComparedVariant) -> Cell:
    before, after = one.speedup_before, one.speedup_after
    if before is None or after is None:
        return Cell(NOTHING)
    tone: Tone | None = "bad" if after.high < before.low else "good" if after.low > before.high else None
    detail = f"{_interval(before)} → {_interval(after)}, {counted(one.timed, 'piece')}"
    return Cell(f"{factor_text(before.ratio)} → {factor_text(after.ratio)}", detail, tone)


def _interval(mean: GeometricMean) -> str:
    return interval_text(mean.low, mean.high)


def _compile_cell(one: ComparedVariant) -> Cell:
    if one.compile_cold_s_before is None or one.compile_cold_s_after is None:
        return Cell(NOTHING)
    return Cell(f"{seconds_text(one.compile_cold_s_before)} → {seconds_text(one.compile_cold_s_after)}")


_FIGURES: Mapping[SurveyChangeKind, tuple[str, Callable[[SurveyRow], str]]] = {
    "status": ("outcome", _outcome),
    "break_sites": ("break sites", _number("break_sites")),
    "skipped_frames": ("skipped frames", _number("skipped_frames")),
    "recompiles": ("recompiles", _number("recompiles")),
    "frames_over_limit": ("functions over the recompile limit", _number("frames_over_limit")),
    "coverage": ("coverage", _number("coverage", lambda value: percents(value, value)[0])),
    "speedup": ("speed-up", lambda row: cell_line(speedup_cell(row))),
    "call_us": ("call", _number("call_us", duration)),
    "compile_cold_s": ("cold compile", _number("compile_cold_s", seconds_text)),
    "compile_s": ("compile of the recorded run", _number("compile_s", seconds_text)),
    "peak_memory_bytes": ("peak memory", _number("peak_memory_bytes", lambda value: bytes_text(int(value)))),
    "correct": ("correct results", _number("correct")),
    "exports": ("torch.export", _number("exports")),
    "is_steady": ("stops compiling when calls repeat", _number("is_steady")),
}

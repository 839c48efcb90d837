"""Two surveys side by side: how they differ, the answer, the numbers by variant, then pieces, the
worst first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, get_args

from graphdoctor.facts.survey_comparison import SurveyMeasure
from graphdoctor.views import survey_words as words
from graphdoctor.views.html.plots import STYLES, Axis
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
    Verdict,
    View,
    cell_line,
)
from graphdoctor.views.words import base_name, few_text, percents
from graphdoctor.wording import counted, factor_text, join_texts, shortened, without_middle

if TYPE_CHECKING:
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
    from graphdoctor.views.parts import Show, Tone

_SINGLE = "Times of compiling, times of calls and peak memory are single measurements: noted, but never a regression."

SHOWN: dict[SurveyVerdict, tuple[str, Tone]] = {
    "unknown": ("Unknown now", "bad"),
    "failing": ("New failures", "bad"),
    "worse": ("Worse", "bad"),
    "flaky": ("Flaky", "warning"),
    "fixed": ("Fixed", "good"),
    "better": ("Better", "good"),
}
"""Verdicts whose pieces are shown in full: what these are called."""

_FLAGS: dict[SurveyChangeKind, tuple[str, str]] = {
    "correct": ("wrong results, which were right", "right results, which were wrong"),
    "exports": ("torch.export fails, which worked", "torch.export works, which failed"),
    "is_steady": (
        "keeps compiling when calls repeat, which settled",
        "stops compiling when calls repeat",
    ),
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
_MAX_PIECES = 10
"""Of a verdict, on a terminal."""
_MAX_WHOLE = 60
"""Pieces of a verdict that have all of their numbers."""
_MAX_CHANGES = 4
"""Of a piece, on a terminal."""
_MAX_BARS = 20
_MAX_ERRORS = 40
_MAX_NAMES = 3
_MAX_TARGETS = 200
_LONGEST = 1_200
"""Characters of an error."""
_LONGEST_TRACEBACK = 2_000
_LONGEST_SHORT = 200


def survey_comparison_view(comparison: SurveyComparison) -> View:
    """The comparison as a tree."""
    sides = (comparison.before, comparison.after)
    title = (side.path or f"{side.name} {side.started.partition('T')[0]}" for side in sides)
    parts, then = tuple(_parts(comparison)), after_survey_comparison(comparison)
    return View((" → ".join(title),), "surveys", parts, comparison.graphdoctor_version, then)


def _parts(comparison: SurveyComparison) -> Iterator[Block]:
    sides = (("before", comparison.before), ("after", comparison.after))
    yield Rows(
        Row(
            name,
            (Span(" · ".join(_side(side))), *([Note(Span(side.path), "dim")] if side.path else [])),
        )
        for name, side in sides
    )
    if comparison.mismatches:
        yield Note("The surveys differ:", "warning")
        yield Rows(Row("note", _mismatch(each)) for each in comparison.mismatches)
    yield Verdict(*verdict(comparison))
    if (why := exit_text(comparison)) is not None:
        yield Note(why, "bad")
    yield _variants(comparison)
    yield Section("Speed-ups that changed", _bars(comparison), "Speed")
    gone = _only(comparison.gone, "Whether these still pass is unknown.", comparison)
    yield Section("Only in the first survey", gone, "Gone", tone="bad")
    found = enumerate(comparison.new_causes, start=1)
    cards = tuple(
        words.cause_card(
            cause,
            cause.message,
            f"finding-{number}",
            Row("in", Span(few_text(cause.targets, _MAX_TARGETS))),
        )
        for number, cause in found
    )
    yield Section("New findings", Cards(cards), "Findings", tone="bad")
    for each, (heading, tone) in SHOWN.items():
        pieces = comparison.of(each)
        errors = (_errors(pieces),) if each == "failing" else ()
        rows = tuple(
            _piece(piece, comparison, is_whole=at < _MAX_WHOLE) for at, piece in enumerate(pieces)
        )
        listed = Rows(rows, "piece", _MAX_PIECES)
        yield Section(heading, (*errors, listed) if rows else (), count=len(pieces), tone=tone)
    added = _only(comparison.added, _added(comparison) or "", comparison)
    yield Section("Only in the second survey", added, "Added", show="long")
    yield _noted(comparison)
    yield from (Note(text, "dim") for text in _closing(comparison))


def _variants(comparison: SurveyComparison) -> Table:
    """A row for each variant: before and now, over the pieces that both surveys have."""
    meaning = "A geometric mean with its 95% interval, over the pieces that pass in both."
    columns = (
        "#variant",
        "#passed",
        Column("speed-up", meaning=meaning),
        Column("compile", meaning="A median."),
    )
    rows = ((Cell(Span(one.variant)), *_variant(one)) for one in comparison.variants)
    return Table(columns, rows, "variant", label="Each variant before and after")


def _variant(one: ComparedVariant) -> Iterator[Cell]:
    passed = Cell(
        f"{one.passed_before:,} → {one.passed_after:,}",
        f"of {one.judged:,}",
        _tone(one.passed_after - one.passed_before),
    )
    yield passed if one.judged else Cell("none judged")
    before, after = one.speedup_before, one.speedup_after
    if before is None or after is None:
        yield Cell(NOTHING)
    else:
        was, now = (interval_text(mean.low, mean.high) for mean in (before, after))
        detail = f"{was} → {now}, {counted(one.timed, 'piece')}"
        tone = _tone((after.low > before.high) - (after.high < before.low))
        yield Cell(f"{factor_text(before.ratio)} → {factor_text(after.ratio)}", detail, tone)
    times = (one.compile_cold_s_before, one.compile_cold_s_after)
    yield Cell(NOTHING if None in times else " → ".join(map(seconds_text, times)))


def _tone(change: int) -> Tone | None:
    return "good" if change > 0 else "bad" if change < 0 else None


def _bars(comparison: SurveyComparison) -> Iterator[Drawing]:
    """Speed-ups that differ beyond noise, the largest differences first."""
    found = [
        (piece, before, after, side)
        for piece in comparison.pieces
        for side, changes in (("worse", piece.worse), ("better", piece.better))
        if any(change.kind == "speedup" for change in changes)
        and (before := piece.before.speed) is not None
        and (after := piece.after.speed) is not None
    ]
    if not found:
        return
    ends = [end for _, before, after, _ in found for end in (*before, *after)]
    found.sort(key=lambda each: -max(each[1][1] / each[2][1], each[2][1] / each[1][1]))
    bars = [
        {
            "name": _name(piece.after, comparison),
            "anchor": _anchor(piece.after),
            "before": before,
            "after": after,
            "text": f"{factor_text(before[1])} → {factor_text(after[1])}",
            "note": f"{side}, {interval_text(before[0], before[2])} → {interval_text(after[0], after[2])}",
        }
        for piece, before, after, side in found[:_MAX_BARS]
    ]
    axis = Axis(min(ends) / 1.05, max(1.0, *ends) * 1.05, is_log=True)
    facts = {"axis": axis, "bars": bars, "more_bars": max(len(found) - _MAX_BARS, 0)}
    yield Drawing("survey_moves.html.j2", facts, styles=(*STYLES, "survey_comparison.css"))


# What one survey alone has, and what got worse.


def _only(rows: Sequence[SurveyRow], said: str, comparison: SurveyComparison) -> Iterator[Block]:
    """Rows that one of the surveys has, and what is said of them."""
    listed = []
    for row in rows:
        speed = None if row.speedup is None else cell_line(words.speedup_cell(row))
        whole, why = Span(join_texts(", ", _outcome(row), speed)), words.failure_text(row)
        short = () if why is None else (Note(Span(shortened(why, _LONGEST_SHORT)), "dim"),)
        listed.append(Row(Span(_name(row, comparison)), (whole, *short)))
    if listed:
        yield from (said, Rows(listed, "piece", _MAX_PIECES))


# Pieces.


def _errors(pieces: Sequence[ComparedPiece]) -> Table:
    """New failures by error, if several pieces fail alike."""
    found = words.failures(piece.after for piece in pieces)
    shown = found[:_MAX_ERRORS] if any(len(one.rows) > 1 for one in found) else []

    def which(one: words.Failure) -> Cell:
        return Cell(Span(few_text(one.targets, _MAX_PIECES)))

    return words.failure_table(shown, which, unknown="no message", longest=_LONGEST_SHORT)


def _piece(piece: ComparedPiece, comparison: SurveyComparison, *, is_whole: bool) -> Row:
    texts = [shortened(text, _LONGEST) for text in _texts(piece)]
    parts: list[Block] = [
        Note(text, show="always" if at < _MAX_CHANGES else "long") for at, text in enumerate(texts)
    ]
    if (more := len(texts) - _MAX_CHANGES) > 0:
        parts.append(Note(f"{counted(more, 'more change')}: -v", "dim", show="short"))
    if (why := words.failure_text(piece.after)) is not None:
        parts.append(Note(Span(shortened(why, _LONGEST if is_whole else _LONGEST_SHORT)), "dim"))
    if is_whole:
        parts.append(Rows(Row(label, text, show="long") for label, text in _numbers(piece)))
        if piece.after.traceback:
            text = without_middle(piece.after.traceback, _LONGEST_TRACEBACK)
            parts.append(Drawing("traceback.html.j2", {"traceback": text}))
    if piece.after.command is not None and piece.verdict in ("unknown", "failing", "worse"):
        show: Show = "always" if piece.verdict == "failing" else "long"
        parts.append(Code(piece.after.command, "shell", show=show))
    return Row(Span(_name(piece.after, comparison)), tuple(parts), anchor=_anchor(piece.after))


def _anchor(row: SurveyRow) -> str:
    """An id that stays the same from night to night, whatever the names hold."""
    return f"piece-{hashlib.sha256(chr(0).join(row.key).encode(errors='replace')).hexdigest()[:12]}"


def _numbers(piece: ComparedPiece) -> Iterator[tuple[str, str]]:
    """What was measured on either side, and what is said of the difference."""
    sides = (("noted", piece.noted), ("better", piece.better), ("worse", piece.worse))
    judged: dict[SurveyChangeKind, str] = {
        change.kind: word for word, changes in sides for change in changes
    }
    judged |= dict.fromkeys(
        (*piece.unknown, *(("status",) if piece.is_unjudged else ())), "unknown now"
    )
    if piece.is_noisy and "speedup" not in judged:
        judged["speedup"] = "not compared: the machine was too busy"
    kinds: tuple[SurveyChangeKind, ...] = ("status", *get_args(SurveyMeasure))
    for kind in kinds:
        before, after = _number(kind, piece.before), _number(kind, piece.after)
        if (
            kind == "coverage"
            and piece.before.coverage is not None
            and piece.after.coverage is not None
        ):
            before, after = percents(piece.before.coverage, piece.after.coverage)
        if (before, after) != (NOTHING, NOTHING):
            label = "outcome" if kind == "status" else words.FIELDS[kind].label
            yield label, f"{before} → {after}" + (f", {judged[kind]}" if kind in judged else "")


def _number(kind: SurveyChangeKind, row: SurveyRow) -> str:
    return _outcome(row) if kind == "status" else cell_line(words.field_cell(row, kind))


def _noted(comparison: SurveyComparison) -> Section:
    """Single measurements that differ, and pieces that came out otherwise without being worse."""
    rows = [
        _piece(piece, comparison, is_whole=False)
        for piece in comparison.of("changed")
        if any(change.kind == "status" for change in piece.noted)
    ]
    rows += [
        Row(Span(_name(piece.after, comparison)), Span("; ".join(texts)))
        for piece in comparison.pieces
        if (texts := [_change(change, piece) for change in piece.noted if change.kind != "status"])
    ]
    parts = (Note(_SINGLE, "dim"), Rows(rows, "piece")) if rows else ()
    return Section("Noted", parts, count=len(rows), show="long")


# In words.


def verdict(comparison: SurveyComparison) -> tuple[str, Tone]:
    """How many pieces are what, in a sentence, and whether that is good news."""
    numbers = {name: len(comparison.of(name)) for name in SHOWN}
    unknown = numbers["unknown"] + len(comparison.gone)
    said = [counted(numbers["failing"], "new failure")] if numbers["failing"] else []
    named = {"worse": numbers["worse"], "unknown now": unknown}
    named |= {name: numbers[name] for name in ("flaky", "fixed", "better")}
    said += [f"{number} {name}" for name, number in named.items() if number]
    if not (numbers["failing"] or numbers["worse"] or unknown):
        said.insert(0, "no regressions")
    compared = comparison.unchanged + len(comparison.pieces)
    tone: Tone = (
        "bad"
        if comparison.exit_code
        else "warning"
        if numbers["worse"] or numbers["flaky"]
        else "good"
    )
    return f"{counted(compared, 'piece')} compared: {', '.join(said)}.", tone


def exit_text(comparison: SurveyComparison) -> str | None:
    """Why the comparison fails or can't tell; None if it passes."""
    reasons = []
    if (missing := comparison.after.planned - comparison.after.rows) > 0:
        reasons.append(f"{counted(missing, 'piece')} of the second survey didn't finish")
    if number := len(comparison.gone):
        reasons.append(
            f"{counted(number, 'piece')} of the first survey {'is' if number == 1 else 'are'} missing"
        )
    if lost := comparison.of("unknown"):
        reasons.append(f"{counted(len(lost), 'piece')} can't be judged any more")
    if reasons:
        return f"Not a pass: {', '.join(reasons)}."
    if failing := comparison.failing:
        return (
            f"Failed: {counted(len(failing), 'piece')} at or above --fail-on {comparison.fail_on}."
        )
    return None


def _closing(comparison: SurveyComparison) -> Iterator[str]:
    if (added := _added(comparison)) is not None:
        yield f"Only in the second survey: {added}."
    if number := comparison.still_failing:
        yield f"{counted(number, 'piece')} {'passes' if number == 1 else 'pass'} in neither survey."
    if comparison.noisy:
        pieces = counted(comparison.noisy, "piece")
        yield f"The speed-ups of {pieces} weren't compared, because the machine was too busy."
    if alike := comparison.unchanged + len(comparison.of("changed")):
        yield f"{counted(alike, 'piece')} {'is' if alike == 1 else 'are'} neither worse nor better."


def _side(side: SurveySide) -> Iterator[str]:
    """What was surveyed on one side: name, date, versions, devices, size."""
    yield from (side.name, side.started.partition("T")[0])
    if side.torch:
        yield f"torch {', '.join(side.torch)}"
    if side.devices:
        yield few_text(side.devices, _MAX_NAMES)
    size = counted(side.rows, "row")
    yield size if side.rows >= side.planned else f"{side.rows} of {counted(side.planned, 'row')}"
    if side.shard is not None:
        yield f"shard {side.shard}"


def _mismatch(mismatch: SurveyMismatch) -> str:
    """One way in which the surveys differ, a sentence."""
    before, after = mismatch.before or "none", mismatch.after or "none"
    if mismatch.aspect == "measured":
        known = words.FIELDS.get(mismatch.name or "")
        measure = mismatch.name if known is None else known.label
        return f"Only the {'second' if mismatch.before is None else 'first'} survey measured {measure}."
    if mismatch.aspect in ("options", "variant"):
        return f"The {mismatch.aspect.removesuffix('s')} {mismatch.name} was {before}, now {after}."
    where = f" in {counted(mismatch.pieces, 'piece')}" if mismatch.pieces is not None else ""
    what = _ASPECTS[mismatch.aspect]
    if mismatch.before is None and mismatch.after is None:
        return f"{what} differs{where}."
    return f"{what}: {before} before, {after} now{f',{where}' if where else ''}."


# Pieces.


def _name(row: SurveyRow, comparison: SurveyComparison) -> str:
    return words.row_name(row, has_variants=len(comparison.variants) > 1)


def _texts(piece: ComparedPiece) -> Iterator[str]:
    """What changed in a piece, the worst first."""
    if piece.is_unjudged:
        yield _outcomes(piece)
    if piece.unknown:
        yield f"no longer known: {', '.join(words.FIELDS[name].label for name in piece.unknown)}"
    noted = (
        () if piece.is_unjudged else (change for change in piece.noted if change.kind == "status")
    )
    yield from (_change(change, piece) for change in (*piece.worse, *noted))
    mark = "" if piece.verdict in ("fixed", "better") else "better: "
    yield from (f"{mark}{_change(change, piece)}" for change in piece.better)


def _change(change: SurveyChange, piece: ComparedPiece) -> str:
    """What changed, a clause."""
    if (cause := change.cause) is not None:
        state = "new" if change in piece.worse else "gone"
        return f"{state} {cause.code} {base_name(cause.file)}:{cause.line}: {cause.message.rstrip('.')}"
    if change.kind == "status":
        if change.is_flaky and piece.after.is_flaky:
            return f"attempts: {words.flaky_text(piece.after)}"
        before = f"; attempts before: {words.flaky_text(piece.before)}" if change.is_flaky else ""
        return _outcomes(piece) + before
    if change.kind in _FLAGS:
        return _FLAGS[change.kind][bool(change.after)]
    if change.kind == "speedup":
        return f"speed-up {cell_line(words.speedup_cell(piece.before))} → {cell_line(words.speedup_cell(piece.after))}"
    old, new = (
        float(value) if isinstance(value, int | float) else 0.0
        for value in (change.before, change.after)
    )
    field = words.FIELDS[change.kind]
    return f"{field.label} {' → '.join(percents(old, new) if change.kind == 'coverage' else map(field.text, (old, new)))}"


def _outcomes(piece: ComparedPiece) -> str:
    return (
        f"{words.outcome_text(piece.after.status, piece.after.stage)}, was {_outcome(piece.before)}"
    )


def _outcome(row: SurveyRow) -> str:
    return words.outcome_text(row.status, None if row.is_passed else row.stage)


def _added(comparison: SurveyComparison) -> str | None:
    """How many pieces are new, and which of them don't pass; None if there are none."""
    if not comparison.added:
        return None
    failing = [_name(row, comparison) for row in comparison.added if not row.is_passed]
    text = counted(len(comparison.added), "piece")
    if not failing:
        return f"{text}, all pass" if len(comparison.added) > 1 else f"{text}, passes"
    return f"{text}, {len(failing)} of them {'fails' if len(failing) == 1 else 'fail'}: {few_text(failing, _MAX_NAMES)}"

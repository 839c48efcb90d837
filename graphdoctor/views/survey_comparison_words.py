"""Two surveys side by side in words: what every view says of their differences, their pieces and what changed.

Comes in: a ``SurveyComparison`` and its parts. Goes out: plain text, which may hold text from outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import bytes_text, counted, duration, factor_text, percents
from graphdoctor.views.bench_words import Cell, seconds_text
from graphdoctor.views.places import Place, file_place
from graphdoctor.views.survey_failures import error_text
from graphdoctor.views.survey_words import (
    NOTHING,
    Grid,
    cause_function,
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
    from pathlib import Path

    from graphdoctor.facts.survey import GeometricMean, SharedCause, SurveyCause, SurveyRow
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
    from graphdoctor.views.parts import Tone

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


def unknown_texts(comparison: SurveyComparison) -> Iterator[str]:
    """What can't be told, piece by piece, in sentences."""
    if (missing := comparison.after.planned - comparison.after.rows) > 0:
        yield f"{counted(missing, 'piece')} of the second survey didn't finish."
    for row in comparison.gone:
        yield f"{piece_name(row, comparison)} is only in the first survey."
    for piece in comparison.of("unknown"):
        why = failure_text(piece.after)
        text = f"{piece_name(piece.after, comparison)}: {'; '.join(unknown_parts(piece))}"
        yield f"{text}: {why}." if why is not None else f"{text}."


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


def cause_head(cause: SharedCause) -> str:
    """How many targets have a new finding, and in which function: ``41 targets, 3 lines of make_mask``."""
    function = cause_function(cause)
    return cause_size(cause) if function is None else f"{cause_size(cause)} of {function}"


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
    return f"speed-up {speedup_cell(piece.before).line} → {speedup_cell(piece.after).line}"


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


def target_place(row: SurveyRow, comparison: SurveyComparison, root: Path | None) -> Place | None:
    """Where the file of a target is; None if it is in none that is known."""
    path = re.split(r":(?![\\/])", row.target)[0]
    return placed(path, comparison, root) if path.endswith((".py", ".ipynb")) else None


def cause_file(cause: SurveyCause, comparison: SurveyComparison, root: Path | None) -> Place:
    """Where the file of a finding is: in a package, or below the survey's folder."""
    if cause.package is not None:
        return Place(cause.file.replace("\\", "/"), "PACKAGES")
    return placed(cause.file, comparison, root)


def placed(file: str, comparison: SurveyComparison, root: Path | None) -> Place:
    """Where a file is that isn't in a package, from the root of the repository."""
    place = file_place(file, root)
    if comparison.folder is None or place.base != "SRCROOT":
        return place
    return Place(f"{comparison.folder}/{place.path}", "SRCROOT")


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


def variant_grid(comparison: SurveyComparison) -> Grid:
    """A row for each variant: before and now, over the pieces that both surveys have."""
    variants = comparison.variants
    columns = [("passed", [_passed_cell(one) for one in variants])]
    if any(one.speedup_before is not None for one in variants):
        columns.append(("speed-up", [_speedup_cell(one) for one in variants]))
    if any(one.compile_cold_s_before is not None for one in variants):
        columns.append(("compile", [_compile_cell(one) for one in variants]))
    return Grid(
        ("variant", *(name for name, _ in columns)),
        tuple((one.variant, tuple(cells[number] for _, cells in columns)) for number, one in enumerate(variants)),
    )


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


NewFinding = tuple["ComparedPiece", "SurveyChange", "SurveyCause"]
"""A piece, what got worse in it, and the finding that this is."""


def new_findings(comparison: SurveyComparison) -> list[list[NewFinding]]:
    """The new findings; those of one line that are the same are together."""
    shared: dict[tuple[str, int, str], list[NewFinding]] = {}
    for piece, change in comparison.changes():
        if (cause := change.cause) is not None:
            shared.setdefault((cause.file, cause.line, cause.fingerprint), []).append((piece, change, cause))
    return list(shared.values())


def unexplained(piece: ComparedPiece) -> list[SurveyChange]:
    """What got worse in a piece and isn't shown by a new finding of its own that is as bad."""
    order = ("info", "warning", "error")
    worst = max((order.index(change.severity) for change in piece.worse if change.cause is not None), default=-1)
    counts = ("break_sites", "skipped_frames", "recompiles", "frames_over_limit", "coverage")
    return [
        change
        for change in piece.worse
        if change.cause is None and (change.kind not in counts or order.index(change.severity) > worst)
    ]

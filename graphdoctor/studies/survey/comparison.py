"""Two surveys in, a ``SurveyComparison`` out.

Rows are matched by name and variant. A count, a status or a finding that got worse is a regression;
a speed-up only if the intervals don't touch and the difference is more than the noise of both
machines. Times of one process and peak memory are single measurements, which aren't compared.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.bench import PROCESSES_DIFFER
from graphdoctor.facts.diagnosis import SEVERITIES, Severity
from graphdoctor.facts.spec import FailOn
from graphdoctor.facts.survey import RAN, SurveyCause, SurveyReport, SurveyRow
from graphdoctor.facts.survey_comparison import (
    COUNTS_OF_RECORDS,
    SURVEY_VERDICTS,
    ChangeDirection,
    ComparedPiece,
    ComparedVariant,
    SurveyAspect,
    SurveyChange,
    SurveyComparison,
    SurveyMeasure,
    SurveyMismatch,
    SurveyVerdict,
    side_of,
)
from graphdoctor.studies.survey.summary import mean_speedup, shared_causes

_JUDGED: dict[SurveyMeasure, tuple[int, Severity]] = {
    **dict.fromkeys(COUNTS_OF_RECORDS, (-1, "warning")),
    "coverage": (1, "warning"),
    "correct": (1, "error"),
    "exports": (1, "error"),
    "is_steady": (1, "warning"),
}
"""The better direction, less (-1) or more (1), and the severity of the contrary."""
_EXPECTED: Mapping[SurveyMeasure, str | None] = {
    **dict.fromkeys(COUNTS_OF_RECORDS),
    "coverage": None,
    "speedup": "bench",
    "correct": "bench",
    "exports": "export",
}
"""Measures that must not become unknown, with the option that measures each; None for all."""
_COVERAGE_NOISE = 0.01
"""As for ``check``: coverage that falls by no more than this hasn't fallen."""
_REQUESTED: tuple[SurveyAspect, ...] = ("dtype", "batch")
"""Aspects that are None where nothing was asked for; other aspects are then unknown."""
_OF_PIECES: tuple[SurveyAspect, ...] = (
    "torch",
    "device",
    "host",
    "python",
    "library",
    *_REQUESTED,
    "calls",
)

_Pair = tuple[SurveyRow, SurveyRow]
_Changes = Iterator[tuple[ChangeDirection, SurveyChange]]


def compare_surveys(
    before: SurveyReport,
    after: SurveyReport,
    *,
    version: str,
    paths: tuple[str | None, str | None] = (None, None),
    folder: str | None = None,
    fail_on: FailOn = "warning",
) -> SurveyComparison:
    """Compare two surveys that have pieces in common.

    ``folder``: path from the root of the git repository to the working directory; None at the root
    and outside any.
    """
    old, new = ({row.key: row for row in report.rows} for report in (before, after))
    pairs = [(old[key], row) for key, row in new.items() if key in old]
    if not pairs:
        raise GraphDoctorError(
            "The two surveys have no piece in common.",
            hint="diff matches pieces by the name of the target and of the variant.",
        )
    expected = [
        name
        for name, option in _EXPECTED.items()
        if option is None
        or after.options.get(option)
        or any(getattr(row, name) is not None for row in after.rows)
    ]
    pieces = [_piece(*pair, expected) for pair in pairs]
    differing = [piece for piece in pieces if piece.verdict != "unchanged"]
    return SurveyComparison(
        graphdoctor_version=version,
        before=side_of(before, paths[0]),
        after=side_of(after, paths[1]),
        folder=folder,
        fail_on=fail_on,
        mismatches=tuple(_mismatches(before, after, pairs)),
        variants=tuple(_variants(after, pairs)),
        pieces=tuple(sorted(differing, key=lambda piece: SURVEY_VERDICTS.index(piece.verdict))),
        unchanged=len(pieces) - len(differing),
        still_failing=sum(not row.is_passed and not other.is_passed for row, other in pairs),
        noisy=sum(piece.is_noisy for piece in pieces),
        added=tuple(row for key, row in new.items() if key not in old),
        gone=tuple(row for key, row in old.items() if key not in new),
        new_causes=shared_causes(
            piece.after.replace(
                causes=tuple(change.cause for change in piece.worse if change.cause is not None)
            )
            for piece in pieces
        ),
    )


# One piece.


def _piece(before: SurveyRow, after: SurveyRow, expected: Sequence[SurveyMeasure]) -> ComparedPiece:
    changes = [*_statuses(before, after)]
    unknown: list[SurveyMeasure] = []
    is_measured = before.status == after.status in RAN and before.is_judged and after.is_judged
    if is_measured:
        changes += [*_numbers(before, after), *_causes(before, after)]
        measures = (name for name in expected if getattr(before, name) is not None)
        unknown += (name for name in measures if getattr(after, name) is None)
    changes.sort(key=lambda change: SEVERITIES.index(change[1].severity))
    sides: dict[ChangeDirection, list[SurveyChange]] = {"worse": [], "better": [], "noted": []}
    for direction, change in changes:
        sides[direction].append(change)
    is_timed = is_measured and before.speed is not None and after.speed is not None
    piece = ComparedPiece(
        before=before,
        after=after,
        verdict="unchanged",
        **{side: tuple(changes) for side, changes in sides.items()},
        unknown=tuple(unknown),
        is_noisy=is_timed and _noise(before, after) is None,
        is_unjudged=before.is_judged and not after.is_judged,
    )
    return piece.replace(verdict=_verdict(piece))


def _verdict(piece: ComparedPiece) -> SurveyVerdict:
    if piece.is_unjudged or piece.unknown:
        return "unknown"
    if piece.counting:
        return "failing" if any(change.kind == "status" for change in piece.counting) else "worse"
    if piece.worse or any(change.is_flaky for change in piece.noted):
        return "flaky"
    if piece.better:
        return "fixed" if any(change.kind == "status" for change in piece.better) else "better"
    return "changed" if piece.noted else "unchanged"


def _statuses(before: SurveyRow, after: SurveyRow) -> _Changes:
    # How it came out may be chance: its attempts differ, or it once came out so before.
    is_flaky = after.is_flaky or after.status in before.earlier
    change = SurveyChange(
        kind="status", before=before.status, after=after.status, is_flaky=is_flaky
    )
    is_newly_wrong = after.status == "wrong" != before.status and before.is_judged
    if not after.is_judged:
        if before.is_judged or before.status != after.status:
            yield "noted", change
    elif after.is_passed:
        if not before.is_passed:
            yield "better", change
        elif after.is_flaky and not before.is_flaky:
            yield "noted", change
    elif before.is_passed or is_newly_wrong:
        yield "worse", change.replace(severity="error")
    elif any(
        getattr(before, name) != getattr(after, name) for name in ("status", "stage", "error_type")
    ):
        yield "noted", change


def _numbers(before: SurveyRow, after: SurveyRow) -> _Changes:
    values: list[tuple[SurveyMeasure, Any, Any]] = []
    for measure in _JUDGED:
        old, new = getattr(before, measure), getattr(after, measure)
        least = _COVERAGE_NOISE if measure == "coverage" else 0
        if old is not None and new is not None and abs(old - new) > least:
            values.append((measure, old, new))
    noise, speed, new_speed = _noise(before, after), before.speed, after.speed
    if noise is not None and speed is not None and new_speed is not None:
        (low, ratio, high), (new_low, new_ratio, new_high) = speed, new_speed
        if (new_high < low or new_low > high) and abs(math.log(ratio / new_ratio)) > noise:
            values.append(("speedup", ratio, new_ratio))
    for measure, old, new in values:
        good, severity = _JUDGED.get(measure, (1, "warning"))
        is_worse = good * (new - old) < 0
        change = SurveyChange(kind=measure, severity=severity if is_worse else "info")
        yield "worse" if is_worse else "better", change.replace(before=old, after=new)


def _noise(before: SurveyRow, after: SurveyRow) -> float | None:
    """Return the difference of logarithms that noise of both machines can make; None if one was
    noisy or unknown.
    """
    noise = 0.0
    for row in (before, after):
        if row.is_noisy is not False:
            return None
        noise += abs(math.log(row.noise)) if row.noise else 0.0
    return max(PROCESSES_DIFFER, noise)


def _causes(before: SurveyRow, after: SurveyRow) -> _Changes:
    """Yield findings that are new or gone."""
    if before.break_sites is None or after.break_sites is None:
        return

    def place(cause: SurveyCause) -> object:
        return cause.code, cause.file, cause.function, cause.text or str(cause.line)

    gone, new = list(before.causes), list(after.causes)
    # Torch's words, which are in a fingerprint, can differ between its versions.
    for identity in (attrgetter("fingerprint"), place):
        for cause in tuple(new):
            same = [other for other in gone if identity(other) == identity(cause)]
            if same:
                gone.remove(same[0])
                new.remove(cause)
    for cause in new:
        yield "worse", SurveyChange(kind="cause", severity=cause.severity, cause=cause)
    for cause in gone:
        yield "better", SurveyChange(kind="cause", cause=cause)


# The surveys as a whole.


def _mismatches(
    before: SurveyReport, after: SurveyReport, pairs: Sequence[_Pair]
) -> Iterator[SurveyMismatch]:
    for aspect in _OF_PIECES:
        values = [
            (_text(getattr(row, aspect)), _text(getattr(other, aspect))) for row, other in pairs
        ]
        is_known = aspect in _REQUESTED
        counts = Counter(
            (old, new) for old, new in values if old != new and (is_known or (old and new))
        )
        for (old, new), pieces in counts.items():
            yield SurveyMismatch(aspect=aspect, before=old, after=new, pieces=pieces)
    old_values, new_values = _values(before), _values(after)
    for aspect, name in {**old_values, **new_values}:
        old, new = (values.get((aspect, name)) for values in (old_values, new_values))
        # A variant that only one of them has is no difference of the pieces that both have.
        if old != new and (aspect == "options" or None not in (old, new) or aspect == "shard"):
            yield SurveyMismatch(aspect=aspect, name=name, before=old, after=new)


def _values(report: SurveyReport) -> dict[tuple[SurveyAspect, str | None], str | None]:
    """Return what holds for a survey as a whole, by aspect and name."""
    values: dict[tuple[SurveyAspect, str | None], str | None] = {}
    for name, value in sorted(report.options.items()):
        values["options", name] = _text(value)
    for variant in report.variants:
        settings = {**variant.settings, "python": variant.python}
        texts = [f"{name}={value}" for name, value in settings.items() if value is not None]
        values["variant", variant.name] = ", ".join(texts) or "none"
    return values | {
        ("graphdoctor", None): report.graphdoctor_version,
        ("shard", None): report.shard,
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _variants(after: SurveyReport, pairs: Sequence[_Pair]) -> Iterator[ComparedVariant]:
    for variant in after.variants:
        of_variant = [pair for pair in pairs if pair[1].variant == variant.name]
        if not of_variant:
            continue
        judged = [pair for pair in of_variant if pair[0].is_judged or pair[1].is_judged]
        passed = [pair for pair in judged if pair[0].is_passed and pair[1].is_passed]
        timed = [pair for pair in passed if all(row.speed is not None for row in pair)]
        compiles = [(row.compile_cold_s, other.compile_cold_s) for row, other in passed]
        cold = [(old, new) for old, new in compiles if old is not None and new is not None]
        yield ComparedVariant(
            variant=variant.name,
            pieces=len(of_variant),
            judged=len(judged),
            passed_before=sum(row.is_passed for row, _ in judged),
            passed_after=sum(row.is_passed for _, row in judged),
            timed=len(timed),
            speedup_before=mean_speedup(row for row, _ in timed),
            speedup_after=mean_speedup(row for _, row in timed),
            compile_cold_s_before=statistics.median(old for old, _ in cold) if cold else None,
            compile_cold_s_after=statistics.median(new for _, new in cold) if cold else None,
        )

"""Compares two surveys. Comes in: two reports. Goes out: a ``SurveyComparison``.

Rows are matched by name and variant. A count, a status or a finding that got worse is a regression;
a speed-up only if the intervals don't touch and the difference is more than the noise of both
machines. Times of one process and peak memory are single measurements, which are noted and never a
regression.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.bench import PROCESSES_DIFFER
from graphdoctor.facts.diagnosis import SEVERITIES, Severity
from graphdoctor.facts.spec import FailOn
from graphdoctor.facts.survey import RAN, SurveyCause, SurveyReport, SurveyRow
from graphdoctor.facts.survey_comparison import (
    COUNTS_OF_RECORDS,
    SURVEY_VERDICTS,
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
"""Whether less (-1) or more of it is good, and how bad the contrary is."""
_EXPECTED: tuple[SurveyMeasure, ...] = (
    *COUNTS_OF_RECORDS,
    "coverage",
    "speedup",
    "correct",
    "exports",
)
"""What must not become unknown."""
_ASKED_BY: Mapping[SurveyMeasure, str] = {
    "speedup": "bench",
    "correct": "bench",
    "exports": "export",
}
"""Of these, what only an option of the survey measures."""
_COVERAGE_NOISE = 0.01
"""As for ``check``: coverage that falls by no more than this hasn't fallen."""
_NOTED: tuple[tuple[SurveyMeasure, float, float], ...] = (
    ("call_us", 1.2, 0.0),
    ("compile_cold_s", 1.3, 1.0),
    ("compile_s", 1.3, 1.0),
    ("peak_memory_bytes", 1.1, 16 * 1024**2),
)
"""Single measurements: the ratio, and the difference in their own unit, from which on they are
worth a note."""
_ASKED: tuple[SurveyAspect, ...] = ("dtype", "batch")
"""Of pieces, what is None where nothing was asked for; anything else is then unknown."""
_OF_PIECES: tuple[SurveyAspect, ...] = (
    "torch",
    "device",
    "host",
    "python",
    "library",
    "target",
    *_ASKED,
    "calls",
)
_MOST_PAIRS = 3
"""More pairs of values than these are only counted."""

_Pairs = Sequence[tuple[SurveyRow, SurveyRow]]


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
    unasked = _unasked(after)
    pieces = [_piece(*pair, unasked) for pair in pairs]
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
        still_failing=sum(not one.is_passed and not other.is_passed for one, other in pairs),
        noisy=sum(piece.is_noisy for piece in pieces),
        added=tuple(row for key, row in new.items() if key not in old),
        gone=tuple(row for key, row in old.items() if key not in new),
        new_causes=shared_causes(
            replace(
                piece.after,
                causes=tuple(change.cause for change in piece.worse if change.cause is not None),
            )
            for piece in pieces
        ),
    )


# One piece.


_Direction = Literal["worse", "better", "noted"]
_Changes = Iterator[tuple[_Direction, SurveyChange]]


def _piece(
    before: SurveyRow, after: SurveyRow, unasked: Collection[SurveyMeasure]
) -> ComparedPiece:
    found = [*_statuses(before, after)]
    unknown: tuple[SurveyMeasure, ...] = ()
    is_measured = before.status == after.status in RAN and before.is_judged and after.is_judged
    if is_measured:
        for changes in (_numbers, _speeds, _causes, _single_measurements):
            found += changes(before, after)
        expected = [
            name for name in _EXPECTED if name not in unasked and getattr(before, name) is not None
        ]
        unknown = tuple(name for name in expected if getattr(after, name) is None)
    found.sort(key=lambda each: SEVERITIES.index(each[1].severity))
    worse, better, noted = (
        tuple(change for direction, change in found if direction == wanted)
        for wanted in get_args(_Direction)
    )
    piece = ComparedPiece(
        before=before,
        after=after,
        verdict="unchanged",
        worse=worse,
        better=better,
        noted=noted,
        unknown=unknown,
        is_noisy=is_measured
        and None not in (before.speed, after.speed)
        and _least(before, after) is None,
        is_unjudged=before.is_judged and not after.is_judged,
    )
    return replace(piece, verdict=_verdict(piece))


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
    """What became worse, better, or different in how it came out."""
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
        yield "worse", replace(change, severity="error")
    elif (before.status, before.stage, before.error_type) != (
        after.status,
        after.stage,
        after.error_type,
    ):
        yield "noted", change


def _numbers(before: SurveyRow, after: SurveyRow) -> _Changes:
    for name, (good, severity) in _JUDGED.items():
        one, other = getattr(before, name), getattr(after, name)
        if (
            one is None
            or other is None
            or abs(one - other) <= (_COVERAGE_NOISE if name == "coverage" else 0)
        ):
            continue
        yield _change(name, severity, one, other, is_worse=good * (other - one) < 0)


def _change(
    name: SurveyMeasure, severity: Severity, before: float, after: float, *, is_worse: bool
) -> tuple[_Direction, SurveyChange]:
    change = SurveyChange(
        kind=name, severity=severity if is_worse else "info", before=before, after=after
    )
    return "worse" if is_worse else "better", change


def _speeds(before: SurveyRow, after: SurveyRow) -> _Changes:
    least, one, other = _least(before, after), before.speed, after.speed
    if least is None or one is None or other is None:
        return
    is_slower, is_faster = other[2] < one[0], other[0] > one[2]
    if (is_slower or is_faster) and abs(math.log(one[1] / other[1])) > least:
        yield _change("speedup", "warning", one[1], other[1], is_worse=is_slower)


def _least(before: SurveyRow, after: SurveyRow) -> float | None:
    """The difference of logarithms that both machines' noise can make together; None if one was
    noisy or unknown.
    """
    noise = 0.0
    for row in (before, after):
        if row.is_noisy is not False:
            return None
        noise += abs(math.log(row.noise)) if row.noise else 0.0
    return max(PROCESSES_DIFFER, noise)


def _single_measurements(before: SurveyRow, after: SurveyRow) -> _Changes:
    # A bench measures memory and compile times in another way than a run without one.
    is_alike = (before.compile_cold_s is None) == (after.compile_cold_s is None)
    for name, ratio, least in _NOTED:
        one, other = getattr(before, name), getattr(after, name)
        is_known = (
            is_alike
            and one
            and other
            and not (name == "compile_s" and after.compile_cold_s is not None)
        )
        if not is_known or (name == "call_us" and _least(before, after) is None):
            continue
        if max(one, other) / min(one, other) >= ratio and abs(one - other) >= least:
            yield "noted", SurveyChange(kind=name, before=one, after=other)


# Its findings.


def _causes(before: SurveyRow, after: SurveyRow) -> _Changes:
    """Findings that are new or gone. Torch's words, which are in a fingerprint, can differ between
    its versions.
    """
    if before.break_sites is None or after.break_sites is None:
        return
    gone, new = list(before.causes), list(after.causes)
    for identity in _IDENTITIES:
        for cause in tuple(new):
            same = [one for one in gone if identity(one) == identity(cause)]
            if same:
                gone.remove(same[0])
                new.remove(cause)
    for cause in new:
        yield "worse", SurveyChange(kind="cause", severity=cause.severity, cause=cause)
    for cause in gone:
        yield "better", SurveyChange(kind="cause", cause=cause)


_IDENTITIES: tuple[Callable[[SurveyCause], tuple[str | None, ...]], ...] = (
    lambda cause: (cause.fingerprint,),
    lambda cause: (cause.code, cause.file, cause.function, cause.text or str(cause.line)),
)


# The surveys as a whole.


def _unasked(after: SurveyReport) -> frozenset[SurveyMeasure]:
    """What the second survey wasn't asked to measure, and has of no row."""
    return frozenset(
        name
        for name, option in _ASKED_BY.items()
        if not after.options.get(option) and all(getattr(row, name) is None for row in after.rows)
    )


def _mismatches(
    before: SurveyReport, after: SurveyReport, pairs: _Pairs
) -> Iterator[SurveyMismatch]:
    for aspect in _OF_PIECES:
        # A catalog writes programs of their own for each version of its library.
        like = [pair for pair in pairs if aspect != "target" or pair[0].library == pair[1].library]
        values = [
            (_text(getattr(one, aspect)), _text(getattr(other, aspect))) for one, other in like
        ]
        counts = Counter(
            pair for pair in values if pair[0] != pair[1] and (None not in pair or aspect in _ASKED)
        )
        if len(counts) > _MOST_PAIRS:
            yield SurveyMismatch(aspect=aspect, pieces=counts.total())
            continue
        for (one, other), pieces in counts.items():
            yield SurveyMismatch(aspect=aspect, before=one, after=other, pieces=pieces)
    is_whole = all(len(report.rows) >= report.planned for report in (before, after))
    old, new = _of_survey(before), _of_survey(after)
    for key in {**old, **new}:
        (aspect, name), one, other = key, old.get(key), new.get(key)
        is_known = aspect == "options" or (key in old and key in new)
        # Surveys that were interrupted after as many pieces may have stopped at others.
        differ = not is_whole if aspect == "planned" else one != other
        if differ and is_known:
            yield SurveyMismatch(aspect=aspect, name=name, before=one, after=other)


def _of_survey(report: SurveyReport) -> dict[tuple[SurveyAspect, str | None], str | None]:
    """What holds for a survey as a whole, by aspect and name."""
    found: dict[tuple[SurveyAspect, str | None], str | None] = {}
    for name, value in sorted(report.options.items()):
        found["options", name] = _text(value)
    for variant in report.variants:
        settings = {**variant.settings, "python": variant.python}
        texts = [f"{name}={value}" for name, value in settings.items() if value is not None]
        found["variant", variant.name] = ", ".join(texts) or "none"
    found["graphdoctor", None], found["shard", None] = report.graphdoctor_version, report.shard
    found["planned", None] = f"{len(report.rows)} of {report.planned}"
    ran = [row for row in report.rows if row.status in RAN]
    for measure in _EXPECTED if ran else ():
        found["measured", measure] = (
            "yes" if any(getattr(row, measure) is not None for row in ran) else None
        )
    return found


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _variants(after: SurveyReport, pairs: _Pairs) -> Iterator[ComparedVariant]:
    for variant in after.variants:
        own = [pair for pair in pairs if pair[1].variant == variant.name]
        if not own:
            continue
        judged = [pair for pair in own if pair[0].is_judged or pair[1].is_judged]
        passed = [pair for pair in judged if pair[0].is_passed and pair[1].is_passed]
        timed = [pair for pair in passed if all(row.speed is not None for row in pair)]
        compiles = [(one.compile_cold_s, other.compile_cold_s) for one, other in passed]
        cold = [(one, other) for one, other in compiles if one is not None and other is not None]
        yield ComparedVariant(
            variant=variant.name,
            pieces=len(own),
            judged=len(judged),
            passed_before=sum(one.is_passed for one, _ in judged),
            passed_after=sum(other.is_passed for _, other in judged),
            timed=len(timed),
            speedup_before=mean_speedup(one for one, _ in timed),
            speedup_after=mean_speedup(other for _, other in timed),
            compile_cold_s_before=statistics.median(one for one, _ in cold) if cold else None,
            compile_cold_s_after=statistics.median(other for _, other in cold) if cold else None,
        )

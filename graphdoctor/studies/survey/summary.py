"""Adds up the rows of a survey as people who work on compilers read it: pass rates, means, what
costs most.

One fix in a shared helper mends all targets that have it, so causes, findings of one rule in one
function, are added up over targets before they are ranked.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from graphdoctor.facts.base import grouped
from graphdoctor.facts.diagnosis import SEVERITIES
from graphdoctor.facts.survey import (
    SURVEY_STATUSES,
    GeometricMean,
    SharedCause,
    SurveyCause,
    SurveyGroup,
    SurveyRow,
    SurveySummary,
)

_MOST_CAUSES = 10
_HOUR_S = 3600.0
_Found = tuple[SurveyRow, SurveyCause]


def summarize(
    rows: Sequence[SurveyRow], variants: Iterable[str], *, seconds: float | None, made: int
) -> SurveySummary:
    """All rows added up; ``seconds`` is the wall time of the run that made some of them, None if
    unknown.
    """
    names = tuple(variants)
    causes, shared = shared_causes(rows), _timed_everywhere(rows, names)
    exports = shared_export_causes(rows)
    return SurveySummary(
        groups=tuple(group for variant in names for group in _groups(rows, variant, shared)),
        causes=causes[:_MOST_CAUSES],
        cause_count=len(causes),
        export_causes=exports[:_MOST_CAUSES],
        export_cause_count=len(exports),
        pieces_per_hour=made / seconds * _HOUR_S if seconds and made else None,
    )


def _timed_everywhere(rows: Iterable[SurveyRow], variants: Collection[str]) -> frozenset[str]:
    """Names of the targets whose mean can be compared between variants; none if there is one
    variant.
    """
    timed = Counter(
        row.name
        for row in rows
        if row.is_passed and row.speedup is not None and row.variant in variants
    )
    return frozenset(name for name, count in timed.items() if count == len(variants) > 1)


def _groups(
    rows: Iterable[SurveyRow], variant: str, shared: Collection[str]
) -> Iterable[SurveyGroup]:
    own = [row for row in rows if row.variant == variant]
    for family in (None, *sorted({row.family for row in own if row.family is not None})):
        yield _group([row for row in own if family in (None, row.family)], variant, family, shared)


def _group(
    rows: Sequence[SurveyRow], variant: str, family: str | None, shared: Collection[str]
) -> SurveyGroup:
    judged = [row for row in rows if row.is_judged]
    passed = [row for row in judged if row.is_passed]
    counts = Counter(row.status for row in rows)
    cold = [row.compile_cold_s for row in passed if row.compile_cold_s is not None]
    coverage = [row.coverage for row in passed if row.coverage is not None]
    return SurveyGroup(
        variant=variant,
        family=family,
        pieces=len(rows),
        judged=len(judged),
        passed=len(passed),
        whole=sum(row.is_whole is True for row in passed),
        statuses={status: counts[status] for status in SURVEY_STATUSES if counts[status]},
        codes=dict(
            sorted(
                Counter(
                    code for row in rows for code in {cause.code for cause in row.causes}
                ).items()
            )
        ),
        speedup=mean_speedup(passed),
        speedup_shared=mean_speedup(row for row in passed if row.name in shared),
        faster=sum(row.speedup_low is not None and row.speedup_low > 1 for row in passed),
        slower=sum(row.speedup_high is not None and row.speedup_high < 1 for row in passed),
        compile_cold_s=statistics.median(cold) if cold else None,
        coverage=statistics.fmean(coverage) if coverage else None,
    )


def mean_speedup(rows: Iterable[SurveyRow]) -> GeometricMean | None:
    """The geometric mean over the rows that passed and were timed.

    Each speed-up has an interval of its own. Their errors are independent, since each target ran in
    processes of its own, so on a scale of logarithms the squares of the distances to the ends add
    up. What that gives is how well the mean of these targets is known, not what other targets would
    give.

    Returns:
        None if there is no speed-up.
    """
    logs = [[*map(math.log, row.speed)] for row in rows if row.is_passed and row.speed is not None]
    if not logs:
        return None
    mean = math.fsum(middle for _, middle, _ in logs) / len(logs)
    below = math.sqrt(sum((middle - low) ** 2 for low, middle, _ in logs)) / len(logs)
    above = math.sqrt(sum((high - middle) ** 2 for _, middle, high in logs)) / len(logs)
    low, high = math.exp(mean - below), math.exp(mean + above)
    return GeometricMean(ratio=math.exp(mean), low=low, high=high, count=len(logs))


def shared_causes(rows: Iterable[SurveyRow]) -> tuple[SharedCause, ...]:
    """All causes, the most costly first.

    What one costs is measured in time in few rows, and in targets in all of them: first come those
    that cost graphs or compiles (their severity is more than ``info``), among these the ones of
    most targets, then those that make most functions run eagerly, then those that cost most of the
    calls' time as far as that is known.
    """
    # What fails without torch.compile has findings of that failure.
    judged = ((row, cause) for row in rows if row.is_judged for cause in row.causes)
    found = grouped(
        ((cause.code, cause.file, cause.function), (row, cause)) for row, cause in judged
    )
    # Functions that only one target has are one cause for each rule.
    together = grouped(
        (place if len({row.name for row, _ in own}) > 1 else place[:1], each)
        for place, own in found.items()
        for each in own
    )
    return tuple(sorted(map(_shared, together.values()), key=_rank))


def shared_export_causes(rows: Iterable[SurveyRow]) -> tuple[SharedCause, ...]:
    """What ``torch.export`` stops at, what most targets have first.

    It stops in each model's own ``forward``, so findings belong together that say the same,
    wherever they are.
    """
    found = grouped(
        ((cause.code, cause.message), (row, cause)) for row in rows for cause in row.export_causes
    )
    return tuple(sorted(map(_shared, found.values()), key=_rank))


def _rank(cause: SharedCause) -> tuple[bool, int, int, float, str, str, str]:
    return (
        cause.severity == "info",
        -len(cause.targets),
        -cause.eager_frames,
        -(cause.call_us or 0.0),
        cause.code,
        cause.file,
        cause.function,
    )


def _shared(found: Sequence[_Found]) -> SharedCause:
    causes = [cause for _, cause in found]
    # The first of those on the line that most rows have.
    line = Counter(cause.location for cause in causes).most_common(1)[0][0]
    usual = next(cause for cause in causes if cause.location == line)
    functions = grouped(
        ((cause.file, cause.function), cause) for cause in sorted(causes, key=lambda one: one.line)
    )
    functions = {(one.file, one.function): functions[one.file, one.function] for one in causes}
    fixed = min(causes, key=lambda one: (one.fix is None, one.fix_verdict != "verified"))
    totals: dict[str, float | None] = {}
    for name in ("call_us", "compile_s"):
        known = [getattr(one, name) for one in causes if getattr(one, name) is not None]
        totals[name] = sum(known) if known else None
    return SharedCause(
        **vars(usual)
        | totals
        | {
            "severity": min((cause.severity for cause in causes), key=SEVERITIES.index),
            "count": sum(cause.count for cause in causes),
            "eager_frames": sum(cause.eager_frames for cause in causes),
            "fix": fixed.fix,
            "fix_verdict": fixed.fix_verdict,
            "diff": fixed.diff,
        },
        lines=tuple(dict.fromkeys(one.line for one in functions[usual.file, usual.function])),
        functions=len(functions),
        places=tuple(dict.fromkeys(one.location for own in functions.values() for one in own)),
        targets=tuple(dict.fromkeys(row.name for row, _ in found)),
        rows=len({row.key for row, _ in found}),
        fix_verified=tuple(
            dict.fromkeys(
                row.name
                for row, one in found
                if (one.fix_verdict, one.fix) == ("verified", fixed.fix)
            )
        ),
    )

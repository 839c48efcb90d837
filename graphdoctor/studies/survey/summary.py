"""Adds up the rows of a survey as people who work on compilers read it: pass rates, means, what costs most."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from graphdoctor.facts.survey import SURVEY_STATUSES, SurveyGroup, SurveyRow, SurveySummary
from graphdoctor.studies.survey.causes import shared_causes, shared_export_causes
from graphdoctor.studies.survey.means import mean_speedup

_MOST_CAUSES = 10
_HOUR_S = 3600.0


def summarize(rows: Sequence[SurveyRow], variants: Iterable[str], *, seconds: float | None, made: int) -> SurveySummary:
    """All rows added up.

    Args:
        rows: All of them.
        variants: Names of the variants, in order.
        seconds: Wall time of the run that made some of them; None if unknown.
        made: How many of them that run made.
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
    """Names of the targets whose mean can be compared between variants; none if there is one variant."""
    timed = Counter(row.name for row in rows if row.is_passed and row.speedup is not None and row.variant in variants)
    return frozenset(name for name, count in timed.items() if count == len(variants) > 1)


def _groups(rows: Iterable[SurveyRow], variant: str, shared: Collection[str]) -> Iterable[SurveyGroup]:
    own = [row for row in rows if row.variant == variant]
    yield _group(own, variant, None, shared)
    families = sorted({row.family for row in own if row.family is not None})
    for family in families:
        yield _group([row for row in own if row.family == family], variant, family, shared)


def _group(rows: Sequence[SurveyRow], variant: str, family: str | None, shared: Collection[str]) -> SurveyGroup:
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
        codes=dict(sorted(Counter(code for row in rows for code in {cause.code for cause in row.causes}).items())),
        speedup=mean_speedup(passed),
        speedup_shared=mean_speedup(row for row in passed if row.name in shared),
        faster=sum(row.speedup_low is not None and row.speedup_low > 1 for row in passed),
        slower=sum(row.speedup_high is not None and row.speedup_high < 1 for row in passed),
        compile_cold_s=statistics.median(cold) if cold else None,
        coverage=statistics.fmean(coverage) if coverage else None,
    )

"""Adds up the rows of a survey: pass rates, means, causes; and puts parts of one survey together.

A fix in a shared helper mends all targets that use it, so findings of one rule in one function are
added up over targets before they are ranked.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import grouped, values_of
from graphdoctor.facts.diagnosis import SEVERITIES
from graphdoctor.facts.survey import (
    SURVEY_STATUSES,
    GeometricMean,
    SharedCause,
    SurveyCause,
    SurveyGroup,
    SurveyReport,
    SurveyRow,
    SurveySummary,
    SurveyVariant,
)

_MAX_CAUSES = 10
_HOUR_S = 3600.0
_RowCause = tuple[SurveyRow, SurveyCause]


def summarize(
    rows: Sequence[SurveyRow], variants: Iterable[str], *, seconds: float | None, made: int
) -> SurveySummary:
    """Add up all rows; ``seconds`` is the wall time of the run that made some of them, None if
    unknown.
    """
    names = tuple(variants)
    timed = Counter(row.name for row in rows if row.speedup is not None and row.is_passed)
    # Means of variants can be compared over these.
    shared = {name for name, count in timed.items() if count == len(names) > 1}
    causes, exports = shared_causes(rows), shared_export_causes(rows)
    return SurveySummary(
        groups=tuple(group for name in names for group in _groups(rows, name, shared)),
        causes=causes[:_MAX_CAUSES],
        cause_count=len(causes),
        export_causes=exports[:_MAX_CAUSES],
        export_cause_count=len(exports),
        pieces_per_hour=made / seconds * _HOUR_S if seconds and made else None,
    )


def _groups(
    rows: Iterable[SurveyRow], variant: str, shared: Collection[str]
) -> Iterator[SurveyGroup]:
    of_variant = [row for row in rows if row.variant == variant]
    families = {row.family for row in of_variant if row.family is not None}
    for family in (None, *sorted(families)):
        group = [row for row in of_variant if family in (None, row.family)]
        judged = [row for row in group if row.is_judged]
        passed = [row for row in judged if row.is_passed]
        statuses = Counter(row.status for row in group)
        codes = Counter(code for row in group for code in {cause.code for cause in row.causes})
        cold = [row.compile_cold_s for row in passed if row.compile_cold_s is not None]
        coverage = [row.coverage for row in passed if row.coverage is not None]
        yield SurveyGroup(
            variant=variant,
            family=family,
            pieces=len(group),
            judged=len(judged),
            passed=len(passed),
            whole=sum(row.is_whole is True for row in passed),
            statuses={status: statuses[status] for status in SURVEY_STATUSES if statuses[status]},
            codes=dict(sorted(codes.items())),
            speedup=mean_speedup(passed),
            speedup_shared=mean_speedup(row for row in passed if row.name in shared),
            faster=sum(row.speedup_low is not None and row.speedup_low > 1 for row in passed),
            slower=sum(row.speedup_high is not None and row.speedup_high < 1 for row in passed),
            compile_cold_s=statistics.median(cold) if cold else None,
            coverage=statistics.fmean(coverage) if coverage else None,
        )


def mean_speedup(rows: Iterable[SurveyRow]) -> GeometricMean | None:
    """Return the geometric mean over the rows that passed and were timed; None without one.

    Each speed-up has an interval of its own. Their errors are independent, since each target ran in
    processes of its own, so on a scale of logarithms the squares of the distances to the ends add
    up. The interval says how well the mean of these targets is known, not what other targets would
    give.
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
    """Return all causes, the most costly first.

    Time is measured in few rows, and targets in all of them: first come causes that cost graphs or
    compiles (their severity is more than ``info``), among these the ones of most targets, then
    those that leave most functions to eager mode, then those that cost most of the calls' time.
    """
    # What fails without torch.compile has findings of that failure.
    judged = [(row, cause) for row in rows if row.is_judged for cause in row.causes]
    targets: dict[Hashable, set[str]] = {}
    for row, cause in judged:
        targets.setdefault((cause.code, cause.file, cause.function), set()).add(row.name)

    def key(cause: SurveyCause) -> Hashable:
        site = (cause.code, cause.file, cause.function)
        # Functions that only one target has are one cause for each rule.
        return site if len(targets[site]) > 1 else cause.code

    return _shared((key(cause), (row, cause)) for row, cause in judged)


def shared_export_causes(rows: Iterable[SurveyRow]) -> tuple[SharedCause, ...]:
    """Return what ``torch.export`` stops at, by message: each model has a ``forward`` of its own.

    What most targets have comes first.
    """
    causes = ((row, cause) for row in rows for cause in row.export_causes)
    return _shared(((cause.code, cause.message), (row, cause)) for row, cause in causes)


def _shared(keyed: Iterable[tuple[Hashable, _RowCause]]) -> tuple[SharedCause, ...]:
    def rank(cause: SharedCause) -> tuple[object, ...]:
        is_minor, cost = cause.severity == "info", cause.call_us or 0.0
        name = (cause.code, cause.file, cause.function)
        return (is_minor, -len(cause.targets), -cause.eager_frames, -cost, *name)

    return tuple(sorted(map(_shared_cause, grouped(keyed).values()), key=rank))


def _shared_cause(pairs: Sequence[_RowCause]) -> SharedCause:
    causes = [cause for _, cause in pairs]
    # The first of those on the line that most rows have.
    location = Counter(cause.location for cause in causes).most_common(1)[0][0]
    usual = next(cause for cause in causes if cause.location == location)
    by_function = grouped(((cause.file, cause.function), cause) for cause in causes)
    for group in by_function.values():
        group.sort(key=lambda cause: cause.line)
    lines = (cause.line for cause in by_function[usual.file, usual.function])
    places = (cause.location for group in by_function.values() for cause in group)
    fixed = min(causes, key=lambda cause: (cause.fix is None, cause.fix_verdict != "verified"))
    verified = (
        row.name
        for row, cause in pairs
        if (cause.fix_verdict, cause.fix) == ("verified", fixed.fix)
    )
    values = {**vars(usual), **values_of(fixed, "fix", "fix_verdict", "diff")}
    for name in ("call_us", "compile_s", "count", "eager_frames"):
        measured = [getattr(cause, name) for cause in causes if getattr(cause, name) is not None]
        values[name] = sum(measured) if measured else None
    values["severity"] = min((cause.severity for cause in causes), key=SEVERITIES.index)
    return SharedCause(
        **values,
        lines=tuple(dict.fromkeys(lines)),
        functions=len(by_function),
        places=tuple(dict.fromkeys(places)),
        targets=tuple(dict.fromkeys(row.name for row, _ in pairs)),
        rows=len({row.key for row, _ in pairs}),
        fix_verified=tuple(dict.fromkeys(verified)),
    )


# Parts of one survey, such as the shards of a CI matrix.

_APART = "Put parts of one survey together; two surveys are for graphdoctor diff."


def merge_surveys(reports: Sequence[SurveyReport]) -> SurveyReport:
    """Return one report of all rows; differences between the parts are notes.

    Raises:
        GraphDoctorError: Two parts have different rows, or different variants, of one name.
    """
    first, *others = reports
    if not others:
        return first
    rows: dict[tuple[str, str], SurveyRow] = {}
    variants: dict[str, SurveyVariant] = {}
    for report in reports:
        for row in report.rows:
            # A row that several parts have counts once.
            if rows.setdefault(row.key, row) != row:
                what = f"{row.name} under {row.variant}"
                raise GraphDoctorError(f"Two parts have different results of {what}.", hint=_APART)
        for variant in report.variants:
            merged = variants.setdefault(variant.name, variant)
            if (merged.settings, merged.python) != (variant.settings, variant.python):
                raise GraphDoctorError(
                    f"Two parts compile in different ways under the name {variant.name}.",
                    hint=_APART,
                )
            if merged.torch != variant.torch:
                variants[variant.name] = merged.replace(torch=None)
    twice = sum(len(report.rows) for report in reports) - len(rows)
    kept = sum(report.kept for report in reports)
    times = [report.seconds for report in reports if report.seconds is not None]
    seconds = sum(times) if len(times) == len(reports) else None
    options = {
        name: value
        for name, value in first.options.items()
        if all(report.options.get(name) == value for report in others)
    }
    shards = list(dict.fromkeys(report.shard for report in reports))
    shard, notes = _merged_shard(shards)
    named = ", ".join(sorted({name for report in reports for name in report.options} - {*options}))
    sides = {
        "names": {report.name for report in reports},
        "versions of graphdoctor": {report.graphdoctor_version for report in reports},
        "versions of torch": {row.torch for row in rows.values() if row.torch},
    }
    notes += [f"The parts have different options: {named}."] if named else []
    notes += [
        f"The parts have different {what}: {', '.join(sorted(values))}."
        for what, values in sides.items()
        if len(values) > 1
    ]
    notes += (note for report in reports for note in report.notes)
    engines = [report.engine for report in reports if report.engine is not None]
    made = max(len(rows) - kept, 0)
    return first.replace(
        started=min(report.started for report in reports),
        seconds=seconds,
        options=options,
        shard=shard,
        engine=", ".join(dict.fromkeys(engines)) or None,
        variants=tuple(variants.values()),
        rows=tuple(rows.values()),
        planned=sum(report.planned for report in reports) - twice,
        kept=kept,
        summary=summarize(tuple(rows.values()), variants, seconds=seconds, made=made),
        notes=tuple(dict.fromkeys(notes)),
    )


def _merged_shard(shards: Sequence[str | None]) -> tuple[str | None, list[str]]:
    """Return which part of the pieces there is, None for all, and notes on missing shards."""
    parts = [shard.split("/") for shard in shards if shard is not None]
    if len(parts) < len(shards):
        return None, []
    names, totals = " + ".join(map(str, shards)), {total for _, total in parts}
    if len(totals) > 1:
        return names, [f"The parts are of surveys that were cut differently: {names}."]
    (total,) = totals
    numbers = {number for number, _ in parts}
    missing = [number for number in map(str, range(1, int(total) + 1)) if number not in numbers]
    if not missing:
        return None, []
    return names, [f"Of {total} shards, these are missing: {', '.join(missing)}."]

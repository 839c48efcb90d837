"""Puts the parts of one survey together, such as the shards of a CI matrix. Comes in: reports. Goes out: one report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.survey import SurveyReport, SurveyRow, SurveyVariant
from graphdoctor.facts.wording import counted
from graphdoctor.studies.survey.summary import summarize

_Key = tuple[str, str]


def merge_surveys(reports: Sequence[SurveyReport]) -> SurveyReport:
    """One report of all rows: counts and seconds add up, and what differs between the parts is a note.

    A row that several parts have counts once.

    Raises:
        GraphDoctorError: Two parts have different rows, or different variants, of one name.
    """
    if len(reports) == 1:
        return reports[0]
    first = reports[0]
    rows, twice = _rows(reports)
    variants = _variants(reports)
    kept = sum(report.kept for report in reports)
    seconds = None if any(report.seconds is None for report in reports) else sum(r.seconds or 0.0 for r in reports)
    shard, missing = _shards(reports)
    return SurveyReport(
        schema_version=first.schema_version,
        graphdoctor_version=first.graphdoctor_version,
        name=first.name,
        started=min(report.started for report in reports),
        seconds=seconds,
        options={name: value for name, value in first.options.items() if all(_has(r, name, value) for r in reports)},
        shard=shard,
        engine=", ".join(dict.fromkeys(report.engine for report in reports if report.engine is not None)) or None,
        variants=variants,
        rows=rows,
        planned=sum(report.planned for report in reports) - twice,
        kept=kept,
        summary=summarize(rows, [variant.name for variant in variants], seconds=seconds, made=max(len(rows) - kept, 0)),
        notes=tuple(
            dict.fromkeys((*missing, *_differences(reports), *(n for report in reports for n in report.notes)))
        ),
    )


def _rows(reports: Iterable[SurveyReport]) -> tuple[tuple[SurveyRow, ...], int]:
    found: dict[_Key, SurveyRow] = {}
    twice = 0
    for report in reports:
        for row in report.rows:
            if row.key not in found:
                found[row.key] = row
                continue
            twice += 1
            if found[row.key] != row:
                raise GraphDoctorError(
                    f"Two parts have different results of {row.name} under {row.variant}.",
                    hint="Put parts of one survey together; two surveys are for graphdoctor diff.",
                )
    return tuple(found.values()), twice


def _variants(reports: Iterable[SurveyReport]) -> tuple[SurveyVariant, ...]:
    found: dict[str, SurveyVariant] = {}
    for report in reports:
        for variant in report.variants:
            known = found.setdefault(variant.name, variant)
            if (known.settings, known.python) != (variant.settings, variant.python):
                raise GraphDoctorError(
                    f"Two parts compile in different ways under the name {variant.name}.",
                    hint="Put parts of one survey together; two surveys are for graphdoctor diff.",
                )
            if known.torch != variant.torch:
                found[variant.name] = known.model_copy(update={"torch": None})
    return tuple(found.values())


def _shards(reports: Iterable[SurveyReport]) -> tuple[str | None, list[str]]:
    """Which part of the pieces there is, None for all; and a sentence on shards that are missing."""
    shards = list(dict.fromkeys(report.shard for report in reports))
    if None in shards:
        return None, []
    parted = [tuple(map(int, shard.split("/"))) for shard in shards if shard is not None]
    totals = {total for _, total in parted}
    named = " + ".join(str(shard) for shard in shards)
    if len(totals) > 1:
        return named, [f"The parts are of surveys that were cut differently: {named}."]
    (total,) = totals
    missing = [f"{number}/{total}" for number in range(1, total + 1) if (number, total) not in parted]
    if not missing:
        return None, []
    return named, [f"{counted(len(missing), 'shard')} missing: {', '.join(missing)}."]


def _differences(reports: Sequence[SurveyReport]) -> Iterable[str]:
    read: tuple[tuple[str, Callable[[SurveyReport], Iterable[str | None]]], ...] = (
        ("names", lambda report: (report.name,)),
        ("versions of graphdoctor", lambda report: (report.graphdoctor_version,)),
        ("versions of torch", lambda report: (row.torch for row in report.rows)),
        ("versions of Python", lambda report: (row.python for row in report.rows)),
    )
    for what, values in read:
        found = [sorted({value for value in values(report) if value is not None}) for report in reports]
        known = [one for one in found if one]
        if any(one != known[0] for one in known):
            yield f"The parts have different {what}: {', '.join(sorted({each for one in known for each in one}))}."
    names = sorted({name for report in reports for name in report.options})
    differing = [name for name in names if not all(_has(r, name, reports[0].options.get(name)) for r in reports)]
    if differing:
        yield f"The parts were measured with different options: {', '.join(differing)}."


def _has(report: SurveyReport, name: str, value: object) -> bool:
    return name in report.options and report.options[name] == value

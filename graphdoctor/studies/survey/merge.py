"""Puts the parts of one survey together, such as the shards of a CI matrix. Comes in: reports. Goes
out: one report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.survey import SurveyReport, SurveyRow, SurveyVariant
from graphdoctor.studies.survey.summary import summarize
from graphdoctor.wording import counted

_APART = "Put parts of one survey together; two surveys are for graphdoctor diff."


def merge_surveys(reports: Sequence[SurveyReport]) -> SurveyReport:
    """One report of all rows: counts and seconds add up, and what differs between the parts is a
    note.

    A row that several parts have counts once.

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
            if rows.setdefault(row.key, row) != row:
                what = f"{row.name} under {row.variant}"
                raise GraphDoctorError(f"Two parts have different results of {what}.", hint=_APART)
        for variant in report.variants:
            known = variants.setdefault(variant.name, variant)
            if (known.settings, known.python) != (variant.settings, variant.python):
                raise GraphDoctorError(
                    f"Two parts compile in different ways under the name {variant.name}.",
                    hint=_APART,
                )
            if known.torch != variant.torch:
                variants[variant.name] = replace(known, torch=None)
    twice = sum(len(report.rows) for report in reports) - len(rows)
    kept, planned = (
        sum(report.kept for report in reports),
        sum(report.planned for report in reports) - twice,
    )
    times = [report.seconds for report in reports if report.seconds is not None]
    seconds = sum(times) if len(times) == len(reports) else None
    shard, missing = _shards(reports)
    notes = (
        *missing,
        *_differences(reports),
        *(note for report in reports for note in report.notes),
    )
    return first.replace(
        started=min(report.started for report in reports),
        seconds=seconds,
        options={
            name: value
            for name, value in first.options.items()
            if all(_has(r, name, value) for r in reports)
        },
        shard=shard,
        engine=", ".join(
            dict.fromkeys(report.engine for report in reports if report.engine is not None)
        )
        or None,
        variants=tuple(variants.values()),
        rows=tuple(rows.values()),
        planned=planned,
        kept=kept,
        summary=summarize(
            tuple(rows.values()), variants, seconds=seconds, made=max(len(rows) - kept, 0)
        ),
        notes=tuple(dict.fromkeys(notes)),
    )


def _shards(reports: Iterable[SurveyReport]) -> tuple[str | None, list[str]]:
    """Which part of the pieces there is, None for all; and a sentence on shards that are
    missing.
    """
    shards = list(dict.fromkeys(report.shard for report in reports))
    if None in shards:
        return None, []
    parted = [tuple(map(int, shard.split("/"))) for shard in shards if shard is not None]
    totals = {total for _, total in parted}
    named = " + ".join(str(shard) for shard in shards)
    if len(totals) > 1:
        return named, [f"The parts are of surveys that were cut differently: {named}."]
    (total,) = totals
    missing = [
        f"{number}/{total}" for number in range(1, total + 1) if (number, total) not in parted
    ]
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
        found = [
            sorted({value for value in values(report) if value is not None}) for report in reports
        ]
        known = [one for one in found if one]
        if any(one != known[0] for one in known):
            yield f"The parts have different {what}: {', '.join(sorted({each for one in known for each in one}))}."
    names = sorted({name for report in reports for name in report.options})
    differing = [
        name
        for name in names
        if not all(_has(r, name, reports[0].options.get(name)) for r in reports)
    ]
    if differing:
        yield f"The parts were measured with different options: {', '.join(differing)}."


def _has(report: SurveyReport, name: str, value: object) -> bool:
    return name in report.options and report.options[name] == value

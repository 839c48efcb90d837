"""The report of a job: recordings of several ranks in, a ``Job`` out.

Each rank is read and diagnosed by itself, on an executor, and all are put side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import Executor, Failure
from graphdoctor.facts.base import field_types, grouped, values_of
from graphdoctor.facts.diagnosis import SEVERITIES
from graphdoctor.facts.job import Divergence, Job, JobFinding, OfRank, Rank, RankReport
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import CaptureGap, TargetInfo
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.stack import relative
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.distributed import finding_of_job
from graphdoctor.studies.ranks.agreement import (
    Row,
    agreement_of,
    first_divergence,
    rows_of,
    with_texts,
)
from graphdoctor.studies.ranks.rank import RankPiece, TextPiece, read_rank, read_texts
from graphdoctor.studies.ranks.waits import hang_candidates, skew_of
from graphdoctor.trace.folder import RankFolder
from graphdoctor.version import __version__
from graphdoctor.wording import ranks_text

if TYPE_CHECKING:
    from graphdoctor.trace.storage.places import Location as Place


def job_report(
    location: Place,
    ranks: tuple[RankFolder, ...],
    executor: Executor,
    selection: Selection | None = None,
    *,
    root: Path | None = None,
) -> Job:
    """Report on the ranks of a recording, side by side.

    ``ranks``: at least two.
    ``selection``: which findings to show; None for all.
    ``root``: as for ``RankPiece``; the working directory by default.

    Raises:
        GraphDoctorError: No rank could be read.
    """
    pieces = [RankPiece(files, root or Path.cwd(), selection, location) for files in ranks]
    reports: list[RankReport] = []
    gaps: dict[int, CaptureGap] = {}
    for index, report in executor.run(read_rank, pieces):
        if not isinstance(report, Failure):
            reports.append(report)
        else:
            rank = ranks[index].rank
            message = f"Rank {rank} couldn't be read, so it is left out: {report.reason}."
            gaps[rank] = CaptureGap(code="GD907", kind="rank_unread", message=message)
    if not reports:
        raise GraphDoctorError(f"No rank of {location} could be read: {gaps[min(gaps)].message}")
    folder = ranks[0].folder
    job = job_of(
        reports,
        target=read_fact(
            TargetInfo, (folder.meta.get("target") or {}) | folder.events.fields("target")
        ),
        ended=folder.ended,
        world_size=folder.world_size,
        unread=tuple(gaps),
        gaps=tuple(gaps[rank] for rank in sorted(gaps)),
        recording=relative(str(location), Path.cwd()),
        version=__version__,
    )
    divergence = job.first_divergence
    if divergence is None:
        return job
    found = finding_of_job(job)
    is_shown = found is not None and (selection is None or selection.keeps(found))
    findings = (found, *job.findings) if found is not None and is_shown else job.findings
    return replace(
        job, first_divergence=_with_texts(job, divergence, ranks, executor), findings=findings
    )


def _with_texts(
    job: Job, divergence: Divergence, ranks: tuple[RankFolder, ...], executor: Executor
) -> Divergence:
    if divergence.what not in ("operations", "sizes", "guards"):
        return divergence  # its values are no digests
    place = (divergence.compile, divergence.function, divergence.resumes_at)
    row = next(
        found
        for found in job.agreement
        if (found.compile, found.function, found.resumes_at) == place
    )
    ids = {rank: group.compile_id for group in row.groups for rank in group.ranks}
    files = {found.rank: found for found in ranks}
    pieces = [
        TextPiece(files[value.ranks[0]], ids[value.ranks[0]] or "") for value in divergence.values
    ]
    found: dict[int, tuple[str, str]] = {}
    for index, texts in executor.run(read_texts, pieces):
        if isinstance(texts, Failure):
            return divergence
        found[index] = texts
    return with_texts(
        divergence, [found[index][divergence.what == "guards"] for index in range(len(pieces))]
    )


def job_of(
    reports: Iterable[RankReport],
    *,
    target: TargetInfo,
    ended: ProbeExit,
    world_size: int | None,
    unread: Sequence[int] = (),
    gaps: Sequence[CaptureGap] = (),
    recording: str | None = None,
    version: str,
) -> Job:
    """Report on the ranks of a job, side by side: at least one, in any order; for ``unread`` ones,
    ``gaps`` say why.
    """
    ranks = sorted(reports, key=lambda report: report.rank)
    numbers = [report.rank for report in ranks]
    rows = rows_of(ranks)
    agreement = tuple(agreement_of(row, numbers) for row in rows)
    skew, waits = skew_of(rows, ranks)
    begin_s = min((report.first_s for report in ranks if report.first_s is not None), default=None)
    return Job(
        graphdoctor_version=version,
        recording=recording,
        target=target,
        exit=ended,
        environment=ranks[0].environment,
        ranks=tuple(
            Rank(
                **values_of(report, *field_types(OfRank)),
                compile_s=report.summary.compile_time_s,
                waits_s=waits[report.rank],
                last_record_s=None
                if begin_s is None or report.last_s is None
                else report.last_s - begin_s,
                missed=_missed(report, rows),
            )
            for report in ranks
        ),
        absent=tuple(sorted(set(range(world_size or max(numbers) + 1)) - {*numbers, *unread})),
        unread=tuple(sorted(unread)),
        agreement=agreement,
        first_divergence=first_divergence(rows, agreement),
        skew=skew,
        hangs=hang_candidates(rows, ranks),
        findings=tuple(_findings(ranks)),
        hidden_findings=max(report.summary.hidden_findings for report in ranks),
        gaps=(*gaps, *_gaps(ranks)),
    )


def _missed(report: RankReport, rows: Sequence[Row]) -> int:
    if report.last_s is None:
        return 0
    lacking = (row for row in rows if report.rank not in row.found)
    return sum(
        any((found.mark.began_s or 0.0) > report.last_s for found in row.found.values())
        for row in lacking
    )


def _findings(ranks: Sequence[RankReport]) -> list[JobFinding]:
    found = grouped(
        (one.fingerprint, (report.rank, one)) for report in ranks for one in report.findings
    )
    merged: list[JobFinding] = []
    for own in found.values():
        counts = [finding.count for _, finding in own]
        known = vars(own[0][1]) | {"count": min(counts)}
        merged.append(JobFinding(**known, ranks=tuple(rank for rank, _ in own), most=max(counts)))
    return sorted(merged, key=lambda finding: SEVERITIES.index(finding.severity))


def _gaps(ranks: Sequence[RankReport]) -> Iterable[CaptureGap]:
    found = grouped(
        ((gap.code, gap.message), (report.rank, gap)) for report in ranks for gap in report.gaps
    )
    for own in found.values():
        gap, which = own[0][1], ranks_text([rank for rank, _ in own])
        text = (
            gap.message
            if len(own) == len(ranks)
            else f"{which[0].upper()}{which[1:]}: {gap.message}"
        )
        yield replace(gap, message=text)

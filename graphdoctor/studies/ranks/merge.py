"""The report of a job: a report of each rank in, a ``Job`` out. The order in which they come doesn't matter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.job import Job, JobFinding, Rank, RankReport
from graphdoctor.facts.recording import CaptureGap, TargetInfo
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.wording import ranks_text
from graphdoctor.studies.ranks.agreement import Row, agreement_of, first_divergence, rows_of
from graphdoctor.studies.ranks.hangs import hang_candidates
from graphdoctor.studies.ranks.skew import skew_of, waits_of

_SEVERITY = ("error", "warning", "info")


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
    """What the ranks did, side by side.

    Args:
        reports: One of each rank, in any order; at least one.
        target: What was run.
        ended: How the run ended.
        world_size: How many ranks the job has; None if unknown.
        unread: Ranks whose logs couldn't be read.
        gaps: What else is missing.
        recording: How a command line names the recording; None if unknown.
        version: graphdoctor's own version.
    """
    ranks = sorted(reports, key=lambda report: report.rank)
    numbers = [report.rank for report in ranks]
    rows = rows_of(ranks)
    agreement = tuple(agreement_of(row, numbers) for row in rows)
    waits = waits_of(rows, numbers)
    begin_s = min((report.first_s for report in ranks if report.first_s is not None), default=None)
    return Job(
        graphdoctor_version=version,
        recording=recording,
        target=target,
        exit=ended,
        environment=ranks[0].environment,
        ranks=tuple(
            Rank(
                rank=report.rank,
                process=report.process,
                summary=report.summary,
                complete=report.complete,
                compile_s=report.summary.compile_time_s,
                waits_s=waits[report.rank],
                steps=report.steps,
                last_record_s=None if begin_s is None or report.last_s is None else report.last_s - begin_s,
                missed=_missed(report, rows),
                records=report.records,
            )
            for report in ranks
        ),
        absent=tuple(sorted(set(range(world_size or max(numbers) + 1)) - {*numbers, *unread})),
        unread=tuple(sorted(unread)),
        agreement=agreement,
        first_divergence=first_divergence(rows, agreement),
        skew=skew_of(rows, ranks),
        hangs=hang_candidates(rows, ranks),
        findings=tuple(_findings(ranks)),
        hidden_findings=max(report.summary.hidden_findings for report in ranks),
        gaps=(*gaps, *_gaps(ranks)),
    )


def _missed(report: RankReport, rows: Sequence[Row]) -> int:
    if report.last_s is None:
        return 0
    lacking = (row for row in rows if report.rank not in row.found)
    return sum(any((found.mark.began_s or 0.0) > report.last_s for found in row.found.values()) for row in lacking)


def _findings(ranks: Sequence[RankReport]) -> list[JobFinding]:
    """Findings of all ranks, each once, in the order of the first rank that has each."""
    found: dict[str, list[tuple[int, Finding]]] = {}
    for report in ranks:
        for finding in report.findings:
            found.setdefault(finding.fingerprint, []).append((report.rank, finding))
    merged = [_merged(each) for each in found.values()]
    return sorted(merged, key=lambda finding: _SEVERITY.index(finding.severity))


def _merged(found: Sequence[tuple[int, Finding]]) -> JobFinding:
    counts = [finding.count for _, finding in found]
    return JobFinding(
        **vars(found[0][1]) | {"count": min(counts)}, ranks=tuple(rank for rank, _ in found), most=max(counts)
    )


def _gaps(ranks: Sequence[RankReport]) -> Iterable[CaptureGap]:
    """Each gap once, with the ranks that have it where not all do."""
    found: dict[tuple[str, str], list[tuple[int, CaptureGap]]] = {}
    for report in ranks:
        for gap in report.gaps:
            found.setdefault((gap.code, gap.message), []).append((report.rank, gap))
    for each in found.values():
        gap = each[0][1]
        if len(each) == len(ranks):
            yield gap
        else:
            which = ranks_text([rank for rank, _ in each])
            yield gap.model_copy(update={"message": f"{which[0].upper()}{which[1:]}: {gap.message}"})

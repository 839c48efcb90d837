"""The report of a job: recordings of several ranks in, a ``Job`` out.

Each rank is read and diagnosed by itself, on an executor, and all are put side by side.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import Executor, Failure
from graphdoctor.facts.base import field_types, grouped, values_of
from graphdoctor.facts.diagnosis import SEVERITIES
from graphdoctor.facts.evidence import CompileMark, LogSpan
from graphdoctor.facts.job import Divergence, Job, JobFinding, Rank, RankCompile, RankReport
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import CaptureGap, Recording, TargetInfo
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.stack import StackEntry, relative
from graphdoctor.rules.diagnosed import diagnosis_of
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.distributed import can_all_be_dynamic, finding_of_job
from graphdoctor.studies.ranks.agreement import (
    agreement_of,
    first_divergence,
    hang_candidates,
    rows_of,
    skew_of,
    with_texts,
)
from graphdoctor.studies.ranks.parting import Trail, parting_of, trail_of
from graphdoctor.trace.folder import RankFolder, open_folder
from graphdoctor.trace.reader import read_folder
from graphdoctor.trace.sections import Details, Wanted, unprefixed
from graphdoctor.version import __version__
from graphdoctor.wording import ranks_text

if TYPE_CHECKING:
    from graphdoctor.trace.storage import Location


def job_report(
    location: Location,
    ranks: tuple[RankFolder, ...],
    executor: Executor,
    selection: Selection | None = None,
) -> Job:
    """Read and diagnose the ranks of a recording, and compare them.

    ``ranks``: at least two.
    ``selection``: which findings to show; None for all.

    Raises:
        GraphDoctorError: No rank could be read.
    """
    pieces = [RankPiece(files, Path.cwd(), selection, location) for files in ranks]
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
    job = replace(job, first_divergence=_explained(job, divergence, ranks, executor))
    finding = finding_of_job(job)
    is_shown = finding is not None and (selection is None or selection.keeps(finding))
    return replace(job, findings=(finding, *job.findings)) if finding and is_shown else job


def _explained(
    job: Job, divergence: Divergence, ranks: tuple[RankFolder, ...], executor: Executor
) -> Divergence:
    """Return a divergence with its cause, and with lines in place of digests."""
    row = next(row for row in job.agreement if not row.agree)
    ids = {rank: group.compile_id for group in row.groups for rank in group.ranks}
    files = {rank.rank: rank for rank in ranks}
    has_digests = divergence.what in ("operations", "sizes", "guards")
    pieces = [
        (files[value.ranks[0]], ids[value.ranks[0]], at < _COMPARED)
        for at, value in enumerate(divergence.values)
        if has_digests or at < _COMPARED
    ]
    read: list[CompileRead] = []
    for _, of_rank in sorted(executor.run(read_compile, pieces), key=lambda pair: pair[0]):
        if isinstance(of_rank, Failure):
            return divergence
        read.append(of_rank)
    if has_digests:
        is_of_guards = divergence.what == "guards"
        texts = [of_rank.guards if is_of_guards else of_rank.graph for of_rank in read]
        divergence = with_texts(divergence, texts)
    if len(read) < _COMPARED:
        return divergence
    is_whole = all(rank.complete is not False for rank in job.ranks)
    trails = (of_rank.trail for of_rank in read[:_COMPARED])
    parting = parting_of(*trails, root=Path.cwd(), is_whole=is_whole)
    return divergence.replace(parting=parting)


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
    """Compare the ranks of a job: at least one, in any order; ``gaps`` say why ``unread`` ones
    are missing.
    """
    ranks = sorted(reports, key=lambda report: report.rank)
    numbers = [report.rank for report in ranks]
    rows = rows_of(ranks)
    agreement = tuple(agreement_of(row, numbers) for row in rows)
    skew, waits = skew_of(rows, ranks)
    begin_s = min((report.first_s for report in ranks if report.first_s is not None), default=None)
    compared = []
    for report in ranks:
        values, last_s = values_of(report, *field_types(Rank)), report.last_s
        if last_s is not None:
            lacking = (row.compiles.values() for row in rows if report.rank not in row.compiles)
            values["missed"] = sum(
                any((compile_.mark.began_s or 0.0) > last_s for compile_ in compiles)
                for compiles in lacking
            )
            values["last_record_s"] = None if begin_s is None else last_s - begin_s
        compared.append(Rank(**values | {"waits_s": waits[report.rank]}))
    return Job(
        graphdoctor_version=version,
        recording=recording,
        target=target,
        exit=ended,
        environment=ranks[0].environment,
        ranks=tuple(compared),
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


def _findings(ranks: Sequence[RankReport]) -> list[JobFinding]:
    by_fingerprint = grouped(
        (finding.fingerprint, (report.rank, finding))
        for report in ranks
        for finding in report.findings
    )
    merged: list[JobFinding] = []
    for group in by_fingerprint.values():
        numbers, findings = zip(*group, strict=True)
        counts = [finding.count for finding in findings]
        fields = vars(findings[0]) | {"count": min(counts), "most": max(counts)}
        merged.append(JobFinding(**fields, ranks=numbers))
    return sorted(merged, key=lambda finding: SEVERITIES.index(finding.severity))


def _gaps(ranks: Sequence[RankReport]) -> Iterable[CaptureGap]:
    by_message = grouped(
        ((gap.code, gap.message), (report.rank, gap)) for report in ranks for gap in report.gaps
    )
    for group in by_message.values():
        gap, which = group[0][1], ranks_text([rank for rank, _ in group])
        text = (
            gap.message
            if len(group) == len(ranks)
            else f"{which[0].upper()}{which[1:]}: {gap.message}"
        )
        yield replace(gap, message=text)


# One rank by itself.


_NUMBER = re.compile(r"\d+")


def check_one_rank(location: Location, *command: str) -> None:
    """Refuse a recording of several ranks where ``command``, with its options, shows one.

    Raises:
        GraphDoctorError: It has several ranks.
    """
    ranks = open_folder(location).ranks
    if len(ranks) > 1:
        raise several_ranks(location, ranks, *command)


def several_ranks(
    location: Location, ranks: tuple[RankFolder, ...], *command: str
) -> GraphDoctorError:
    """Return the error for a recording of several ranks where only one can be shown."""
    name, *options = command
    numbers = [rank.rank for rank in ranks]
    again = shlex.join(["graphdoctor", name, str(location), "--rank", str(numbers[0]), *options])
    return GraphDoctorError(
        f"{location} has {ranks_text(numbers)}, and {' '.join(command)} shows one rank.",
        hint=f"Choose one: {again}",
    )


@dataclass(frozen=True)
class RankPiece:
    """The work for one rank: ``location`` is what errors call its recording, and paths below
    ``root`` are relative.
    """

    files: RankFolder
    root: Path
    selection: Selection | None
    location: Location


def read_rank(piece: RankPiece) -> RankReport:
    """Read and diagnose one rank, for what others can be compared with; a pure function of its
    piece.
    """
    folder = piece.files.folder
    recording = read_folder(folder, Wanted(marks=True))
    diagnosis = diagnosis_of(recording, root=piece.root, selection=piece.selection)
    span = recording.span or LogSpan()
    is_cut = recording.is_partial or any(
        compile_.outcome == "unfinished" for compile_ in recording.compiles
    )
    return RankReport(
        rank=piece.files.rank,
        process=folder.processes[0].pid if folder.processes else None,
        summary=diagnosis.summary,
        complete=False if is_cut else span.is_ended,
        environment=recording.environment,
        compiles=_compiles(recording, span, piece.root),
        findings=diagnosis.findings,
        gaps=diagnosis.recording.gaps,
        **values_of(span, "first_s", "last_s"),
        records=recording.evidence.records,
    )


_COMPARED = 2
"""Groups of ranks whose trails are compared."""


@dataclass(frozen=True)
class CompileRead:
    """A rank's way through a compile, and its printed graph and guards."""

    trail: Trail
    graph: str = ""
    guards: str = ""


def read_compile(piece: tuple[RankFolder, str | None, bool]) -> CompileRead:
    """Read a compile of a rank, with the source if the last says so; a pure function of its
    piece.
    """
    files, compile_id, has_source = piece
    ids = [] if compile_id is None else [compile_id]
    wanted = Wanted(
        guards=has_source,
        picture=has_source,
        details=Details(ids, most_bytes=None),
        marks=True,
        texts_of=frozenset(map(unprefixed, ids)),
    )
    recording = read_folder(files.folder, wanted)
    trail = trail_of(recording, compile_id)
    for mark in () if recording.span is None else recording.span.marks:
        if mark.compile_id == compile_id:
            return CompileRead(trail, mark.graph_text or "", mark.guards_text or "")
    return CompileRead(trail)


def _compiles(recording: Recording, span: LogSpan, root: Path) -> tuple[RankCompile, ...]:
    marks = {mark.compile_id: mark for mark in span.marks}
    counts: Counter[tuple[object, ...]] = Counter()
    frames: dict[int, dict[str, Any]] = {}
    for frame in recording.frames:
        location = frame.entry.located(root)
        file, *code = frame.code
        key = (file.replace("\\", "/").rpartition("/")[2], *code)
        frames[frame.frame_id] = {
            "function": location.function,
            "location": location,
            "resumes_at": frame.resumes_at,
            "code": key,
            "occurrence": counts[key],
        }
        counts[key] += 1
    nowhere = StackEntry(file="?", line=0, function="?")
    unknown = {"function": "?", "location": nowhere, "code": ("?", "?", 0, None)}
    compiles: list[RankCompile] = []
    for compile_ in recording.compiles:
        # Why it was compiled, for people, and the part that is alike on ranks that agree.
        causes = list(compile_.recompile_reasons[:1])
        changed = [_NUMBER.sub("N", reason) for reason in causes]
        if compile_.cause is not None and compile_.cause.changes:
            changes = compile_.cause.changes
            changed = sorted(f"{change.kind} {change.expression}" for change in changes)
            causes = [
                change.expression
                if change.old is None and change.new is None
                else f"{change.expression}: {change.old or '?'} → {change.new or '?'}"
                for change in changes
            ]
        compiles.append(
            RankCompile(
                causes=tuple(causes),
                changed=tuple(changed),
                is_dynamic=can_all_be_dynamic([compile_.cause]),
                mark=marks.get(compile_.compile_id) or CompileMark(compile_id=compile_.compile_id),
                **values_of(compile_, "compile_id", "outcome", "duration_s", "backend_s"),
                **frames.get(compile_.frame_id, unknown),
            )
        )
    return tuple(compiles)

"""Recordings of several ranks: each is read and diagnosed by itself, on an executor, and all are put side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor import __version__
from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from graphdoctor.executors.executor import Executor
    from graphdoctor.facts.job import Divergence, Job, RankReport
    from graphdoctor.rules.diagnosis.selection import Selection
    from graphdoctor.trace.ranks import RankFolder
    from graphdoctor.trace.storage.places import Location


@dataclass(frozen=True)
class RankPiece:
    """The work for one rank.

    Args:
        files: Its files.
        root: Paths below it are shown relative to it.
        selection: Which findings to show; None for all.
        location: What the recording is called in errors.
    """

    files: RankFolder
    root: Path
    selection: Selection | None
    location: Location


@dataclass(frozen=True)
class TextPiece:
    """The work of reading the texts of one compile of one rank.

    Args:
        files: The rank's files.
        compile_id: The compile's id there.
    """

    files: RankFolder
    compile_id: str


def check_one_rank(location: Location, *command: str) -> None:
    """Refuse a recording of several ranks where only one can be shown.

    Args:
        location: The recording.
        command: What to run for one rank, without the recording: a command and its options.

    Raises:
        GraphDoctorError: It has several ranks.
    """
    from graphdoctor.trace.ranks import ranks_at

    ranks = ranks_at(location)
    if len(ranks) > 1:
        raise several_ranks(location, ranks, *command)


def several_ranks(location: Location, ranks: tuple[RankFolder, ...], *command: str) -> GraphDoctorError:
    """The error for a recording of several ranks where only one can be shown; arguments as for ``check_one_rank``."""
    import shlex

    from graphdoctor.facts.wording import ranks_text

    name, *options = command
    numbers = [found.rank for found in ranks]
    again = shlex.join(["graphdoctor", name, str(location), "--rank", str(numbers[0]), *options])
    return GraphDoctorError(
        f"{location} has {ranks_text(numbers)}, and {' '.join(command)} shows one rank.", hint=f"Choose one: {again}"
    )


def read_rank(piece: RankPiece) -> RankReport:
    """Read and diagnose one rank; a pure function of its piece."""
    from graphdoctor.rules.catalog import RULES
    from graphdoctor.rules.diagnosis.diagnose import diagnose
    from graphdoctor.studies.ranks.rank import rank_report
    from graphdoctor.trace.reader import other_version, read_folder
    from graphdoctor.trace.sections import Wanted

    folder = piece.files.folder
    with other_version(piece.location):
        recording = read_folder(folder, Wanted(marks=True))
    diagnosis = diagnose(recording, RULES, root=piece.root, version=__version__, selection=piece.selection)
    process = folder.processes[0].pid if folder.processes else None
    return rank_report(recording, diagnosis, rank=piece.files.rank, process=process, root=piece.root)


def read_texts(piece: TextPiece) -> tuple[str, str]:
    """The printed graph and guards of one compile; a pure function of its piece."""
    from graphdoctor.trace.reader import read_folder
    from graphdoctor.trace.sections import Wanted

    wanted = Wanted(marks=True, texts_of=frozenset({piece.compile_id.rpartition(":")[2]}))
    span = read_folder(piece.files.folder, wanted).span
    for mark in span.marks if span is not None else ():
        if mark.compile_id == piece.compile_id:
            return mark.graph_text or "", mark.guards_text or ""
    return "", ""


def job_report(
    location: Location,
    ranks: tuple[RankFolder, ...],
    executor: Executor,
    selection: Selection | None = None,
    *,
    root: Path | None = None,
) -> Job:
    """What the ranks of a recording did, side by side.

    Args:
        location: The recording.
        ranks: What ``ranks_at`` gave: at least two.
        executor: Reads them.
        selection: Which findings to show; None for all.
        root: Paths under it are shown relative to it; the working directory by default.

    Raises:
        GraphDoctorError: No rank could be read.
    """
    from graphdoctor.executors.executor import Done
    from graphdoctor.facts.recording import CaptureGap, TargetInfo
    from graphdoctor.facts.run import ProbeExit
    from graphdoctor.facts.stack import relative
    from graphdoctor.rules.gd209_ranks_disagree import finding_of_job
    from graphdoctor.studies.ranks.merge import job_of
    from graphdoctor.trace.ranks import world_size

    pieces = [RankPiece(files, root or Path.cwd(), selection, location) for files in ranks]
    reports: list[RankReport] = []
    gaps: dict[int, CaptureGap] = {}
    for outcome in executor.run(read_rank, pieces):
        if isinstance(outcome, Done):
            reports.append(outcome.result)
        else:
            rank, reason = ranks[outcome.index].rank, outcome.failure.reason
            message = f"Rank {rank} couldn't be read, so it is left out: {reason}."
            gaps[rank] = CaptureGap(code="GD907", kind="rank_unread", message=message)
    if not reports:
        raise GraphDoctorError(f"No rank of {location} could be read: {gaps[min(gaps)].message}")
    folder = ranks[0].folder
    job = job_of(
        reports,
        target=TargetInfo.model_validate((folder.meta.get("target") or {}) | folder.events.fields("target")),
        ended=ProbeExit.model_validate(folder.meta["exit"]) if folder.meta.get("exit") else ProbeExit(status=None),
        world_size=world_size(folder),
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
    with_texts = _with_texts(job, divergence, ranks, executor)
    return job.model_copy(update={"first_divergence": with_texts, "findings": findings})


def _with_texts(job: Job, divergence: Divergence, ranks: tuple[RankFolder, ...], executor: Executor) -> Divergence:
    """A divergence with the lines that differ, for which the logs of one rank of each group are read again."""
    from graphdoctor.executors.executor import Done
    from graphdoctor.studies.ranks.agreement import needs_texts, with_texts

    if not needs_texts(divergence):
        return divergence
    place = (divergence.compile, divergence.function, divergence.resumes_at)
    row = next(found for found in job.agreement if (found.compile, found.function, found.resumes_at) == place)
    ids = {rank: group.compile_id for group in row.groups for rank in group.ranks}
    files = {found.rank: found for found in ranks}
    pieces = [TextPiece(files[value.ranks[0]], ids[value.ranks[0]] or "") for value in divergence.values]
    found: dict[int, tuple[str, str]] = {}
    for outcome in executor.run(read_texts, pieces):
        if not isinstance(outcome, Done):
            return divergence
        found[outcome.index] = outcome.result
    return with_texts(divergence, [found[index][divergence.what == "guards"] for index in range(len(pieces))])

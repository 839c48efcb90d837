"""Finds the ranks of a job in the files of a recording.

Comes in: a ``RecordingFolder``. Goes out: one for each rank, with the processes of that rank alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.wording import ranks_text
from graphdoctor.trace.folder import RecordingFolder, open_folder
from graphdoctor.trace.processes import ProcessLogs, find_processes
from graphdoctor.trace.storage.places import Location


@dataclass(frozen=True)
class RankFolder:
    """The files of one rank; picklable, so that another process can read them.

    Args:
        rank: Its number.
        folder: What ``read_folder`` takes.
    """

    rank: int
    folder: RecordingFolder


def find_ranks(folder: RecordingFolder) -> tuple[RankFolder, ...]:
    """The ranks of a recording, ascending; empty if no process has one.

    A rank is known from its log, or from what its process reported when it began. A process without a rank, such as
    the launcher or a data loader's worker, is in none of them.
    """
    known: dict[int, int | None] = {
        event["pid"]: event["rank"] for event in folder.events.all if event["event"] == "rank"
    }
    processes = [
        replace(process, rank=process.rank if process.pid is None else known.get(process.pid, process.rank))
        for process in find_processes(folder.logs, main_pid=folder.events.fields("process").get("pid"))
    ]
    logged = {process.pid for process in processes}
    # A rank that compiled nothing wrote no log.
    processes += [ProcessLogs((), pid, rank) for pid, rank in known.items() if pid not in logged]
    ranks: dict[int, list[ProcessLogs]] = {}
    for process in processes:
        if process.rank is not None:
            ranks.setdefault(process.rank, []).append(process)
    return tuple(RankFolder(rank, replace(folder, processes=tuple(ranks[rank]))) for rank in sorted(ranks))


def ranks_at(location: Location) -> tuple[RankFolder, ...]:
    """The ranks of a recording, ascending; a recording of a job has at least two.

    Raises:
        GraphDoctorError: There is no recording there.
    """
    return find_ranks(open_folder(location))


def only_rank(ranks: tuple[RankFolder, ...], number: int) -> RankFolder:
    """The rank with a number.

    Raises:
        GraphDoctorError: There is none.
    """
    for found in ranks:
        if found.rank == number:
            return found
    known = f"It has {ranks_text([found.rank for found in ranks])}." if ranks else "No record in it has a rank."
    raise GraphDoctorError(f"The recording has no rank {number}.", hint=known)


def world_size(folder: RecordingFolder) -> int | None:
    """How many ranks the job has, as its processes reported; None if none did."""
    sizes: Mapping[str, int] = folder.events.fields("rank")
    return sizes.get("world_size")

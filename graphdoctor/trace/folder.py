"""Finds the files of a recording, a folder that ``TORCH_TRACE`` wrote, or one log file, and reads
all but its logs.

::

    recording.json   the request and how the child ended, written by the parent
    probe.jsonl      what the probe reported: environment, target, coverage, variations, errors
    trace/*.log      torch's structured trace with our records in it
    what-if.json     results of replays under remedies, whose own recordings are in what-if/
    fixes.json       results of trials of fixes, whose own recordings are in fixes/
    declined.json    why no edit was written, where that is certain without a trial
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import orjson

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import grouped
from graphdoctor.facts.hints import during
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.wording import ranks_text
from graphdoctor.probe import wire
from graphdoctor.trace.events import Events, read_events
from graphdoctor.trace.logs import has_linked_logs, hindrance, logs_in, logs_of
from graphdoctor.trace.processes import ProcessLogs, find_processes
from graphdoctor.trace.storage.log_file import CutStreamError, LogFile
from graphdoctor.trace.storage.places import Location, place_at


@dataclass(frozen=True)
class RecordingFolder:
    """The files of a recording; optional ones are empty if they are missing."""

    logs: tuple[LogFile, ...]
    meta: dict[str, Any] = field(default_factory=dict)
    events: Events = field(default_factory=Events)
    what_if: dict[str, Any] = field(default_factory=dict)
    fixes: dict[str, Any] = field(default_factory=dict)
    declined: dict[str, Any] = field(default_factory=dict)
    processes: tuple[ProcessLogs, ...] | None = None
    is_running: bool = False

    @property
    def ended(self) -> ProbeExit:
        """How the run ended; nothing is known of that in a log of others."""
        if not self.meta or self.meta.get("exit"):
            return read_fact(ProbeExit, self.meta.get("exit") or {"status": None})
        phase = self.events.fields("phase").get("phase")
        reason: Literal["running", "lost"] = "running" if self.is_running else "lost"
        message = f"graphdoctor was stopped{during(phase)}, so how the run ended is unknown."
        if self.is_running:
            message = f"The run is still going{during(phase)}; this is what it has recorded so far."
        return ProbeExit(status=None, reason=reason, phase=phase, message=message)


def is_in_use(recording: Path) -> bool:
    """Whether a process that makes the recording lives; a lock goes with its process, whatever
    ended it.
    """
    try:
        # Not blocking: anything can have the name, a pipe included.
        descriptor = os.open(
            recording / wire.LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        )
    except OSError:  # none: another version made it
        return False
    with os.fdopen(descriptor, "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # held, or nobody can know
            return True
    return False


def open_folder(location: Location) -> RecordingFolder:
    """Find what there is to read; a ``GraphDoctorError`` says why nothing can be."""
    found = place_at(location)
    if found is None:
        raise GraphDoctorError(
            f"There is no recording at {location}.", hint="Run graphdoctor explain first."
        )
    if isinstance(found, LogFile):
        return RecordingFolder(_logs_of_file(found))
    meta = read_object(found.read(wire.META_FILE))
    if meta.get("format", wire.FORMAT) != wire.FORMAT:
        raise GraphDoctorError(
            f"{location} was written by another version of graphdoctor: its format is {meta['format']}, not "
            f"{wire.FORMAT}.",
            hint="The trace log inside can be read by itself: graphdoctor report "
            f"{found.folder(wire.TRACE_FOLDER).location}",
        )
    logs = logs_in(found)
    if not logs and isinstance(location, Path) and has_linked_logs(location):
        raise GraphDoctorError(
            f"The trace log of {location} can't be read: it's a symbolic link, and links aren't followed."
        )
    if not meta and not logs:
        raise GraphDoctorError(
            f"{location} contains neither a recording nor a torch trace log.",
            hint="Name a folder in .graphdoctor/, or one that TORCH_TRACE=folder wrote.",
        )
    return RecordingFolder(
        tuple(logs),
        meta,
        read_events(found.read(wire.EVENTS_FILE)),
        read_object(found.read(wire.WHAT_IF_FILE)),
        read_object(found.read(wire.FIXES_FILE)),
        read_object(found.read(wire.DECLINED_FILE)),
        is_running=isinstance(location, Path) and is_in_use(location),
    )


def _logs_of_file(file: LogFile) -> tuple[LogFile, ...]:
    try:
        logs = logs_of(file)
    except CutStreamError as error:
        raise GraphDoctorError(f"{file.location} can't be read: {error.reason}.") from error
    if not logs:
        is_program = file.path.suffix == ".py"
        raise GraphDoctorError(
            f"{file.location} isn't a torch trace log: it contains no record of one.",
            hint=f"graphdoctor explain {file.location} records a run."
            if is_program
            else hindrance(file),
        )
    return tuple(logs)


def read_object(content: bytes) -> dict[str, Any]:
    """The object in a JSON file's content; empty if it's something else."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class RankFolder:
    """The files of one rank; picklable, so that another process can read them."""

    rank: int
    folder: RecordingFolder


def find_ranks(folder: RecordingFolder) -> tuple[RankFolder, ...]:
    """The ranks of a recording, ascending, as logs or reports of processes say; empty if no process
    has one.
    """
    known: dict[int, int | None] = {
        event["pid"]: event["rank"] for event in folder.events.of("rank")
    }
    processes = [
        replace(
            process,
            rank=process.rank if process.pid is None else known.get(process.pid, process.rank),
        )
        for process in find_processes(
            folder.logs, main_pid=folder.events.fields("process").get("pid")
        )
    ]
    logged = {process.pid for process in processes}
    # A rank that compiled nothing wrote no log.
    processes += [ProcessLogs((), pid, rank) for pid, rank in known.items() if pid not in logged]
    ranks = grouped((process.rank, process) for process in processes if process.rank is not None)
    # With no logs but its own: each is sent to another process.
    logs = {
        rank: tuple(dict.fromkeys(log for process in own for log in process.logs))
        for rank, own in ranks.items()
    }
    return tuple(
        RankFolder(rank, replace(folder, logs=logs[rank], processes=tuple(own)))
        for rank, own in sorted(ranks.items())
    )


def ranks_at(location: Location) -> tuple[RankFolder, ...]:
    """The ranks of a recording, ascending; a recording of a job has at least two."""
    return find_ranks(open_folder(location))


def only_rank(ranks: tuple[RankFolder, ...], number: int) -> RankFolder:
    """The rank with a number; a ``GraphDoctorError`` if there is none."""
    by_number = {found.rank: found for found in ranks}
    if number in by_number:
        return by_number[number]
    known = f"It has {ranks_text([*by_number])}." if ranks else "No record in it has a rank."
    raise GraphDoctorError(f"The recording has no rank {number}.", hint=known)


def world_size(folder: RecordingFolder) -> int | None:
    """How many ranks the job has, as its processes reported; None if none did."""
    sizes: Mapping[str, int] = folder.events.fields("rank")
    return sizes.get("world_size")

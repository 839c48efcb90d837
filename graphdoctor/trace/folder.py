"""Opens a recording, a folder that ``TORCH_TRACE`` wrote, or one log file, and reads all but its
logs.

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
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import orjson

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import Fields, grouped
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.run import ProbeExit
from graphdoctor.probe import wire
from graphdoctor.trace.events import Events, read_events
from graphdoctor.trace.logs import (
    ProcessLogs,
    find_processes,
    has_linked_logs,
    has_record,
    hindrance,
    logs_in,
)
from graphdoctor.trace.storage import CutStreamError, Folder, Location, LogFile, place_at
from graphdoctor.wording import during, ranks_text


@dataclass(frozen=True)
class RecordingFolder:
    """An opened recording, or what one of its ranks wrote; optional files are empty if they are
    missing. It's picklable, so that another process can read it.
    """

    location: Location
    logs: tuple[LogFile, ...]
    meta: Fields = field(default_factory=dict)
    events: Events = field(default_factory=Events)
    what_if: Fields = field(default_factory=dict)
    fixes: Fields = field(default_factory=dict)
    declined: Fields = field(default_factory=dict)
    processes: tuple[ProcessLogs, ...] | None = None
    is_running: bool = False

    @property
    def ended(self) -> ProbeExit:
        """Return how the run ended; unknown for a log of others."""
        if not self.meta or self.meta.get("exit"):
            return read_fact(ProbeExit, self.meta.get("exit") or {"status": None})
        phase = self.events.fields("phase").get("phase")
        message = f"graphdoctor was stopped{during(phase)}, so how the run ended is unknown."
        if self.is_running:
            message = f"The run is still going{during(phase)}; this is what it has recorded so far."
        reason = "running" if self.is_running else "lost"
        ended = {"status": None, "reason": reason, "phase": phase, "message": message}
        return read_fact(ProbeExit, ended)

    @property
    def world_size(self) -> int | None:
        """Return the number of ranks of the job, as its processes reported; None if none did."""
        return self.events.fields("rank").get("world_size")

    @cached_property
    def ranks(self) -> tuple[RankFolder, ...]:
        """The ranks, ascending, as logs or reports of processes name them; at least two for a job,
        empty if no process has one.
        """
        reported = {event["pid"]: event["rank"] for event in self.events.of("rank")}
        main_pid = self.events.fields("process").get("pid")
        processes = [
            replace(process, rank=reported.get(process.pid, process.rank))
            if process.pid is not None
            else process
            for process in find_processes(self.logs, main_pid=main_pid)
        ]
        logged = {process.pid for process in processes}
        # A rank that compiled nothing wrote no log.
        processes += (
            ProcessLogs((), pid, rank) for pid, rank in reported.items() if pid not in logged
        )
        ranked = grouped(
            (process.rank, process) for process in processes if process.rank is not None
        )
        # With no logs but its own: each is sent to another process.
        return tuple(
            RankFolder(
                rank,
                replace(
                    self,
                    logs=tuple(dict.fromkeys(log for process in members for log in process.logs)),
                    processes=tuple(members),
                ),
            )
            for rank, members in sorted(ranked.items())
        )

    def of_rank(self, number: int | None) -> RecordingFolder:
        """The rank with a number, or the whole for None; a ``GraphDoctorError`` if there is no such
        rank.
        """
        folders = {rank.rank: rank.folder for rank in self.ranks} if number is not None else {}
        if number is None or number in folders:
            return self if number is None else folders[number]
        raise GraphDoctorError(
            f"The recording has no rank {number}.",
            hint=f"It has {ranks_text([*folders])}." if folders else "No record in it has a rank.",
        )


@dataclass(frozen=True)
class RankFolder:
    """One rank of a recording."""

    rank: int
    folder: RecordingFolder


def is_in_use(recording: Path) -> bool:
    """Return whether a process that makes the recording lives: its lock goes with it, however it
    ended.
    """
    try:
        # Not blocking: anything can have the name, a pipe included.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(recording / wire.LOCK_FILE, flags)
    except OSError:  # none: another version made it
        return False
    with os.fdopen(descriptor, "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # held, or nobody can know
            return True
    return False


def open_folder(location: Location, place: LogFile | Folder | None = None) -> RecordingFolder:
    """Open a recording or log; a ``GraphDoctorError`` if it can't be read. ``place`` is what
    ``place_at`` found, if it was asked already.
    """
    place = place or place_at(location)
    if place is None:
        raise GraphDoctorError(
            f"There is no recording at {location}.", hint="Run graphdoctor explain first."
        )
    if isinstance(place, LogFile):
        return RecordingFolder(location, (_checked_log(place),))
    meta = read_object(place.read(wire.META_FILE))
    if meta.get("format", wire.FORMAT) != wire.FORMAT:
        raise GraphDoctorError(
            f"{location} was written by another version of graphdoctor: its format is"
            f" {meta['format']}, not {wire.FORMAT}.",
            hint=(
                "The trace log inside can be read by itself: graphdoctor report "
                f"{place.folder(wire.TRACE_FOLDER).location}"
            ),
        )
    logs = logs_in(place)
    if not logs and isinstance(location, Path) and has_linked_logs(location):
        raise GraphDoctorError(
            f"The trace log of {location} can't be read: it's a symbolic link, and links aren't"
            " followed."
        )
    if not meta and not logs:
        raise GraphDoctorError(
            f"{location} contains neither a recording nor a torch trace log.",
            hint="Name a folder in .graphdoctor/, or one that TORCH_TRACE=folder wrote.",
        )
    files = {"what_if": wire.WHAT_IF_FILE, "fixes": wire.FIXES_FILE, "declined": wire.DECLINED_FILE}
    objects: Fields = {name: read_object(place.read(file)) for name, file in files.items()}
    return RecordingFolder(
        location,
        tuple(logs),
        meta,
        read_events(place.read(wire.EVENTS_FILE)),
        is_running=isinstance(location, Path) and is_in_use(location),
        **objects,
    )


def _checked_log(file: LogFile) -> LogFile:
    try:
        if has_record(file):
            return file
    except CutStreamError as error:
        raise GraphDoctorError(f"{file.location} can't be read: {error.reason}.") from error
    is_program = file.path.suffix == ".py"
    records = f"graphdoctor explain {file.location} records a run."
    raise GraphDoctorError(
        f"{file.location} isn't a torch trace log: it contains no record of one.",
        hint=records if is_program else hindrance(file),
    )


def read_object(content: bytes) -> Fields:
    """The object in a JSON file's content; empty if it's something else."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}

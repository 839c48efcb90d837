"""Finds the files of a recording, and reads all but its logs.

Comes in: a recording's folder, a folder that ``TORCH_TRACE`` wrote, or one log file. Goes out: a ``RecordingFolder``:
the JSON as it is, the events, the logs' paths. Raises ``GraphDoctorError`` if there is no recording, or one of
another version. File names come from ``probe/wire.py``::

    recording.json   the request and how the child ended, written by the parent
    probe.jsonl      what the probe reported: environment, target, coverage, variations, errors
    trace/*.log      torch's structured trace with our records in it
    what-if.json     results of replays under remedies, whose own recordings are in what-if/
    fixes.json       results of trials of fixes, whose own recordings are in fixes/
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from graphdoctor.errors import GraphDoctorError
from graphdoctor.probe import wire
from graphdoctor.storage.log_file import LogFile, local_log
from graphdoctor.trace.events import Events, read_events
from graphdoctor.trace.grammar import LogDamage, read_records
from graphdoctor.trace.processes import ProcessLogs, find_logs, has_linked_logs, is_own_file


@dataclass(frozen=True)
class RecordingFolder:
    """The files of a recording.

    Args:
        logs: torch's trace logs.
        meta: ``recording.json``; empty for a log that graphdoctor didn't record.
        events: What the probe reported.
        what_if: ``what-if.json``; empty without one.
        fixes: ``fixes.json``; empty without one.
        processes: The processes to read, the main one first; None for all that wrote the logs.
    """

    logs: tuple[LogFile, ...]
    meta: dict[str, Any] = field(default_factory=dict)
    events: Events = field(default_factory=Events)
    what_if: dict[str, Any] = field(default_factory=dict)
    fixes: dict[str, Any] = field(default_factory=dict)
    processes: tuple[ProcessLogs, ...] | None = None


def open_folder(path: Path) -> RecordingFolder:
    """Find what there is to read.

    Args:
        path: A recording's folder, a folder that ``TORCH_TRACE`` wrote, or one of its log files.

    Raises:
        GraphDoctorError: There is no recording at ``path``, or it has another format.
    """
    if not path.exists():
        raise GraphDoctorError(f"There is no recording at {path}.", hint="Run graphdoctor explain first.")
    if path.is_file():
        return RecordingFolder((_log_at(path),))
    meta = read_object(path / wire.META_FILE)
    if meta.get("format", wire.FORMAT) != wire.FORMAT:
        raise GraphDoctorError(
            f"{path} was written by another version of graphdoctor: its format is {meta['format']}, not {wire.FORMAT}.",
            hint=f"The trace log inside can be read by itself: graphdoctor report {path / wire.TRACE_FOLDER}",
        )
    logs = find_logs(path)
    if not logs and has_linked_logs(path):
        raise GraphDoctorError(
            f"The trace log of {path} can't be read: it's a symbolic link, and links aren't followed."
        )
    if not meta and not logs:
        raise GraphDoctorError(
            f"{path} contains neither a recording nor a torch trace log.",
            hint="Name a folder in .graphdoctor/, or one that TORCH_TRACE=folder wrote.",
        )
    return RecordingFolder(
        tuple(logs),
        meta,
        read_events(path / wire.EVENTS_FILE),
        read_object(path / wire.WHAT_IF_FILE),
        read_object(path / wire.FIXES_FILE),
    )


def _log_at(path: Path) -> LogFile:
    log, damage = local_log(path), LogDamage()
    with log.open() as lines:
        is_log = next(read_records(lines, lambda _kind: True, damage), None) is not None
    if not is_log:
        for reason in damage.cut_logs.values():
            raise GraphDoctorError(f"{path} can't be read: {reason}.")
        raise GraphDoctorError(
            f"{path} isn't a torch trace log: it contains no record of one.",
            hint=f"graphdoctor explain {path} records a run." if path.suffix == ".py" else None,
        )
    return log


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if it's a link, can't be read or has something else."""
    try:
        value = orjson.loads(path.read_bytes() if is_own_file(path) else b"")
    except (OSError, orjson.JSONDecodeError):
        return {}
    return value if isinstance(value, dict) else {}

"""Writes each record of a recording's logs to a file, and an index of them; never through a
link.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import grouped
from graphdoctor.trace.artifacts import FileNames, compile_folder, safe_name, stem_and_suffix
from graphdoctor.trace.folder import open_folder
from graphdoctor.trace.gaps import log_gaps
from graphdoctor.trace.grammar import LogDamage, Record, read_records
from graphdoctor.trace.processes import Lane, Lanes, ProcessLogs, find_processes
from graphdoctor.trace.storage.places import Location

INDEX = "index.json"

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def _new_file(path: Path) -> BinaryIO:
    return path.open("xb")


class Folder:
    """Files in a folder, none of which is written through a link."""

    def __init__(self, root: Path, *, is_replacing: bool) -> None:
        self._root = root
        self._is_replacing = is_replacing
        self._names: defaultdict[str, FileNames] = defaultdict(FileNames)
        self._names[""].take(INDEX, "")
        self._made = {""}
        self._gathered: dict[str, int] = {}
        self._open: tuple[str, BinaryIO] | None = None
        self.files = 0
        self.bytes = 0
        try:
            root.mkdir(parents=True, exist_ok=True)
            is_empty = next(root.iterdir(), None) is None
        except FileExistsError as error:
            raise GraphDoctorError(f"{root} is a file, not a folder.") from error
        except OSError as error:
            raise GraphDoctorError(f"Can't write to {root}: {error.strerror}.") from error
        if not (is_empty or is_replacing):
            raise GraphDoctorError(
                f"{root} isn't empty.",
                hint="Name another folder, or add --force to replace files in it.",
            )

    def write(self, folder: str, stem: str, suffix: str, content: bytes) -> str:
        """Write a file under a name that is free."""
        name = self._names[folder].take(stem, suffix)
        path = f"{folder}/{name}" if folder else name
        with self.create(path) as file:
            file.write(content)
        self.bytes += len(content)
        return path

    def gather(self, path: str, item: bytes) -> int:
        """Add an item to a JSON list that is a file of its own."""
        if self._open is None or self._open[0] != path:
            self.close()
            if path in self._gathered:
                self._open = path, self._again(path)
            else:
                folder, _, name = path.rpartition("/")
                self._names[folder].take(name.removesuffix(".json"), ".json")
                self._gathered[path] = 0
                self._open = path, self.create(path)
        number = self._gathered[path]
        self._gathered[path] += 1
        self._open[1].write((b",\n" if number else b"[\n") + item)
        self.bytes += len(item)
        return number

    def end_lists(self) -> None:
        """End the lists that ``gather`` began."""
        self.close()
        for path in self._gathered:
            with self._again(path) as file:
                file.write(b"\n]\n")

    def create(self, path: str) -> BinaryIO:
        """A new file."""
        whole = self._root / path
        self._make(path.rpartition("/")[0])
        if self._is_replacing:
            whole.unlink(missing_ok=True)
        found = _new_file(whole)
        self.files += 1
        return found

    def finish(self, path: str, name: str) -> None:
        """Give a file that is whole now its name."""
        (self._root / path).replace(self._root / name)

    def close(self) -> None:
        """Close the list that is open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _again(self, path: str) -> BinaryIO:
        return os.fdopen(os.open(self._root / path, os.O_WRONLY | os.O_APPEND | _NO_LINK), "ab")

    def _make(self, folder: str) -> None:
        """Make a folder and those above it; one that is a link isn't written to."""
        if folder in self._made:
            return
        self._make(folder.rpartition("/")[0])
        whole = self._root / folder
        if whole.is_symlink():
            raise GraphDoctorError(
                f"{whole} is a symbolic link, and nothing is written through links."
            )
        whole.mkdir(exist_ok=True)
        self._made.add(folder)


FORMAT = 1

_EVENTS = "chromium_events.json"
"""Where the events of a process are, one list that trace viewers open; a log has hundreds of them
for each compile."""
_METRICS = "compilation_metrics"
_UNFINISHED = f"{INDEX}.part"


@dataclass
class Unpacked:
    """What was written."""

    files: int = 0
    bytes: int = 0
    records: int = 0
    without_payload: int = 0
    damage: LogDamage = field(default_factory=LogDamage)

    @property
    def problems(self) -> list[str]:
        """What couldn't be read, in sentences."""
        return [gap.message for gap in log_gaps(self.damage, {})]


@dataclass
class _Process:
    name: str | None
    started: set[str] = field(default_factory=set)
    reset: int = 0

    def folder_of(self, record: Record) -> str:
        compile_id = record.compile_id
        if record.kind == "dynamo_start" and compile_id is not None and not record.attempt:
            if compile_id in self.started:
                self.reset, self.started = self.reset + 1, set()
            self.started.add(compile_id)
        return self.path(
            compile_folder(compile_id, self.reset if compile_id in self.started else 0)
        )

    def path(self, name: str) -> str:
        return name if self.name is None else f"{safe_name(self.name)}/{name}"


def unpack(source: Location, into: Path, *, version: str, is_replacing: bool = False) -> Unpacked:
    """Write each artifact of the logs to a file."""
    processes = find_processes(open_folder(source).logs, main_pid=None)
    done = Unpacked()
    folder = Folder(into, is_replacing=is_replacing)
    try:
        with closing(folder), folder.create(_UNFINISHED) as index:
            index.write(
                f'{{"format":{FORMAT},"graphdoctor_version":{json.dumps(version)},"records":[\n'.encode()
            )
            for row in _rows(processes, folder, done):
                index.write(b"" if done.records == 1 else b",\n")
                index.write(row)
            folder.end_lists()
            _end(index, processes, done)
        folder.finish(_UNFINISHED, INDEX)
    except OSError as error:
        raise GraphDoctorError(
            f"Can't write to {into}: {error.strerror or error}.",
            hint=f"{folder.files} files were written before; without {INDEX}, the folder is incomplete.",
        ) from error
    done.files, done.bytes = folder.files - 1, folder.bytes
    return done


def _rows(processes: Sequence[ProcessLogs], folder: Folder, done: Unpacked) -> Iterator[bytes]:
    taken: set[str] = set()

    def name_of(rank: int | None) -> str:
        is_free = rank is not None and f"rank{rank}" not in taken
        taken.add(name := f"rank{rank}" if is_free else f"p{len(taken) + 1}")
        return name

    named = [(each, name_of(each.rank) if len(processes) > 1 else None) for each in processes]
    for log, writers in grouped(
        (log, writer) for writer in named for log in writer[0].logs
    ).items():
        owners = {
            Lane(each.pid, each.rank if each.writers else None): _Process(name)
            for each, name in writers
        }
        lanes = Lanes(owners)
        with log.open() as lines:
            for record in read_records(lines, lambda _kind: True, done.damage):
                lane = lanes.of(record)
                if lane not in owners:
                    owners[lane] = _Process(name_of(lane.rank))
                yield _row(record, owners[lane], folder, done)


def _row(record: Record, process: _Process, folder: Folder, done: Unpacked) -> bytes:
    done.records += 1
    row: dict[str, Any] = {"kind": record.kind, "compile_id": record.compile_id}
    if process.name is not None:
        row["process"] = process.name
    where = process.folder_of(record)
    if process.reset:
        row["reset"] = process.reset
    if record.raw is None and record.kind.endswith(_METRICS):
        # 38 KB each, and torch writes them into the record itself.
        record.raw = orjson.dumps(record.value, option=orjson.OPT_INDENT_2)
        record.metadata = record.metadata | {record.kind: {}}
    if record.raw is None:
        done.without_payload += 1
        row["file"] = None
    else:
        row["bytes"] = len(record.raw)
        if record.kind == "chromium_event" and _is_json(record.raw):
            row["file"] = process.path(_EVENTS)
            row["item"] = folder.gather(row["file"], record.raw)
        else:
            row["file"] = folder.write(where, *stem_and_suffix(record), record.raw)
    row["metadata"] = record.metadata
    return _dumped(row)


def _end(index: BinaryIO, processes: Sequence[ProcessLogs], done: Unpacked) -> None:
    damage = done.damage
    counts = {
        "records": done.records,
        "without_payload": done.without_payload,
        "unreadable": damage.broken_records,
        "altered": damage.altered_payloads,
        "stray_lines": damage.stray_lines,
    }
    kinds = {
        kind: {"count": count, "bytes": size}
        for kind, (count, size) in sorted(damage.kinds.items())
    }
    logs = list(dict.fromkeys(log.name for process in processes for log in process.logs))
    ending = {"counts": counts, "kinds": kinds, "logs": logs, "problems": done.problems}
    index.write(b"\n]," + _dumped(ending)[1:] + b"\n")


def _is_json(raw: bytes) -> bool:
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    return True


def _dumped(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        # Deeper than orjson writes, though not than it reads.
        return json.dumps(value).encode("utf-8", "replace")

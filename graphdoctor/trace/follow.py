"""Follows logs while they are being written: what is new since the last look; a compressed log is
read once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.base import sum_of_known
from graphdoctor.facts.following import (
    BreakSeen,
    Counts,
    LogBegun,
    LogStartedOver,
    RecompileSeen,
    Seen,
    SoFar,
    Writer,
)
from graphdoctor.trace.breaks import parse_break
from graphdoctor.trace.grammar import LogDamage, Record, is_header, read_records
from graphdoctor.trace.logs import PREFIX, held_logs, possible_logs
from graphdoctor.trace.metrics import printed_reasons
from graphdoctor.trace.origin import resumed
from graphdoctor.trace.processes import named_rank
from graphdoctor.trace.storage.log_file import CutStreamError, LogFile
from graphdoctor.trace.storage.places import Location, place_at

_PREFIX = re.compile(PREFIX)
_KINDS = frozenset(
    {
        "dynamo_start",
        "dynamo_graph_break_reason",
        "dynamo_output_graph",
        "recompile_reasons",
        "compilation_metrics",
    }
)
_HEAD_BYTES = 256
_MOST_BYTES = 2**24
"""What is read of a log in one look, so that the others have their turn."""


@dataclass
class _Process:
    writer: Writer
    started: set[str] = field(default_factory=set)
    reasons: dict[str, tuple[str, ...]] = field(default_factory=dict)
    functions: dict[int, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    breaks: set[tuple[str | None, int | None, str]] = field(default_factory=set)
    earlier: Counts = field(default_factory=Counts)
    graphs: int = 0
    recompiles: int = 0

    @property
    def counts(self) -> Counts:
        before = self.earlier
        return Counts(
            compiles=before.compiles + len(self.started),
            graphs=self.graphs,
            break_sites=len({place[:2] for place in self.breaks}),
            recompiles=self.recompiles,
            compile_s=sum_of_known((*self.seconds.values(), before.compile_s)),
        )

    def take(self, record: Record) -> Iterator[Seen]:
        if isinstance(rank := record.metadata.get("rank"), int):
            self.writer = replace(self.writer, rank=rank)
        compile_id = record.compile_id
        if record.kind == "dynamo_graph_break_reason":
            yield from self._break(record)
        if compile_id is None:
            return
        if record.kind == "dynamo_start":
            if compile_id in self.started:
                # Dynamo was reset: compile ids count from 0 again.
                self.earlier = self.counts
                self.started, self.reasons, self.functions, self.seconds = set(), {}, {}, {}
            self.started.add(compile_id)
            stack = record.value.get("stack") or []
            if stack:
                self.functions[record.metadata["frame_id"]] = stack[-1]["name"]
            yield from self._recompile(compile_id, record, is_over_limit=False)
        elif record.kind == "dynamo_output_graph":
            self.graphs += 1
        elif record.kind == "recompile_reasons":
            self.reasons[compile_id] = printed_reasons(record.payload or "")
        elif record.kind == "compilation_metrics":
            yield from self._metrics(compile_id, record)

    def _break(self, record: Record) -> Iterator[Seen]:
        found = parse_break(record.payload or "")
        entry = found.stack[-1] if found.stack else None
        file, line = (entry.file, entry.line) if entry else found.header or (None, None)
        reason = found.record.chain[0].gb_type
        if (file, line, reason) not in self.breaks:
            self.breaks.add((file, line, reason))
            yield BreakSeen(
                self.writer,
                record.compile_id,
                file,
                line,
                reason,
                found.record.effect == "frame_skipped",
            )

    def _metrics(self, compile_id: str, record: Record) -> Iterator[Seen]:
        metrics = record.json() if record.payload else record.value
        if not isinstance(metrics, dict) or metrics.get("is_forward") is False:
            return
        duration, is_own = metrics.get("duration_us"), metrics.get("co_name") is not None
        if isinstance(duration, int | float) and (compile_id not in self.seconds or is_own):
            self.seconds[compile_id] = duration / 1e6
        # A frame over its limit has no dynamo_start record.
        yield from self._recompile(compile_id, record, is_over_limit=True)

    def _recompile(self, compile_id: str, record: Record, *, is_over_limit: bool) -> Iterator[Seen]:
        reasons = self.reasons.pop(compile_id, None)
        if reasons is None:
            return
        self.recompiles += 1
        # Imported here: most logs have no recompile, and reading guard texts takes half a dozen
        # modules.
        from graphdoctor.trace.causes import cause_of_reasons, with_carried

        name = self.functions.get(record.metadata.get("frame_id", -1))
        function, resumes_at = (name, None) if name is None else resumed(name)
        carried = (
            "(a value from an earlier line)"
            if resumes_at is None
            else f"(a value from line {resumes_at})"
        )
        cause = with_carried(cause_of_reasons(reasons, lambda *_: None), lambda _name: carried)
        change = next(iter(cause.changes), None)
        expression, old, new = (
            (change.expression, change.old, change.new) if change else (None, None, None)
        )
        yield RecompileSeen(
            self.writer, compile_id, function, resumes_at, expression, old, new, is_over_limit
        )


class _Tail:
    def __init__(self, log: LogFile, *, is_gone: bool = False) -> None:
        self.log = log
        self._is_gone = is_gone
        self._processes: dict[tuple[bytes, str], _Process] = {}
        self._lines: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self._position = 0
        self._head = b""
        self._file: tuple[int, int] | None = None

    @property
    def counts(self) -> list[Counts]:
        return [process.counts for process in self._processes.values()]

    def loss(self, log: LogFile | None) -> Literal["gone", "replaced", "truncated"] | None:
        if log is None:
            return None if self._is_gone else "gone"
        if self._position == 0:
            return None
        if self._file is not None and self._file != _identity(log):
            return "replaced"
        if (
            log.compression is None
            and log.size_bytes is not None
            and log.size_bytes < self._position
        ):
            return "truncated"
        return None if log.part(0, len(self._head)) == self._head else "replaced"

    def look(self, log: LogFile) -> Iterator[Seen]:
        self.log, self._is_gone = log, False
        self._file = self._file or _identity(log)
        if len(self._head) < _HEAD_BYTES:
            self._head = log.part(0, _HEAD_BYTES)
        yield from self._read()

    def _read(self) -> Iterator[Seen]:
        begin, is_seekable = self._position, self.log.is_seekable
        if begin >= (self.log.size_bytes or 0) if is_seekable else begin:
            return
        # The report says so if it can't be read further; what was read stays read.
        with suppress(CutStreamError), self.log.open(begin) as stream:
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                self._position += len(line)
                match = _PREFIX.match(line)
                prefix = match[0] if match else b""
                self._lines[prefix].append(line[len(prefix) :])
                if self._position - begin > _MOST_BYTES:
                    if is_seekable:
                        break
                    begin = self._position
                    yield from self._take()
        yield from self._take()

    def _take(self) -> Iterator[Seen]:
        """Count the records in the lines; the last one of each process is kept if it isn't whole
        yet.
        """
        for prefix, lines in self._lines.items():
            last = next(
                (at for at in reversed(range(len(lines))) if is_header(lines[at])), len(lines)
            )
            before, end = lines[:last], lines[last:]
            records = [*read_records(end, _KINDS.__contains__, LogDamage())]
            lines[:] = [] if records else end
            for record in (
                *read_records(before, _KINDS.__contains__, LogDamage(), has_more=True),
                *records,
            ):
                pid = record.stamp.rpartition(" ")[2]
                if (prefix, pid) not in self._processes:
                    rank = named_rank(
                        replace(self.log, line_prefix=prefix.decode("utf-8", "replace"))
                    )
                    self._processes[prefix, pid] = _Process(Writer(self.log.name, rank))
                with suppress(ValueError, TypeError, LookupError, AttributeError):
                    # One that is damaged; the report says so.
                    yield from self._processes[prefix, pid].take(record)


class Follower:
    """Follows the logs at a place."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._tails: dict[str, _Tail] = {}
        self._sizes: dict[str, int | None] = {}

    @property
    def so_far(self) -> SoFar:
        """What the logs hold so far."""
        found = (counts for tail in self._tails.values() for counts in tail.counts)
        return SoFar(
            len(self._tails),
            tuple(counts for counts in found if counts.compiles or counts.break_sites),
        )

    def look(self) -> Iterator[Seen]:
        """What is new since the last look."""
        found = place_at(self._location)
        if found is None and not self._tails:
            raise GraphDoctorError(
                f"There is nothing at {self._location}.", hint="Name a folder that is there."
            )
        if isinstance(found, LogFile):
            there = {found.location: found}
        else:
            there = {} if found is None else {log.location: log for log in possible_logs(found)}
        for location, log in there.items():
            if location not in self._tails and self._is_new(
                log, is_certain=isinstance(found, LogFile)
            ):
                self._tails[location] = _Tail(log)
                yield LogBegun(log.name)
        for location, tail in list(self._tails.items()):
            now = there.get(location)
            if why := tail.loss(now):
                self._tails[location] = _Tail(now or tail.log, is_gone=now is None)
                yield LogStartedOver(tail.log.name, why)
            if now is not None:
                yield from self._tails[location].look(now)

    def _is_new(self, file: LogFile, *, is_certain: bool) -> bool:
        # The logs of one job are equally far down.
        if any(tail.log.name.count("/") != file.name.count("/") for tail in self._tails.values()):
            return False
        if self._sizes.get(file.location, -1) == file.size_bytes:
            return False
        self._sizes[file.location] = file.size_bytes
        return is_certain or bool(held_logs(file))


def _identity(log: LogFile) -> tuple[int, int] | None:
    with suppress(OSError):
        found = None if log.is_remote else Path(log.location).stat()
        return found and (found.st_dev, found.st_ino)
    return None

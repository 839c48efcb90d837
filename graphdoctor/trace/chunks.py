"""Reads a large log in several processes, cut where records begin; what comes out is the same as of
one.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import orjson

from graphdoctor.executors.executor import Executor, Failure, Outcome
from graphdoctor.facts.record_kinds import UNSHOWN_KINDS
from graphdoctor.trace.grammar import LogDamage, Record, is_header, read_records
from graphdoctor.trace.storage.log_file import LogFile

_LEAST_BYTES = 32 * 2**20
"""Below this, starting processes takes what they save."""

_CHUNK_BYTES = 8 * 2**20
_AHEAD = 8
"""How many parts are kept that were read before their turn; no more processes than one more than
these pay."""

_METRICS = "compilation_metrics"
_DUMPS = ("inductor_config", "dynamo_config", "functorch_config")
"""Nine tenths of a metrics record (2.13): every setting of torch, as text. Nothing here reads
them."""


@dataclass(frozen=True)
class Chunk:
    """A part of a log that begins with a header, or with the log."""

    log: LogFile
    start: int
    end: int | None
    kinds: frozenset[str]


_Read = tuple[list[Record], LogDamage]


def records_of(
    log: LogFile, kinds: frozenset[str], damage: LogDamage, executor: Executor
) -> Iterator[Record]:
    """The records of a log, as ``read_records`` gives them."""
    # Finding where to cut a log that lies elsewhere takes a request for each part.
    is_near = log.is_seekable and not log.is_remote
    is_cut = executor.jobs > 1 and is_near and (log.size_bytes or 0) >= _LEAST_BYTES
    starts = list(_starts(log, _CHUNK_BYTES)) if is_cut else [0]
    if len(starts) == 1:
        with log.open() as lines:
            yield from read_records(lines, kinds.__contains__, damage)
        return
    chunks = [
        Chunk(log, start, end, kinds)
        for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]
    for index, read in _in_order(executor.run(read_chunk, chunks, ahead=_AHEAD)):
        # What a process couldn't do, such as for want of memory, this one does.
        records, found = read_chunk(chunks[index]) if isinstance(read, Failure) else read
        yield from records
        damage.add(found)
        if found.cut_logs:
            return


def read_chunk(chunk: Chunk) -> _Read:
    """Read one part of a log."""
    records: list[Record] = []
    damage = LogDamage()
    with chunk.log.open(chunk.start) as stream:
        # A log of this machine that is not compressed: nothing is cut before its end.
        lines = stream if chunk.end is None else io.BytesIO(stream.read(chunk.end - chunk.start))
        for record in read_records(
            lines, chunk.kinds.__contains__, damage, has_more=chunk.end is not None
        ):
            _leave_out_dumps(record)
            records.append(record)
    return records, damage


def _starts(log: LogFile, chunk_bytes: int) -> Iterator[int]:
    yield 0
    start, size = 0, log.size_bytes or 0
    while (start := (start // chunk_bytes + 1) * chunk_bytes) < size:
        with log.open(start - 1) as stream:
            # What begins before the cut is of the chunk before it.
            start += len(stream.readline()) - 1
            for line in stream:
                if is_header(line):
                    yield start
                    break
                start += len(line)


def _in_order(outcomes: Iterator[Outcome[_Read]]) -> Iterator[Outcome[_Read]]:
    early: dict[int, _Read | Failure] = {}
    following = 0
    for index, read in outcomes:
        early[index] = read
        while following in early:
            yield following, early.pop(following)
            following += 1


def _leave_out_dumps(record: Record) -> None:
    record.raw = b""
    if record.kind in UNSHOWN_KINDS:
        record.payload = None
    if record.kind != _METRICS:
        return
    with suppress(orjson.JSONDecodeError):
        metrics = record.json() if record.payload else record.value
        for name in _DUMPS if isinstance(metrics, dict) else ():
            metrics.pop(name, None)
        if record.payload and isinstance(metrics, dict):
            record.payload = orjson.dumps(metrics).decode()

"""The line grammar of torch's structured trace log.

A record is ``V1121 02:58:17.809000 PID path:line] {json}``; its payload follows in lines that begin
with a TAB (``torch/_logging/_internal.py``, 2.13, ``TorchLogsFormatter`` and ``trace_structured``).
Anything else between the records is output of a program that shares the file. Payloads that the
caller doesn't want are never kept.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import orjson

from graphdoctor.trace.storage import CutStreamError

_HEADER = re.compile(rb"^([VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+) [^\]]*\] (\{.*)$")


@dataclass
class Record:
    """One record; the ``Intake`` finds out which call and which of Dynamo's graphs it is about, or
    that it is extra.
    """

    kind: str
    """Its type key, such as ``dynamo_start``; for an artifact, the artifact's name."""
    value: Any
    metadata: dict[str, Any]
    payload: str | None = None
    stamp: str = ""
    """The start of its line: level and date, time, process id."""
    call_index: int | None = None
    graph_index: int | None = None
    is_extra: bool = False

    def json(self) -> Any:  # noqa: ANN401
        """Return what its payload holds; an empty object if it has none."""
        return orjson.loads(self.payload or "{}")

    @cached_property
    def compile_id(self) -> str | None:
        """The compile it belongs to, as torch prints it (``torch/_guards.py``, 2.13,
        ``CompileId.__str__``).
        """
        frame = self.metadata.get("frame_id")
        count = self.metadata.get("frame_compile_id")
        autograd = self.metadata.get("compiled_autograd_id")
        parts = [] if autograd is None else [f"!{autograd}"]
        parts += [] if frame is None or count is None else [str(frame), str(count)]
        return "/".join(parts) or None

    @property
    def attempt(self) -> int | None:
        """The analysis attempt of its compile, from 0."""
        attempt = self.metadata.get("attempt")
        return attempt if type(attempt) is int else None


@dataclass
class LogDamage:
    """Parts of logs that can't be read."""

    broken_records: int = 0
    """Headers whose JSON doesn't parse, plus a last record whose payload is cut off."""
    bad_bytes: int = 0
    altered_payloads: int = 0
    """Those that differ from torch's checksum; kept if they are readable."""
    records: int = 0
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict, compare=False)
    """Number and total size of the records of each kind."""
    is_last_broken: bool = False
    headless_logs: int = 0
    cut_logs: dict[str, str] = field(default_factory=dict)
    """Reasons why logs can't be read to their ends, a clause, by name."""

    def count(self, kind: str, size: int) -> None:
        """Count a record of a kind."""
        count, size_before = self.kinds.get(kind, (0, 0))
        self.kinds[kind] = count + 1, size_before + size


_SUM_LENGTH = 32
_CONTEXT_KEYS = {
    "frame_id",
    "frame_compile_id",
    "attempt",
    "compiled_autograd_id",
    "rank",
    "has_payload",
    "stack",
}


def read_records(
    lines: Iterable[bytes], wants: Callable[[str], bool], damage: LogDamage
) -> Iterator[Record]:
    """Read records one by one."""
    record: Record | None = None
    payload: list[bytes] = []
    kind: str | None = None
    size_bytes = 0

    def finished(*, is_last: bool = False) -> Record | None:
        if kind is None:
            return None
        raw = b""
        is_whole = True
        if record is not None:
            raw, is_whole = _joined(payload, record.metadata.get("has_payload"))
        if not is_whole and is_last:
            damage.records -= 1
            damage.broken_records += 1
            damage.is_last_broken = True
            return None
        damage.count(kind, size_bytes)
        damage.altered_payloads += not is_whole
        if record is not None and payload:
            try:
                record.payload = raw.decode()
            except UnicodeDecodeError:
                damage.bad_bytes += 1
                record.payload = raw.decode("utf-8", "replace")
        return record

    try:
        rest = iter(lines)
        first = next(rest, b"")
        damage.headless_logs += is_rest_of_record(first)
        for raw in chain((first,), rest):
            if raw.startswith(b"\t"):
                size_bytes += len(raw)
                if record is not None:
                    payload.append(raw[1:].removesuffix(b"\n"))
                continue
            line = raw.removesuffix(b"\n")
            match = _HEADER.match(line.rstrip(b"\r"))
            if match is None:
                # Blank, or the program's own output, which can be between payload lines, too.
                continue
            done = finished()
            if done is not None:
                yield done
            record, payload = _parse(match[2], match[1].decode(), damage), []
            kind, size_bytes = None if record is None else record.kind, len(raw)
            if record is not None and not wants(record.kind):
                record = None
    except CutStreamError as error:
        damage.cut_logs[error.name] = error.reason
    done = finished(is_last=True)
    if done is not None:
        yield done


def is_rest_of_record(line: bytes) -> bool:
    """Return whether a log that begins with this line begins in the middle of a record: its payload
    or its header's end.
    """
    text = line.rstrip()
    # A program can print a whole object, and a bracket of one that it prints line by line.
    is_end = text.endswith(b"}") and b'": ' in text and text.count(b"}") > text.count(b"{")
    return line.startswith(b"\t") or is_end


def _joined(payload: list[bytes], expected: object) -> tuple[bytes, bool]:
    def is_whole(raw: bytes) -> bool:
        return hashlib.md5(raw, usedforsecurity=False).hexdigest() == expected

    raw = b"\n".join(payload)
    if not isinstance(expected, str) or len(expected) != _SUM_LENGTH or is_whole(raw):
        return raw, True
    # A log that was copied through Windows has a carriage return at the end of each line.
    raw = b"\n".join(line.removesuffix(b"\r") for line in payload)
    return raw, is_whole(raw)


def _parse(raw: bytes, stamp: str, damage: LogDamage) -> Record | None:
    damage.is_last_broken = False
    try:
        metadata = orjson.loads(raw)
    except orjson.JSONDecodeError:
        try:
            metadata = orjson.loads(raw.decode("utf-8", "replace"))
            damage.bad_bytes += 1
        except orjson.JSONDecodeError:
            metadata = {}
            damage.is_last_broken = True
    kind = next((key for key in metadata if key not in _CONTEXT_KEYS), None)
    if kind is None:
        damage.broken_records += 1
        return None
    damage.records += 1
    value = metadata[kind]
    if kind == "artifact" and isinstance(value, dict):
        kind = str(value.get("name"))
    return Record(kind, value, metadata, stamp=stamp)

"""The line grammar of torch's structured trace log.

A record is ``V1121 02:58:17.809000 PID path:line] {json}``; its payload follows in lines that begin with a TAB
(``torch/_logging/_internal.py``, 2.13, ``TorchLogsFormatter`` and ``trace_structured``). Anything else between the
records is output of the program that happened to share the file: it is counted and passed over. Memory stays flat:
payloads that the caller does not want are never kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

_HEADER = re.compile(rb"^[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ [^\]]*\] (\{.*)$")


@dataclass
class Record:
    """One record.

    Args:
        kind: Its type key, such as ``dynamo_start``; for an artifact the artifact's name.
        is_artifact: The type key was ``artifact``.
        value: What the type key holds.
        metadata: The whole JSON object.
        payload: The payload's text, or None when the caller did not want it.
    """

    kind: str
    is_artifact: bool
    value: Any
    metadata: dict[str, Any]
    payload: str | None = None

    @property
    def compile_id(self) -> str | None:
        """The compile it belongs to, as torch prints it (``torch/_guards.py``, 2.13, ``CompileId.__str__``)."""
        frame, count = self.metadata.get("frame_id"), self.metadata.get("frame_compile_id")
        autograd = self.metadata.get("compiled_autograd_id")
        parts = []
        if autograd is not None:
            parts.append(f"!{autograd}")
        if frame is not None and count is not None:
            parts += [str(frame), str(count)]
        return "/".join(parts) or None

    @property
    def attempt(self) -> int | None:
        """The analysis attempt of its compile, from 0."""
        attempt = self.metadata.get("attempt")
        return attempt if isinstance(attempt, int) else None


@dataclass
class LogDamage:
    """What could not be read.

    Args:
        broken_records: Headers whose JSON does not parse; a killed process leaves one at the end.
        stray_lines: Lines that are neither a header nor a payload.
        bad_bytes: Payloads that are not valid UTF-8.
        records: Records that could be read.
    """

    broken_records: int = 0
    stray_lines: int = 0
    bad_bytes: int = 0
    records: int = 0
    is_last_broken: bool = field(default=False)


_CONTEXT_KEYS = frozenset(
    {"frame_id", "frame_compile_id", "attempt", "compiled_autograd_id", "rank", "has_payload", "stack"}
)


def read_records(lines: Iterable[bytes], wants: Callable[[str], bool], damage: LogDamage) -> Iterator[Record]:
    """Read records one by one.

    Args:
        lines: The file's lines, with or without their line ends.
        wants: Says by its kind whether a record is wanted; the others are counted and passed over.
        damage: Counts what could not be read.

    Yields:
        The wanted records in the order of the file, interned strings (``str``) included when wanted.
    """
    record: Record | None = None
    payload: list[bytes] = []

    def finished() -> Record | None:
        if record is not None and payload:
            raw = b"\n".join(payload)
            try:
                record.payload = raw.decode()
            except UnicodeDecodeError:
                damage.bad_bytes += 1
                record.payload = raw.decode("utf-8", "replace")
        return record

    for raw in lines:
        line = raw.rstrip(b"\r\n")
        if line.startswith(b"\t"):
            if record is not None:
                payload.append(line[1:])
            continue
        match = _HEADER.match(line)
        if match is None:
            # Blank lines and the program's own output may stand between a record's payload lines.
            damage.stray_lines += bool(line.strip())
            continue
        done = finished()
        if done is not None:
            yield done
        record, payload = _parse(match[1], damage), []
        if record is not None and not wants(record.kind):
            record = None
    done = finished()
    if done is not None:
        yield done


def _parse(raw: bytes, damage: LogDamage) -> Record | None:
    try:
        metadata = orjson.loads(raw)
    except orjson.JSONDecodeError:
        try:
            metadata = orjson.loads(raw.decode("utf-8", "replace"))
            damage.bad_bytes += 1
        except orjson.JSONDecodeError:
            damage.broken_records += 1
            damage.is_last_broken = True
            return None
    damage.is_last_broken = False
    kind = next((key for key in metadata if key not in _CONTEXT_KEYS), None)
    if kind is None:
        damage.broken_records += 1
        return None
    damage.records += 1
    value = metadata[kind]
    if kind == "artifact" and isinstance(value, dict):
        return Record(str(value.get("name")), True, value, metadata)
    return Record(kind, False, value, metadata)

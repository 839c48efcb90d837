"""Redacts a trace log, record by record, into a log that tlparse and our own reader can read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphdoctor.studies.bundle.redact.records import Records
from graphdoctor.trace.grammar import LogDamage, Record, read_records

_PLACE = "torch/_logging/structured.py:1"
"""Replaces the line that wrote a record, which can be in the program."""


@dataclass
class LeftOut:
    """How much a redacted log leaves out.

    Args:
        records: Records of kinds that are left out, and those that couldn't be parsed.
        lines: Lines between records, which are the program's own output.
    """

    records: int = 0
    lines: int = 0


def redacted_log(lines: Iterable[bytes], records: Records, left_out: LeftOut) -> Iterator[bytes]:
    """Redact a log.

    Args:
        lines: The log's lines.
        records: Redacts its records.
        left_out: Counts what is left out.

    Yields:
        One record at a time.
    """
    damage = LogDamage()
    for record in read_records(lines, lambda _kind: True, damage):
        try:
            redacted = records.redacted(record)
        except (ValueError, TypeError, LookupError, AttributeError):
            redacted = None  # damaged, or from a torch that writes it differently
        if redacted is None:
            left_out.records += 1
        else:
            yield _written(record, *redacted)
    left_out.lines += damage.stray_lines
    left_out.records += damage.broken_records


def _written(record: Record, metadata: dict[str, object], payload: str | None) -> bytes:
    """The record in torch's format (``torch/_logging/_internal.py``, 2.13, ``trace_structured``)."""
    if payload is None:
        return f"{record.stamp} {_PLACE}] {json.dumps(metadata)}\n".encode()
    total = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    lines = "".join(f"\t{line}\n" for line in payload.split("\n"))
    return f"{record.stamp} {_PLACE}] {json.dumps(metadata | {'has_payload': total})}\n{lines}".encode()

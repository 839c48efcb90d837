"""A trace log written anew, record by record, so that tlparse and our own reader take it for torch's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphdoctor.bundle.redact.records import Records
from graphdoctor.trace.grammar import LogDamage, Record, read_records

_PLACE = "torch/_logging/structured.py:1"
"""In the place of the line that wrote a record, which may be the program's."""


@dataclass
class LeftOut:
    """What a redacted log lacks.

    Args:
        records: Records of kinds that are left out, and those that could not be taken apart.
        lines: Lines between records: the program's own output.
    """

    records: int = 0
    lines: int = 0


def redacted_log(lines: Iterable[bytes], records: Records, left_out: LeftOut) -> Iterator[bytes]:
    """The log without what is the program's own.

    Args:
        lines: The log's.
        records: Redacts its records.
        left_out: Counts what is gone.

    Yields:
        One record after the other.
    """
    damage = LogDamage()
    for record in read_records(lines, lambda _kind: True, damage):
        try:
            redacted = records.redacted(record)
        except (ValueError, TypeError, LookupError, AttributeError):
            redacted = None  # damaged, or of a torch that writes it otherwise
        if redacted is None:
            left_out.records += 1
        else:
            yield _written(record, *redacted)
    left_out.lines += damage.stray_lines
    left_out.records += damage.broken_records


def _written(record: Record, metadata: dict[str, object], payload: str | None) -> bytes:
    """The record as torch writes one (``torch/_logging/_internal.py``, 2.13, ``trace_structured``)."""
    if payload is None:
        return f"{record.stamp} {_PLACE}] {json.dumps(metadata)}\n".encode()
    total = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    lines = "".join(f"\t{line}\n" for line in payload.split("\n"))
    return f"{record.stamp} {_PLACE}] {json.dumps(metadata | {'has_payload': total})}\n{lines}".encode()

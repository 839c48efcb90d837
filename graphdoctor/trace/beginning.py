"""Finds out whether the beginning of a process's log is missing, as in one that was rotated or tailed.

torch numbers strings, frames and the compiles of a frame from 0, and writes what it refers to before it
(``torch/_logging/structured.py`` and ``torch/_dynamo/convert_frame.py``, 2.6 to 2.15).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar

import orjson

from graphdoctor.trace.grammar import LogDamage, Record, read_records
from graphdoctor.trace.intake import Intake
from graphdoctor.trace.storage.log_file import LogFile

_EVENT = "chromium_event"
_BEGINNING = frozenset({_EVENT, "dynamo_start"})
_LAST_START = 2
_MAX_RECORDS = 2000
"""Of the beginning of a log, in which ends are looked for."""


@dataclass
class Beginning:
    """What the records of one process refer to."""

    KINDS: ClassVar[frozenset[str]] = frozenset({"str", "dynamo_start"})

    is_forked: bool = False
    undefined: set[int] = field(default_factory=set)
    has_lost_event: bool = False
    _defined: set[int] = field(default_factory=set)

    def add(self, record: Record) -> None:
        """Take the next record of one of ``KINDS``."""
        if record.kind == "str":
            number = record.value[1]
            self._defined.add(number)
            self.is_forked = self.is_forked and number != 0
        else:
            used = {line.get("filename") for line in record.value.get("stack") or ()}
            self.undefined |= {number for number in used if isinstance(number, int)} - self._defined


def has_lost_event(log: LogFile) -> bool:
    """Whether something ends, up to a log's second compile, that doesn't begin in it."""
    begun: Counter[tuple[str, str]] = Counter()
    starts = 0
    with log.open() as lines:
        for record in islice(read_records(lines, _BEGINNING.__contains__, LogDamage()), _MAX_RECORDS):
            starts += record.kind == "dynamo_start"
            if starts == _LAST_START:
                return False
            event = _event(record)
            key = record.stamp.rpartition(" ")[2], str(event.get("name"))
            if event.get("ph") == "E" and not begun[key]:
                return True
            begun[key] += {"B": 1, "E": -1}.get(str(event.get("ph")), 0)
    return False


def _event(record: Record) -> dict[str, object]:
    try:
        event = orjson.loads(record.payload or "{}")
    except orjson.JSONDecodeError:
        return {}
    return event if isinstance(event, dict) else {}


@dataclass(frozen=True)
class BeginningSigns:
    """What a process refers to that isn't in its logs."""

    process: str | None
    has_lost_event: bool
    undefined: int
    starts: tuple[str, ...]
    compiles: tuple[str, ...]


def signs_of(process: str | None, beginning: Beginning, intakes: Sequence[Intake], *, is_ours: bool) -> BeginningSigns:
    """What shows that the beginning of a process's log is missing.

    A forked process goes on with its parent's numbers, unless graphdoctor recorded it.
    """
    is_forked = beginning.is_forked
    return BeginningSigns(
        process=process,
        has_lost_event=beginning.has_lost_event,
        undefined=0 if is_forked else len(beginning.undefined),
        starts=() if is_ours or is_forked else tuple(found for intake in intakes for found in _starts(intake)),
        compiles=() if is_ours or is_forked else tuple(found for intake in intakes for found in _compiles(intake)),
    )


def _starts(intake: Intake) -> list[str]:
    return [
        compile_.compile_id
        for compile_ in intake.compiles.values()
        if not compile_.is_started and compile_.metrics is not None and compile_.metrics.co_name is not None
    ]


def _compiles(intake: Intake) -> list[str]:
    first: dict[int, tuple[int, str]] = {}
    for compile_ in intake.compiles.values():
        count = compile_.compile_id.rpartition("/")[2]
        if count.isdecimal():
            found = (int(count), compile_.compile_id)
            first[compile_.frame_id] = min(first.get(compile_.frame_id, found), found)
    return [compile_id for count, compile_id in first.values() if count > 0]

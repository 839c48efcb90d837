"""Finds out whether the beginning of a process's log is missing, as in one that was rotated or tailed.

torch numbers strings, frames and the compiles of a frame from 0, and writes what it refers to before it
(``torch/_logging/structured.py`` and ``torch/_dynamo/convert_frame.py``, 2.6 to 2.15).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar

import orjson

from graphdoctor.facts.recording import CaptureGap
from graphdoctor.facts.wording import counted
from graphdoctor.trace.gaps import gap, listed
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
    with suppress(orjson.JSONDecodeError):
        if isinstance(event := record.json(), dict):
            return event
    return {}


def beginning_gaps(
    headless_logs: int, processes: Iterable[tuple[str | None, Beginning, Sequence[Intake]]], *, is_ours: bool
) -> Iterator[CaptureGap]:
    """Whether the logs begin in the middle, from what each process, by name, refers to that isn't in its logs.

    A forked process goes on with its parent's numbers, unless graphdoctor recorded it.
    """
    said = ["it begins in the middle of a record"] if headless_logs else []
    is_fork_possible = False
    for name, beginning, intakes in processes:
        whose = "" if name is None else f" of {name}"
        if beginning.has_lost_event:
            said.append(f"something ends{whose} that doesn't begin")
        if beginning.is_forked:
            continue
        if beginning.undefined:
            said.append(f"it lacks the names of {counted(len(beginning.undefined), 'file')}{whose}")
        known = [] if is_ours else intakes
        if starts := [found for intake in known for found in _starts(intake)]:
            said.append(f"the start of {listed(starts)}{whose} is missing")
        if compiles := [found for intake in known for found in _compiles(intake)]:
            said.append(f"{listed(compiles)}{whose} compiled again what it doesn't have")
        is_fork_possible |= name is not None and bool(beginning.undefined or compiles)
    if said:
        yield gap(
            "log_beginning",
            f"The beginning of the trace log is missing: {'; '.join(said)}. What was compiled before isn't in "
            "the counts." + (" The log of a forked process looks the same." if is_fork_possible else ""),
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

"""What a torch doesn't write to its trace log yet, as far as it makes a difference to a reader.

Seen in logs of 2.4.1, 2.5.1, 2.6.0, 2.8.0, 2.9.1, 2.10.0, 2.11.0, 2.13.0 and 2.15.0;
``docs/reference/recordings.md`` has a table of all that they write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from graphdoctor.trace.grammar import LogDamage, read_records
from graphdoctor.trace.storage.log_file import LogFile

Version = tuple[int, int]

_NAMED = re.compile(r"^\s*# torch version: (\S+)", re.MULTILINE)
_NUMBER = re.compile(r"(\d+)\.(\d+)")
RUNNABLE = "fx_graph_runnable"
_MAX_THREADLESS = 7
"""Digits of the largest process id of Linux, 2**22; the number of a thread has more."""


_LACKING: tuple[tuple[Version, str], ...] = (
    ((2, 5), "torch's version is unknown"),
    ((2, 5), "recompiles have no causes"),
    (
        (2, 6),
        "graph breaks are known by their resume functions alone, skipped frames and refused ones not at all",
    ),
    ((2, 8), "the latency of guards is unknown"),
    ((2, 9), "causes of graph breaks have no numbers, so that some are in torch's words alone"),
)
"""What is unknown in logs of a torch before a version, as far as it makes a difference to a
report."""
UNDERSTOOD_SINCE: Version = (2, 6)
"""An older log has no graph breaks of its own."""


def parsed_version(text: str | None) -> Version | None:
    """The first two numbers of a version; None if there are none."""
    found = _NUMBER.match(text or "")
    return (int(found[1]), int(found[2])) if found else None


def lacking(version: Version) -> list[str]:
    """What logs of a torch lack, in words that follow a colon; empty for one that has
    everything.
    """
    return [words for since, words in _LACKING if version < since]


def is_thread(number: str) -> bool:
    """Whether a header's number is that of a thread, as before 2.5."""
    return len(number) > _MAX_THREADLESS


def named_version(logs: Iterable[LogFile]) -> str | None:
    """The version that the first ``fx_graph_runnable`` of a process names; reads its logs up to
    that record.
    """
    for log in logs:
        with log.open() as lines:
            record = next(read_records(lines, RUNNABLE.__eq__, LogDamage()), None)
        if record is not None and (found := _NAMED.search(record.payload or "")):
            return found[1]
    return None

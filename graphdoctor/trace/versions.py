"""What each torch writes to its trace log, as far as it makes a difference to a reader.

Seen in logs of 2.4.1, 2.5.1, 2.6.0, 2.8.0, 2.9.1, 2.10.0, 2.11.0, 2.13.0 and 2.15.0;
``docs/reference/recordings.md`` has the same table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphdoctor.trace.grammar import LogDamage, read_records
from graphdoctor.trace.storage.log_file import LogFile

Version = tuple[int, int]

_NAMED = re.compile(r"^\s*# torch version: (\S+)", re.MULTILINE)
_NUMBER = re.compile(r"(\d+)\.(\d+)")
RUNNABLE = "fx_graph_runnable"
_MAX_THREADLESS = 7
"""Digits of the largest process id of Linux, 2**22; the number of a thread has more."""


@dataclass(frozen=True)
class LogFeature:
    """Something that torch writes since a version.

    ``without``: what is unknown or read in another way in an older log; None if that makes no difference to a report.
    """

    since: Version
    what: str
    without: str | None = None


FEATURES = (
    LogFeature((2, 5), "process ids in headers; before, the number of a thread"),
    LogFeature((2, 5), "the compiled function at the end of `dynamo_start`'s stack; before, only its metrics name it"),
    LogFeature((2, 5), "`fx_graph_runnable`, which names torch's version", "torch's version is unknown"),
    LogFeature((2, 5), "`recompile_reasons`", "recompiles have no causes"),
    LogFeature(
        (2, 6),
        "`dynamo_graph_break_reason` and `dynamo_error`",
        "graph breaks are known by their resume functions alone, skipped frames and refused ones not at all",
    ),
    LogFeature((2, 6), "`duration_us` in metrics; before, `entire_frame_compile_time_s`"),
    LogFeature((2, 8), "the latency of guards", "the latency of guards is unknown"),
    LogFeature(
        (2, 9),
        "numbers of the causes of graph breaks",
        "causes of graph breaks have no numbers, so that some are in torch's words alone",
    ),
    LogFeature((2, 11), "`torch_version`; before, only `fx_graph_runnable` has it"),
)

UNDERSTOOD_SINCE: Version = (2, 6)
"""An older log has no graph breaks of its own."""


def parsed_version(text: str | None) -> Version | None:
    """The first two numbers of a version; None if there are none."""
    found = _NUMBER.match(text or "")
    return (int(found[1]), int(found[2])) if found else None


def lacking(version: Version) -> list[str]:
    """What logs of a torch lack, in words that follow a colon; empty for one that has everything."""
    return [feature.without for feature in FEATURES if feature.without is not None and version < feature.since]


def is_thread(number: str) -> bool:
    """Whether a header's number is that of a thread, as before 2.5."""
    return len(number) > _MAX_THREADLESS


def named_version(logs: Iterable[LogFile]) -> str | None:
    """The version that the first ``fx_graph_runnable`` of a process names; reads its logs up to that record."""
    return next(_versions_in(logs), None)


def _versions_in(logs: Iterable[LogFile]) -> Iterator[str]:
    for log in logs:
        with log.open() as lines:
            for record in read_records(lines, RUNNABLE.__eq__, LogDamage()):
                if found := _NAMED.search(record.payload or ""):
                    yield found[1]
                break

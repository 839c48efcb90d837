"""Reads the probe's events, which are the lines of ``probe.jsonl``.

Comes in: the file, which can be missing or end in the middle of a line. Goes out: events by kind, with the fields
that ``probe/wire.py`` declares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import orjson

from graphdoctor.probe.wire import GuardCostEvent

Event = Mapping[str, Any]
"""Its kind is under ``event``."""


class Events:
    """Events in the order of the file."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.all = tuple(events)
        self._last: dict[str, Event] = {event["event"]: event for event in self.all}

    def __contains__(self, kind: str) -> bool:
        return kind in self._last

    def fields(self, kind: str) -> dict[str, Any]:
        """The fields of the last event of a kind, without the kind; empty if there is none."""
        return {key: value for key, value in self._last.get(kind, {}).items() if key != "event"}

    @property
    def guard_cost(self) -> GuardCostEvent | None:
        """What guard checks cost; None if that was not measured."""
        return cast("GuardCostEvent | None", self._last.get("guard_cost"))


def read_events(content: bytes) -> Events:
    """The events in a file's content; lines that aren't events are skipped, since a killed probe leaves half a line."""
    return Events(_parsed(content.splitlines()))


def _parsed(lines: Iterable[bytes]) -> Iterator[Event]:
    for line in lines:
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            yield event

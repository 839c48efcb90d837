"""Parses torch's printed guard tree (``GuardManagerWrapper.__str__``, ``torch/_dynamo/guards.py``, 2.13).

It has a guard manager for each guarded value, with the guards on it, and the measured latency in its last line. Lines
with an unknown layout are kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from graphdoctor.trace.details import Collector, Details
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.guards.forms import Form, meaning_of
from graphdoctor.trace.guards.text import GuardText, take_apart

_LINE = re.compile(r"^(?P<bars>(?:\| )*)\+- ?(?P<text>.*)$", re.DOTALL)
_MANAGER = re.compile(
    r"^(?:KeyManager: |ValueManager: )?\w*(?:Manager|Guard): source=(?P<source>.*?), (?:accessed_by=|type=)"
)
_PAIR = re.compile(r"^(?:KeyValueManager pair at index=|RootGuardManager\b)")
_LATENCY = re.compile(r"^Guard latency = (?P<us>\d+(?:\.\d+)?) us$")
_HEADING = "TREE_GUARD_MANAGER:"


@dataclass(frozen=True, eq=False)
class TreeGuard:
    """One guard of the tree; equal ones of different trees are one object."""

    depth: int
    manager_source: str | None
    text: GuardText
    meaning: Form


@dataclass(frozen=True)
class GuardTree:
    """A parsed tree."""

    guards: tuple[TreeGuard, ...]
    latency_us: float | None
    unread: tuple[str, ...]


class GuardTrees(Collector):
    """Collects the guard trees of a log, the last one of each compile."""

    KINDS = frozenset({"dynamo_cpp_guards_str"})

    def __init__(self, details: Details | None = None) -> None:
        super().__init__(details)
        self.trees: dict[str, GuardTree] = {}

    def add(self, record: Record) -> None:
        """See ``Collector``."""
        if record.compile_id is not None and record.payload is not None:
            self.trees[record.compile_id] = parse_tree(record.payload)


@lru_cache(maxsize=100_000)  # compiles of one function have most of theirs in common
def _guard(depth: int, manager_source: str | None, text: str) -> TreeGuard:
    guard = take_apart(text)
    return TreeGuard(depth, manager_source, guard, meaning_of(guard))


def parse_tree(payload: str) -> GuardTree:
    """Parse a printed tree."""
    guards: list[TreeGuard] = []
    unread: list[str] = []
    latency_us: float | None = None
    path: list[tuple[int, str | None]] = []
    for line in _joined(payload.splitlines()):
        if latency := _LATENCY.match(line):
            latency_us = float(latency["us"])
            continue
        found = _LINE.match(line)
        if found is None:
            if line.strip() not in ("", _HEADING):
                unread.append(line)
            continue
        depth, text = len(found["bars"]) // 2, found["text"]
        while path and path[-1][0] >= depth:
            path.pop()
        above = path[-1][1] if path else None
        if manager := _MANAGER.match(text):
            path.append((depth, manager["source"]))
        elif _PAIR.match(text):
            path.append((depth, above))
        else:
            guards.append(_guard(depth, above, text))
    return GuardTree(tuple(guards), latency_us, tuple(unread))


def _joined(lines: list[str]) -> Iterator[str]:
    """The lines of the tree, each joined with its continuation lines: a guard's text can contain line breaks."""
    held: str | None = None
    for line in lines:
        is_new = line.startswith(("| ", "+-", _HEADING)) or _LATENCY.match(line) or not line.strip()
        if held is not None and held.startswith(("| ", "+-")) and not is_new:
            held += "\n" + line
            continue
        if held is not None:
            yield held
        held = line
    if held is not None:
        yield held

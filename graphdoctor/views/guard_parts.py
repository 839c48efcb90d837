"""A compile's guards as a tree of arguments and modules, with repeated modules folded, for the views of guards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoctor.facts.guards import GuardNode, GuardSet

STATE = "process-wide state"
_TOKEN = re.compile(r"\[[^\]]*\]|[^.\[\]]+")
_INDEX = re.compile(r"\[\d+\]$")
_BOUND = re.compile(r"[\[\]…]")
VARIES = "different in each"
"""Stands for the expected value of a guard that differs among folded parts."""


@dataclass
class Part:
    """An argument, a module or a group of these.

    Args:
        path: In the user's words; the last index is ``[0…11]`` if several equal parts are folded.
        label: What it adds to the path of its parent.
        guards: Its own guards, without those of its parts; those of the first if several are folded.
        parts: The parts inside it.
        times: How many equal parts are folded.
        costs_us: What each folded part costs with everything inside, None if not measured.
    """

    path: str
    label: str
    guards: list[GuardNode] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    times: int = 1
    costs_us: list[float | None] = field(default_factory=list)

    @property
    def guard_count(self) -> int:
        """Guards of one part, with everything inside."""
        return len(self.guards) + sum(part.guard_count * part.times for part in self.parts)

    @property
    def check_us(self) -> float | None:
        """What all folded parts cost together; None unless each was measured."""
        known = [cost for cost in self.costs_us if cost is not None]
        return sum(known) if known and len(known) == self.times else None


def parts_of(found: GuardSet) -> list[Part]:
    """The parts of a compile's guards in the order of torch's tree: process-wide state first, repetitions folded."""
    root = Part("", "")
    known = {"": root}
    for node in found.nodes:
        _part(node.path or STATE, known).guards.append(node)
    costs = {cost.path: cost.check_us for cost in found.bill}
    for path, part in known.items():
        part.costs_us = [costs.get(path)]
    return _folded(root.parts)


def walk(parts: list[Part], depth: int = 0) -> Iterator[tuple[int, Part]]:
    """Each part with its depth, outer ones first."""
    for part in parts:
        yield depth, part
        yield from walk(part.parts, depth + 1)


def _part(path: str, known: dict[str, Part]) -> Part:
    """The part with a path; it and its parents are made if needed."""
    if path in known:
        return known[path]
    tokens = [path] if path == STATE else _TOKEN.findall(path)
    last = tokens[-1] if tokens else path
    above = path[: -len(last)].removesuffix(".") if len(tokens) > 1 else ""
    part = known[path] = Part(path, last if last.startswith("[") or not above else f".{last}")
    _part(above, known).parts.append(part)
    return part


def _folded(parts: list[Part]) -> list[Part]:
    """The parts, with neighbors ``[0]``, ``[1]``, … that check the same merged."""
    kept: list[Part] = []
    shapes: list[object] = []
    for part in parts:
        part.parts = _folded(part.parts)
        shape = _shape(part, part.path)
        if kept and _INDEX.search(part.label) and kept[-1].label.startswith("[") and shapes[-1] == shape:
            kept[-1] = _together(kept[-1], part)
            continue
        kept.append(part)
        shapes.append(shape)
    return kept


def _together(first: Part, other: Part) -> Part:
    """Two equal parts as one; expected values that differ are marked."""
    label = f"[{_BOUND.split(first.label)[1]}…{_BOUND.split(other.label)[1]}]"
    path = first.path.removesuffix(first.label) + label
    return Part(path, label, *_both(first, other), first.times + 1, first.costs_us + other.costs_us)


def _both(first: Part, other: Part) -> tuple[list[GuardNode], list[Part]]:
    guards = [
        node if node.expected == same.expected else node.model_copy(update={"expected": VARIES})
        for node, same in zip(first.guards, other.guards, strict=True)
    ]
    below = [
        Part(part.path, part.label, *_both(part, same), part.times)
        for part, same in zip(first.parts, other.parts, strict=True)
    ]
    return guards, below


def _shape(part: Part, root: str) -> object:
    """What two parts must share to be merged: kinds and sources of their guards, and the same parts inside."""
    own = tuple((node.kind, node.expression.replace(root, "")) for node in part.guards)
    return own, tuple((below.label, below.times, _shape(below, root)) for below in part.parts)

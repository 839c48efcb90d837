"""How tall drawings will be, so that the page keeps room for those that are drawn when they come into view.

Comes in: what is drawn. Goes out: pixels of the rows, and counts of lines; ``report.css`` adds what is around them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphdoctor.views.guard_parts import parts_of

if TYPE_CHECKING:
    from graphdoctor.facts.guards import GuardSet
    from graphdoctor.facts.picture import Lane, Phase

_LINE = 18
"""``LINE`` of timeline.js."""
_NAME = 43
"""Of a row's name and the note below it."""
_NARROW_NAME = 27
"""Of both in one line, which on a narrow screen is above the row."""


@dataclass(frozen=True)
class Height:
    """Pixels of a drawing's rows."""

    wide: int
    narrow: int
    """On a narrow screen."""


def lanes_height(lanes: Iterable[Lane]) -> Height:
    """The rows of calls."""
    return _height([1 for _ in lanes])


def phases_height(phases: Iterable[Phase]) -> Height:
    """The rows of compiles, which are as deep as their phases are nested."""
    depths: dict[tuple[str | None, str | None], tuple[int, int]] = {}
    for phase in phases:
        if phase.duration_us is not None:
            key = (phase.process, phase.compile_id)
            least, most = depths.get(key, (phase.depth, phase.depth))
            depths[key] = (min(least, phase.depth), max(most, phase.depth))
    return _height([most - least + 1 for least, most in depths.values()])


def _height(depths: Iterable[int]) -> Height:
    bars = [_LINE * depth + 4 for depth in depths]
    return Height(sum(max(bar, _NAME) + 1 for bar in bars), sum(bar + _NARROW_NAME + 1 for bar in bars))


def guard_lines(sets: Sequence[GuardSet]) -> int:
    """Lines of the tree of the first compile's guards before anything is unfolded."""
    return len(parts_of(sets[0])) if sets else 0

"""What a page shows of a run that has more compiles, or longer graphs, than a page can hold.

Comes in: a diagnosis and its picture, which names the compiles that were chosen. Goes out: the rows of the page's
tables and the sentences that say what was left out. Counts and findings are always those of the whole run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from graphdoctor.facts.wording import counted
from graphdoctor.views.guard_parts import parts_of

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.guards import GuardSet
    from graphdoctor.facts.picture import Lane, Phase, Picture

_MOST_CALLS = 1_000
"""Calls in the table of calls."""


class _OfCompile(Protocol):
    @property
    def compile_id(self) -> str: ...


_Row = TypeVar("_Row", bound=_OfCompile)
_Call = TypeVar("_Call")


class Shown:
    """Which compiles a page shows.

    Args:
        diagnosis: The whole run.
        picture: Names the compiles that were chosen.
    """

    def __init__(self, diagnosis: Diagnosis, picture: Picture) -> None:
        self._compiles = {found.compile_id for found in diagnosis.recording.compiles}
        self._with_graph = {graph.compile_id for graph in diagnosis.recording.graphs}
        self._rows = None if picture.shown is None else frozenset(picture.shown)
        self._detailed = None if picture.detailed is None else frozenset(picture.detailed)

    def rows(self, rows: Iterable[_Row]) -> list[_Row]:
        """The rows of compiles that have some."""
        return [row for row in rows if self._has_row(row.compile_id)]

    def has_details(self, compile_id: str) -> bool:
        """Whether the graphs, code and guards of a compile are on the page."""
        return self._has_row(compile_id) and (self._detailed is None or compile_id in self._detailed)

    def phases(self, phases: Iterable[Phase]) -> list[Phase]:
        """The phases that are drawn."""
        return [phase for phase in phases if phase.compile_id is None or self._has_row(phase.compile_id)]

    def _has_row(self, compile_id: str) -> bool:
        return self._rows is None or compile_id in self._rows

    @property
    def rows_note(self) -> str | None:
        """Which compiles have rows; None if all have."""
        if self._rows is None:
            return None
        few = counted(len(self._rows), "compile")
        return (
            f"This page lists {few} of {len(self._compiles):,}: first those of the findings, then one of each function."
        )

    @property
    def details_note(self) -> str | None:
        """Which compiles have details; None if all have."""
        whole = self._with_graph | self._compiles
        kept = sum(self.has_details(compile_id) for compile_id in whole)
        if kept == len(whole):
            return None
        return (
            f"Graphs, code and guards of {counted(kept, 'compile')} of {len(whole):,} are on this page. "
            "`graphdoctor report LOG --compile ID --html` shows those of another."
        )


def shown_calls(calls: Sequence[_Call], matters: Iterable[bool]) -> list[_Call]:
    """The calls that the table lists, in order: those that matter first, if there are too many.

    Args:
        calls: All calls.
        matters: Whether something was compiled, or fell back, in each.
    """
    ranked = sorted(range(len(calls)), key=dict(enumerate(not each for each in matters)).__getitem__)
    return [calls[index] for index in sorted(ranked[:_MOST_CALLS])]


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

"""Adds up phases of compiling by name. Comes in: phases of all threads. Goes out: rows of a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoctor.model.picture import Phase


@dataclass
class PhaseRow:
    """All phases of one name in the compiling thread, or in other threads.

    Args:
        name: torch's name.
        is_parallel: They ran in other threads while the compiling one worked or waited for them.
        count: How many there were.
        total_us: Their time; one inside another of the same name is in that one's time.
        own_us: Their time without that of the phases inside them.
    """

    name: str
    is_parallel: bool = False
    count: int = 0
    total_us: float = 0.0
    own_us: float = 0.0


def phase_rows(phases: Iterable[Phase]) -> list[PhaseRow]:
    """Add up phases by name, the longest own time first, and those of other threads last.

    Own times of the compiling thread add up to the time that it compiled.

    Args:
        phases: In the order of their starts in each process.
    """
    rows: dict[tuple[str, bool], PhaseRow] = {}
    open_phases: dict[tuple[str | None, int], list[Phase]] = {}
    for phase in phases:
        if phase.duration_us is None:
            continue
        # Phases of other threads begin in between, and contain none of this one's.
        around = open_phases.setdefault((phase.process, phase.thread), [])
        while around and around[-1].depth >= phase.depth:
            around.pop()
        is_parallel = phase.thread > 0
        row = rows.setdefault((phase.name, is_parallel), PhaseRow(phase.name, is_parallel))
        row.count += 1
        row.own_us += phase.duration_us
        if not any(outer.name == phase.name for outer in around):
            row.total_us += phase.duration_us
        if around:
            rows[around[-1].name, is_parallel].own_us -= phase.duration_us
        around.append(phase)
    return sorted(rows.values(), key=lambda row: (row.is_parallel, -row.own_us))

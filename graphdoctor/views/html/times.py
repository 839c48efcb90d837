"""Adds up phases of compiling. Comes in: phases of all threads. Goes out: rows by name, and the shares of a bar."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from graphdoctor.facts.picture import Phase


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


Part = Literal["tracing", "aot", "backend", "inductor", "compiler"]

_LABELS: dict[Part, str] = {
    "tracing": "tracing (Dynamo)",
    "aot": "AOTAutograd",
    "backend": "backend",
    "inductor": "Inductor",
    "compiler": "kernel compiler",
}

_PARTS: dict[str, Part] = {
    "backend_compile": "backend",
    "create_aot_dispatcher_function": "aot",
    "_recursive_pre_grad_passes": "inductor",
    "_recursive_joint_graph_passes": "inductor",
    "_recursive_post_grad_passes": "inductor",
    "inductor_compile": "inductor",
    "compile_fx_inner": "inductor",
    "fx_codegen_and_compile": "inductor",
    "inductor_codecache_torch_key": "inductor",
    "compile_file": "compiler",
    "async_compile.wait": "compiler",
    "async_compile.precompile": "compiler",
    "triton_compile": "compiler",
}
"""Which part a phase of a name begins, as torch 2.13 names them; a phase inside is of the same part, unless it begins
another."""


@dataclass(frozen=True)
class CompileShare:
    """What one part of torch took of the compile time.

    Args:
        kind: The part.
        us: Its time in the compiling thread, in microseconds.
        share: Of all compile time, 0 to 1.
    """

    kind: Part
    us: float
    share: float

    @property
    def label(self) -> str:
        """Its name for people."""
        return _LABELS[self.kind]


def compile_shares(phases: Iterable[Phase]) -> list[CompileShare]:
    """Divide the compile time among the parts of torch, in their order; parts that took no time are left out.

    Args:
        phases: In the order of their starts in each process.
    """
    totals: dict[Part, float] = dict.fromkeys(_LABELS, 0.0)
    open_phases: dict[str | None, list[tuple[int, Part]]] = {}
    for phase in phases:
        # Other threads work while the compiling one does, or waits.
        if phase.duration_us is None or phase.thread > 0:
            continue
        around = open_phases.setdefault(phase.process, [])
        while around and around[-1][0] >= phase.depth:
            around.pop()
        outer: Part | None = around[-1][1] if around else None
        part = _PARTS.get(phase.name, outer or "tracing")
        totals[part] += phase.duration_us
        if outer is not None:
            totals[outer] -= phase.duration_us
        around.append((phase.depth, part))
    whole = sum(totals.values())
    return [CompileShare(part, us, us / whole) for part, us in totals.items() if us > 0] if whole else []


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

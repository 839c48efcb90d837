"""What the drawings of a page are made of beside facts: graphs, calls and phases, and how tall they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from graphdoctor.facts.base import grouped
from graphdoctor.facts.expressions import expression

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.picture import Phase, Picture
    from graphdoctor.facts.recording import Compile, Graph

_LINE = 18
"""``LINE`` of timeline.js."""
_NAME = 43
"""Of a row's name and the note below it."""
_NARROW_NAME = 27
"""Of both in one line, which on a narrow screen is above the row."""


def graphs_data(
    shown: Sequence[Graph],
    picture: Picture,
    has_details: Callable[[str], bool],
    ends: Mapping[int, str],
) -> dict[str, Any]:
    """The graphs, the largest first, with their inputs in the user's words, and all stages on the
    way to Inductor.
    """
    graphs = [
        {
            "index": graph.index,
            "id": graph.compile_id,
            "name": graph.function,
            "inputs": [
                (
                    item.name,
                    item.source and expression(item.source, graph.resumes_at),
                    item.is_parameter,
                )
                for item in graph.inputs or ()
            ],
            "isLeftOut": not has_details(graph.compile_id),
            # The break at its end.
            "endedBy": None if ends.get(graph.index) in (None, "return") else ends[graph.index],
        }
        for graph in largest_first(shown)
    ]
    return {"graphs": graphs, "stages": picture.graphs, "generated": picture.generated}


def largest_first(graphs: Iterable[Graph]) -> list[Graph]:
    """Graphs by their operations, those of unknown size last."""
    return sorted(
        graphs, key=lambda graph: -1 if graph.op_count is None else graph.op_count, reverse=True
    )


def lanes_data(
    diagnosis: Diagnosis, picture: Picture, compiles: Mapping[int | None, Sequence[Compile]]
) -> dict[str, Any]:
    """The calls as they are, with the worst that happened in each, and the functions of graphs by
    their numbers.
    """
    return {
        "lanes": picture.lanes,
        "fates": [
            None if lane.call_index is None else _fate(compiles.get(lane.call_index, ()))
            for lane in picture.lanes
        ],
        "functions": {str(graph.index): graph.function for graph in diagnosis.recording.graphs},
    }


def _fate(compiles: Sequence[Compile]) -> str | None:
    """The worst that happened in a call; None if nothing did."""
    outcomes = {found.outcome for found in compiles}
    for outcome, word in (
        ("limit", "over the limit"),
        ("failed", "failed"),
        ("skipped", "skipped"),
    ):
        if outcome in outcomes:
            return word
    return (
        "recompiled"
        if any(found.is_recompile and found.outcome == "compiled" for found in compiles)
        else None
    )


# How tall drawings will be, so that a page keeps room for those that are drawn when they come into
# view.


def phases_height(phases: Iterable[Phase]) -> tuple[int, int]:
    """The rows of compiles, which are as deep as their phases are nested."""
    ended = (phase for phase in phases if phase.duration_us is not None)
    depths = grouped(((phase.process, phase.compile_id), phase.depth) for phase in ended)
    return height_of([max(own) - min(own) + 1 for own in depths.values()])


def height_of(depths: Iterable[int]) -> tuple[int, int]:
    """Pixels of rows as deep as these, and those on a narrow screen."""
    bars = [_LINE * depth + 4 for depth in depths]
    return sum(max(bar, _NAME) + 1 for bar in bars), sum(bar + _NARROW_NAME + 1 for bar in bars)


# Phases of compiling, added up.


@dataclass
class PhaseRow:
    """All phases of one name in the compiling thread, or in other threads."""

    name: str
    is_parallel: bool = False
    count: int = 0
    total_us: float = 0.0
    own_us: float = 0.0


PHASE_WORDS = {
    "entire_frame_compile": "compile a function, from its bytecode to its new code",
    "bytecode_tracing": "go through the function's bytecode and record a graph",
    "build_guards": "write the checks that decide when the code can be used again",
    "backend_compile": "the backend compiles the graph",
    "create_aot_dispatcher_function": "AOTAutograd traces forward and backward",
    "inductor_compile": "Inductor turns the graph into kernels",
    "compile_fx_inner": "Inductor looks in its cache, or turns the graph into kernels",
    "fx_codegen_and_compile": "Inductor writes kernels and has them compiled",
    "compile_file": "the C++ compiler builds a kernel",
    "async_compile.wait": "wait for kernels that other processes compile",
    "triton_compile": "Triton compiles a kernel",
    "gc": "collect garbage",
}
"""What phases do, by torch's names (2.13)."""

TorchPart = Literal["tracing", "aot", "backend", "inductor", "compiler"]

_LABELS: dict[TorchPart, str] = {
    "tracing": "tracing (Dynamo)",
    "aot": "AOTAutograd",
    "backend": "backend",
    "inductor": "Inductor",
    "compiler": "kernel compiler",
}

_PARTS: dict[str, TorchPart] = {
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
"""Which part a phase of a name begins, as torch 2.13 names them; a phase inside is of the same
part, unless it begins another."""


def compile_shares(phases: Iterable[Phase]) -> list[tuple[TorchPart, str, float, float]]:
    """Split compile time among the parts of torch, in order: part, name, microseconds, share."""
    totals: dict[TorchPart, float] = dict.fromkeys(_LABELS, 0.0)
    # Other threads work while the compiling one does, or waits.
    for phase, us, around in _nested(phase for phase in phases if not phase.thread):
        totals[_part_of((*around, phase))] += us
        if around:
            totals[_part_of(around)] -= us
    whole = sum(totals.values())
    return (
        [(part, _LABELS[part], us, us / whole) for part, us in totals.items() if us > 0]
        if whole
        else []
    )


def _part_of(phases: Sequence[Phase]) -> TorchPart:
    return next(
        (_PARTS[phase.name] for phase in reversed(phases) if phase.name in _PARTS), "tracing"
    )


def _nested(phases: Iterable[Phase]) -> Iterator[tuple[Phase, float, Sequence[Phase]]]:
    """Each phase with its microseconds and those around it, the outermost first."""
    # Phases of other threads begin in between, and contain none of this one's.
    open_phases: dict[tuple[str | None, int], list[Phase]] = {}
    for phase in phases:
        if phase.duration_us is not None:
            around = open_phases.setdefault((phase.process, phase.thread), [])
            while around and around[-1].depth >= phase.depth:
                around.pop()
            yield phase, phase.duration_us, around
            around.append(phase)


def phase_rows(phases: Iterable[Phase]) -> list[PhaseRow]:
    """Add up phases by name, the longest own time first, and those of other threads last.

    Own times of the compiling thread add up to the time that it compiled.
    """
    rows: dict[tuple[str, bool], PhaseRow] = {}
    for phase, us, around in _nested(phases):
        is_parallel = phase.thread > 0
        row = rows.setdefault((phase.name, is_parallel), PhaseRow(phase.name, is_parallel))
        row.count += 1
        row.own_us += us
        if not any(outer.name == phase.name for outer in around):
            row.total_us += us
        if around:
            rows[around[-1].name, is_parallel].own_us -= us
    return sorted(rows.values(), key=lambda row: (row.is_parallel, -row.own_us))

"""What the drawings of a page are made of: graphs, guards, calls and phases as plain lists, and how tall they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from graphdoctor.facts.expressions import expression
from graphdoctor.views.guards import Part, parts_of

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.guards import GuardSet
    from graphdoctor.facts.picture import Phase, Picture, StageGraph, StageNode
    from graphdoctor.facts.recording import Compile, Graph

Place = Callable[[str | None, int | None], list[Any] | None]
"""Turns a file and a line into ``[file as shown, line, anchor or None]``; None without a file."""
_LINE = 18
"""``LINE`` of timeline.js."""
_NAME = 43
"""Of a row's name and the note below it."""
_NARROW_NAME = 27
"""Of both in one line, which on a narrow screen is above the row."""


def graphs_data(
    diagnosis: Diagnosis, shown: Sequence[Graph], picture: Picture, place: Place, has_details: Callable[[str], bool]
) -> list[dict[str, Any]]:
    """Each graph with its stages on the way to Inductor, the largest first."""
    stages: dict[int | None, list[dict[str, Any]]] = {}
    captured = {graph.index: graph for graph in diagnosis.recording.graphs}
    ends = {report.index: report.ended_by for report in diagnosis.graphs}
    for found in picture.graphs:
        # AOTAutograd and Inductor give inputs other names, and nothing says which of them are parameters.
        graph = captured.get(found.graph_index) if found.graph_index is not None and found.stage == "dynamo" else None
        stages.setdefault(found.graph_index, []).append(_stage(found, place, graph))
    for code in picture.generated:
        generated = {"stage": "generated", "of": code.stage, "code": code.code, "kernels": code.kernels}
        stages.setdefault(code.graph_index, []).append(generated | {"file": code.file})
    return [
        {
            "index": graph.index,
            "id": graph.compile_id,
            "name": graph.function,
            "ended": ends[graph.index],
            "backend": graph.backend,
            "error": graph.backend_error,
            "stages": stages.get(graph.index, []),
            "isLeftOut": not has_details(graph.compile_id),
        }
        for graph in largest_first(shown)
    ]


def largest_first(graphs: Iterable[Graph]) -> list[Graph]:
    """Graphs by their operations, those of unknown size last."""
    return sorted(graphs, key=lambda graph: -1 if graph.op_count is None else graph.op_count, reverse=True)


def _stage(found: StageGraph, place: Place, graph: Graph | None) -> dict[str, Any]:
    names = {node.name: number for number, node in enumerate(found.nodes)}
    inputs = () if graph is None else graph.inputs or ()
    resumes_at = None if graph is None else graph.resumes_at
    return {
        "stage": found.stage,
        "of": found.of,
        "unread": found.unread_lines,
        "code": found.code,
        "nodes": [_node(node, names, place) for node in found.nodes],
        # Inputs in the user's words, by the names of their nodes.
        "labels": {item.name: expression(item.source, resumes_at) for item in inputs if item.source},
        "parameters": [names[item.name] for item in inputs if item.is_parameter and item.name in names],
    }


def _node(node: StageNode, names: dict[str, int], place: Place) -> list[Any]:
    inputs = [names[name] for name in node.inputs if name in names]
    return [node.name, node.opcode, node.target, inputs, node.value, place(node.file, node.line), node.module]


def guards_data(sets: Iterable[GuardSet], place: Place) -> list[dict[str, Any]]:
    """The guards of each compile as a tree of parts."""
    return [
        {"id": found.compile_id, "count": found.guard_count, "parts": [_part(part, place) for part in parts_of(found)]}
        for found in sets
    ]


def _part(part: Part, place: Place) -> dict[str, Any]:
    return {
        "path": part.path,
        "label": part.label,
        "times": part.times,
        "count": part.guard_count,
        "us": part.check_us,
        "guards": [
            [
                guard.kind,
                guard.expression,
                guard.expected,
                guard.guard,
                place(guard.location.file, guard.location.line) if guard.location else None,
                guard.hint,
            ]
            for guard in part.guards
        ],
        "parts": [_part(inner, place) for inner in part.parts],
    }


def by_call(diagnosis: Diagnosis) -> dict[int | None, list[Compile]]:
    """The compiles of each call, by its number."""
    found: dict[int | None, list[Compile]] = {}
    for one in diagnosis.recording.compiles:
        found.setdefault(one.call_index, []).append(one)
    return found


def lanes_data(
    diagnosis: Diagnosis, picture: Picture, compiles: Mapping[int | None, Sequence[Compile]]
) -> dict[str, Any]:
    """The calls as they are, with the worst that happened in each, and the functions of graphs by their numbers."""
    return {
        "lanes": picture.lanes,
        "fates": [
            None if lane.call_index is None else _fate(compiles.get(lane.call_index, ())) for lane in picture.lanes
        ],
        "functions": {str(graph.index): graph.function for graph in diagnosis.recording.graphs},
    }


def _fate(compiles: Sequence[Compile]) -> str | None:
    """The worst that happened in a call; None if nothing did."""
    outcomes = {found.outcome for found in compiles}
    for outcome, word in (("limit", "over the limit"), ("failed", "failed"), ("skipped", "skipped")):
        if outcome in outcomes:
            return word
    is_again = any(found.is_recompile and found.outcome == "compiled" for found in compiles)
    return "recompiled" if is_again else None


# How tall drawings will be, so that a page keeps room for those that are drawn when they come into view.


def phases_height(phases: Iterable[Phase]) -> tuple[int, int]:
    """The rows of compiles, which are as deep as their phases are nested."""
    depths: dict[tuple[str | None, str | None], list[int]] = {}
    for phase in phases:
        if phase.duration_us is not None:
            depths.setdefault((phase.process, phase.compile_id), []).append(phase.depth)
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
"""Which part a phase of a name begins, as torch 2.13 names them; a phase inside is of the same part, unless it begins
another."""


def compile_shares(phases: Iterable[Phase]) -> list[tuple[TorchPart, str, float, float]]:
    """What the parts of torch took of the compile time, in their order: each with its name, microseconds and share."""
    totals: dict[TorchPart, float] = dict.fromkeys(_LABELS, 0.0)
    # Other threads work while the compiling one does, or waits.
    for phase, us, around in _nested(phase for phase in phases if not phase.thread):
        totals[_part_of((*around, phase))] += us
        if around:
            totals[_part_of(around)] -= us
    whole = sum(totals.values())
    return [(part, _LABELS[part], us, us / whole) for part, us in totals.items() if us > 0] if whole else []


def _part_of(phases: Sequence[Phase]) -> TorchPart:
    """What the last of these is of: that which the innermost begins that begins one."""
    return next((_PARTS[phase.name] for phase in reversed(phases) if phase.name in _PARTS), "tracing")


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

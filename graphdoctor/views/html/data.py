"""The data that the page's scripts draw: graphs, guards, calls and phases, as plain lists and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from graphdoctor.facts.expressions import expression
from graphdoctor.views.guard_parts import Part, parts_of

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.guards import GuardSet
    from graphdoctor.facts.picture import GeneratedCode, Lane, Phase, Picture, StageGraph, StageNode
    from graphdoctor.facts.recording import Compile, Graph

Place = Callable[[str | None, int | None], list[Any] | None]
"""Turns a file and a line into ``[file as shown, line, anchor or None]``; None without a file."""


def graphs_data(
    diagnosis: Diagnosis,
    shown: Sequence[Graph],
    picture: Picture,
    place: Place,
    has_details: Callable[[str], bool],
) -> list[dict[str, Any]]:
    """Each graph with its stages on the way to Inductor.

    Args:
        diagnosis: For its graphs.
        shown: Those of them that have a row.
        picture: For their nodes at each stage, and the generated code.
        place: Finds a line in the page.
        has_details: Returns whether the picture has the graphs of a compile.

    Returns:
        One object for each graph, the largest first.
    """
    by_graph: dict[int, list[dict[str, Any]]] = {}
    captured = {graph.index: graph for graph in diagnosis.recording.graphs}
    ends = {report.index: report.ended_by for report in diagnosis.graphs}
    for found in picture.graphs:
        if found.graph_index is not None:
            graph = captured.get(found.graph_index)
            by_graph.setdefault(found.graph_index, []).append(_stage(found, place, graph))
    for code in picture.generated:
        if code.graph_index is not None:
            by_graph.setdefault(code.graph_index, []).append(_generated(code))
    return [
        {
            "index": graph.index,
            "id": graph.compile_id,
            "name": graph.function,
            "ended": ends[graph.index],
            "backend": graph.backend,
            "error": graph.backend_error,
            "stages": by_graph.get(graph.index, []),
        }
        | ({} if has_details(graph.compile_id) else {"isLeftOut": True})
        for graph in largest_first(shown)
    ]


def largest_first(graphs: Iterable[Graph]) -> list[Graph]:
    """Graphs by their operations, those of unknown size last."""
    return sorted(graphs, key=lambda graph: -1 if graph.op_count is None else graph.op_count, reverse=True)


def _labels(graph: Graph) -> dict[str, str]:
    """The inputs of a captured graph in the user's words, by the names of their nodes."""
    return {item.name: expression(item.source, graph.resumes_at) for item in graph.inputs or () if item.source}


def _stage(found: StageGraph, place: Place, report: Graph | None) -> dict[str, Any]:
    names = {node.name: number for number, node in enumerate(found.nodes)}
    # AOTAutograd and Inductor give inputs other names, and nothing says which of them are parameters.
    known = report if found.stage == "dynamo" else None
    inputs = known.inputs or () if known is not None else ()
    return {
        "stage": found.stage,
        "of": found.of,
        "unread": found.unread_lines,
        "code": found.code,
        "nodes": [_node(node, names, place) for node in found.nodes],
        "labels": _labels(known) if known is not None else {},
        "parameters": [names[item.name] for item in inputs if item.is_parameter and item.name in names],
    }


def _node(node: StageNode, names: dict[str, int], place: Place) -> list[Any]:
    inputs = [names[name] for name in node.inputs if name in names]
    return [node.name, node.opcode, node.target, inputs, node.value, place(node.file, node.line), node.module]


def _generated(code: GeneratedCode) -> dict[str, Any]:
    return {"stage": "generated", "of": code.stage, "code": code.code, "kernels": code.kernels, "file": code.file}


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


def lanes_data(diagnosis: Diagnosis, picture: Picture) -> list[dict[str, Any]]:
    """The calls with their segments."""
    compiled = {graph.index: graph for graph in diagnosis.recording.graphs}
    inputs = {call.index: call.inputs for call in diagnosis.recording.calls}

    def named(index: int | None) -> str | None:
        return compiled[index].function if index in compiled else None

    compiles: dict[int | None, list[Compile]] = {}
    for found in diagnosis.recording.compiles:
        compiles.setdefault(found.call_index, []).append(found)
    return [
        _lane(lane, inputs.get(lane.call_index or 0), named) | {"fate": _fate(compiles.get(lane.call_index, []), lane)}
        for lane in picture.lanes
    ]


def _fate(compiles: Sequence[Compile], lane: Lane) -> str | None:
    """The worst that happened in a call; None if nothing did."""
    if lane.call_index is None:
        return None
    outcomes = {found.outcome for found in compiles}
    for outcome, word in (("limit", "over the limit"), ("failed", "failed"), ("skipped", "skipped")):
        if outcome in outcomes:
            return word
    is_again = any(found.is_recompile and found.outcome == "compiled" for found in compiles)
    return "recompiled" if is_again else None


def _lane(lane: Lane, inputs: str | None, named: Callable[[int | None], str | None]) -> dict[str, Any]:
    return {
        "call": lane.call_index,
        "us": lane.duration_us,
        "profiled": lane.is_profiled,
        "hidden": lane.hidden_segments,
        "inputs": inputs,
        "segments": [
            [
                part.kind,
                part.start_us,
                part.end_us,
                part.compile_id,
                part.graph_index,
                named(part.graph_index),
                part.op_count,
                part.op_names,
            ]
            for part in lane.segments
        ],
    }


def phases_data(phases: Iterable[Phase]) -> list[list[Any]]:
    """Phases of compiles, for a flame chart."""
    return [_phase(phase) for phase in phases]


def _phase(phase: Phase) -> list[Any]:
    return [
        phase.name,
        phase.compile_id,
        phase.call_index,
        phase.start_us,
        phase.duration_us,
        phase.depth,
        phase.process,
        phase.thread,
        phase.notes,
    ]

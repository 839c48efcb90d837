"""Follows graphs from Dynamo to Inductor by the order of the log, and reads the code that Inductor
wrote.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import get_args

from graphdoctor.facts.base import values_of
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.picture import (
    FusedKernel,
    GeneratedCode,
    LoweredGraph,
    Stage,
    StageGraph,
    StageNode,
    kernel_sources,
)
from graphdoctor.facts.recording import Frame, Graph, GraphNode, Recording
from graphdoctor.facts.stack import parsed
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.inductor import LIBRARY
from graphdoctor.trace.origin import Origins, is_probe
from graphdoctor.trace.printed_graph import PrintedGraph, dotted_path, parse_graph, short_target
from graphdoctor.trace.sections import Collector, Text

_STAGES: dict[str, Stage] = {
    "aot_joint_graph": "joint",
    "aot_forward_graph": "forward",
    "aot_backward_graph": "backward",
    "aot_inference_graph": "inference",
    "inductor_post_grad_graph": "post_grad",
}
_CODE = "inductor_output_code"
_DYNAMO = ("dynamo_output_graph", "graphdoctor_graph")
_INDUCTOR = "graphdoctor_inductor_graph"
_PROVENANCE = "inductor_provenance_tracking_node_mappings"
_AOT_ID = re.compile(rf"^# AOT ID: \[.*'\d+_({'|'.join(get_args(LoweredGraph))})'\]", re.MULTILINE)
"""First line of generated code (``write_header``, ``torch/_inductor/codegen/wrapper.py``, 2.13)."""
_MODULE_NUMBER = re.compile(r"\.(\d[^.\[\]]*)")
_BENCHMARKS = frozenset({"benchmark_compiled_module", "get_args"})


@dataclass
class _Seen(Text):
    compile_id: str | None
    stage: Stage | None
    graph: int | None
    file: str | None = None
    of: LoweredGraph | None = None
    fused: tuple[FusedKernel, ...] | None = None
    lowered_from: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Stages(Collector):
    """Collects the records of graphs in the order of the log."""

    KINDS = frozenset({*_DYNAMO, _CODE, *_STAGES, _PROVENANCE, _INDUCTOR})

    def _clear(self) -> None:
        # Dynamo's graphs as their numbers in the order of the log, as in Recording.graphs; the
        # others as they are.
        self._seen: list[int | _Seen] = []
        self._last_graph: dict[str | None, int] = {}
        self._has_backward: dict[str | None, bool] = {}
        self._unlowered: dict[str | None, _Seen] = {}
        self._last_code: dict[str | None, _Seen] = {}
        self._fused: dict[str | None, tuple[FusedKernel, ...]] = {}

    def add(self, record: Record) -> None:
        """See ``Collector``."""
        compile_id = record.compile_id
        is_kept = self._keeps(compile_id)
        if record.is_extra or not (is_kept or record.kind in _DYNAMO):
            return
        if record.kind in _DYNAMO:
            index = record.graph_index
            # Our record describes the same graph as torch's record right before it, if any.
            if index is None or self._last_graph.get(compile_id) == index:
                return
            if is_kept:
                self._seen.append(index)
                if self._details is not None:
                    self._details.hold(compile_id, Text(record.payload))
            self._last_graph[compile_id] = index
            self._has_backward.pop(compile_id, None)
        elif record.kind == _INDUCTOR:
            value = record.json()
            names = [operation["name"] for operation in value["operations"]]
            self._fused[compile_id] = tuple(
                FusedKernel(
                    name=kernel["name"],
                    nodes=tuple(names[number] for number in kernel["operations"]),
                )
                for kernel in value["kernels"]
            )
        elif record.kind == _PROVENANCE:
            # It comes after the generated code that it is about; without a payload if that is from
            # a cache.
            code = self._last_code.get(compile_id)
            mappings = record.json()
            if code is not None and mappings:
                sources = mappings.get("preToPost", {})
                code.lowered_from = {name: tuple(nodes) for name, nodes in sources.items()}
        elif record.payload is not None:
            self._add_lowered(record, record.payload)

    def _add_lowered(self, record: Record, text: str) -> None:
        compile_id = record.compile_id
        seen = _Seen(text, compile_id, _STAGES.get(record.kind), self._last_graph.get(compile_id))
        self._seen.append(seen)
        if self._details is not None:
            self._details.hold(compile_id, seen)
        if seen.stage == "post_grad":
            self._unlowered[compile_id] = seen
            # Known before there is code; there may never be any.
            seen.of = "inference" if self._has_backward.get(compile_id) is False else None
        elif seen.stage is not None:
            self._has_backward[compile_id] = (
                self._has_backward.get(compile_id, False) or seen.stage != "inference"
            )
        else:
            seen.file = record.value.get("filename") if isinstance(record.value, dict) else None
            match = _AOT_ID.search(text)
            seen.of = match[1] if match else None  # type: ignore[assignment]
            seen.fused = self._fused.pop(compile_id, None)
            self._last_code[compile_id] = seen
            # Inductor logs a graph and then its code, for one graph of a compile after another.
            lowered = self._unlowered.pop(compile_id, None)
            if lowered is not None and seen.of is not None:
                lowered.of = seen.of

    def graphs(self, recording: Recording, first_index: int) -> Iterator[StageGraph]:
        """The graphs in the order of the log, numbered from the recording's first on."""
        origins = Origins(recording.environment)
        frames = recording.frames_by_compile()
        dynamo_graphs = recording.graphs
        for seen in self._seen:
            if isinstance(seen, int):
                graph = dynamo_graphs[seen] if seen < len(dynamo_graphs) else None
                if graph is not None and self._keeps(graph.compile_id):
                    frame = frames.get(graph.compile_id)
                    yield _dynamo_graph(graph, first_index + seen, frame, origins)
            elif seen.stage is not None and seen.text is not None:
                printed = parse_graph(seen.text, _named_by(origins))
                yield StageGraph(
                    **values_of(seen, "compile_id", "stage", "of"),
                    graph_index=_index(recording, first_index, seen.graph),
                    nodes=printed.nodes,
                    unread_lines=printed.unread_lines,
                    code=seen.text,
                )

    def generated(self, recording: Recording, first_index: int) -> Iterator[GeneratedCode]:
        """The generated code in the order of the log."""
        for seen in self._seen:
            if isinstance(seen, _Seen) and seen.stage is None and seen.text is not None:
                yield GeneratedCode(
                    **values_of(seen, "compile_id", "file", "fused", "lowered_from"),
                    stage=seen.of,
                    graph_index=_index(recording, first_index, seen.graph),
                    kernels=kernels_of(seen.text),
                    code=seen.text,
                )


def _index(recording: Recording, first_index: int, number: int | None) -> int | None:
    return first_index + number if number is not None and number < len(recording.graphs) else None


def _dynamo_graph(graph: Graph, index: int, frame: Frame | None, origins: Origins) -> StageGraph:
    printed = PrintedGraph(())
    if graph.nodes is not None and all(node.inputs is not None for node in graph.nodes):
        words = _module_words(frame)
        printed = PrintedGraph(tuple(_recorded_node(node, words) for node in graph.nodes))
    elif graph.code is not None:
        printed = parse_graph(graph.code, _named_by(origins))
    return StageGraph(
        compile_id=None if graph.compile_id == "?" else graph.compile_id,
        stage="dynamo",
        graph_index=index,
        nodes=printed.nodes,
        unread_lines=printed.unread_lines,
        code=graph.code,
    )


def _recorded_node(node: GraphNode, words: Callable[[str], str]) -> StageNode:
    arguments = ", ".join(filter(None, (node.args, node.kwargs)))
    fields = values_of(node, "name", "opcode", "value", "file", "line")
    target = short_target(node.target)
    return StageNode(
        **fields,
        target="" if node.opcode == "output" else target,
        inputs=node.inputs or (),
        text=f"{target}({arguments})" if node.opcode.startswith("call_") else None,
        module=None if node.module is None else words(node.module),
    )


def _module_words(frame: Frame | None) -> Callable[[str], str]:
    """Returns what words a module's path as guards do: ``L['self'].blocks.0.lin`` is
    ``self.blocks[0].lin``.
    """
    # If the root's class is torch's own, torch compiles a wrapper that gets the root as an argument
    # (``torch/_dynamo/external_utils.py``, 2.13).
    is_wrapped = frame is not None and frame.code_name == "inner" and frame.origin == "torch"
    resumes_at = None if frame is None else frame.resumes_at

    @cache
    def words(path: str) -> str:
        source = path.replace("L['fn']", "L['self']", 1) if is_wrapped else path
        return _MODULE_NUMBER.sub(r"[\1]", expression(source, resumes_at))

    return words


def _named_by(origins: Origins) -> Callable[[str], bool]:
    return lambda file: origins.of(file)[0] in ("user", "third_party") and not is_probe(file)


def kernels_of(code: str) -> tuple[str, ...]:
    """Names of the kernels that generated code defines, then of the library functions it calls."""
    module = parsed(code)
    if module is None:
        return ()
    names = [name for name, _ in kernel_sources(code, module)]
    names += (name for name in _calls(module) if name.startswith(LIBRARY))
    return tuple(dict.fromkeys(names))


def _calls(module: ast.Module) -> Iterator[str]:
    waiting: list[ast.AST] = [module]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef) and node.name in _BENCHMARKS:
            continue
        if isinstance(node, ast.Call) and (path := dotted_path(node.func)) is not None:
            yield ".".join(path)
        waiting += reversed(list(ast.iter_child_nodes(node)))

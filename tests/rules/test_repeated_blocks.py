"""GD401: modules that repeat within one graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.recording import BlockEntry, Graph, GraphNode, RepeatedBlocks, TargetInfo
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from tests.each import for_each
from tests.factories import compiled, frame, graph, recording


def blocks(
    *paths: str,
    class_name: str = "Layer",
    kinds: int = 1,
    compiled_as: BlockEntry = "module",
    container: str | None = "layers",
) -> RepeatedBlocks:
    return RepeatedBlocks(class_name=class_name, paths=paths, kinds=kinds, compiled_as=compiled_as, container=container)


LAYERS = tuple(f"layers.{index}" for index in range(4))
FOUR = blocks(*LAYERS)


def graph_of(ops: Mapping[str | None, int], *, index: int = 0, root: str = "L['self']") -> Graph:
    """A graph with so many operations in each module; None for what is in no module."""
    paths = [path for path, count in ops.items() for _ in range(count)]
    nodes = tuple(
        GraphNode(
            name=f"sin_{number}",
            opcode="call_method",
            target="sin",
            args="",
            kwargs="",
            module=None if path is None else f"{root}.{path}".removesuffix("."),
        )
        for number, path in enumerate(paths)
    )
    return graph(f"0/{index}", index=index).model_copy(update={"nodes": nodes, "op_count": len(nodes)})


def findings(
    *graphs: Graph,
    known: tuple[RepeatedBlocks, ...] | None = (FOUR,),
    arguments: Mapping[str, object] | None = None,
    is_regional: bool = False,
) -> list[Finding]:
    target = TargetInfo(
        text="model.py",
        name="Net",
        kind="module class",
        class_name="Net",
        blocks=known,
        is_regional=is_regional,
        compile_arguments=dict(arguments or {"backend": "eager", "mode": None, "fullgraph": False, "options": {}}),
    )
    compiles = tuple(compiled(found.compile_id) for found in graphs)
    facts = recording(graphs=graphs, compiles=compiles, frames=(frame(),)).model_copy(update={"target": target})
    found = diagnose(facts, RULES, root=Path("/project"), version="0").findings
    return [finding for finding in found if finding.code == "GD401"]


def even(count: int, *, rest: int = 0, paths: tuple[str, ...] = LAYERS) -> dict[str | None, int]:
    return {**{f"{path}.linear": count for path in paths}, None: rest}


def test_layers_that_make_up_a_graph_are_found_with_the_loop_that_compiles_each() -> None:
    (finding,) = findings(graph_of(even(40, rest=10)))
    assert finding.message == (
        "`Net` has 4 `Layer` modules in one graph of 170 operations, compiled in 0.2 s; torch could compile "
        "one and share it"
    )
    (fix,) = finding.fixes
    assert fix.snippet == "for block in model.layers:\n    block.compile()"
    assert (fix.kind, fix.is_safe, fix.place and fix.place.where) == ("call", True, "compile_call")


@for_each("ops", [even(30), even(40, rest=200), {"layers.0": 400}, {"layersX.0": 100, "layers.01": 300}, {}])
def test_nothing_is_said_where_little_could_be_shared(ops: dict[str | None, int]) -> None:
    assert findings(graph_of(ops)) == []


def test_layers_in_graphs_of_their_own_are_shared_already() -> None:
    assert findings(*(graph_of({f"layers.{index}": 200}, index=index) for index in range(4))) == []


def test_a_regional_run_and_an_unknown_or_plain_module_have_nothing_to_share() -> None:
    ops = graph_of(even(40))
    assert findings(ops, is_regional=True) == []
    assert findings(ops, known=None) == []
    assert findings(ops, known=()) == []


def test_layers_of_several_kinds_share_less() -> None:
    assert findings(graph_of(even(40)), known=(blocks(*LAYERS, kinds=4),)) == []
    assert findings(graph_of(even(40)), known=(blocks(*LAYERS, kinds=2),)) == []
    (finding,) = findings(graph_of(even(60)), known=(blocks(*LAYERS, kinds=2),))
    assert "torch could compile one of each kind and share it" in finding.message


@for_each("update", [{"args": "sin_9, {}"}, {"value": "f32[{}]"}, {"target": "sin{}"}])
def test_layers_that_differ_in_a_number_a_size_or_an_operation_share_nothing(update: dict[str, str]) -> None:
    plain = graph_of(even(40))
    assert plain.nodes is not None
    nodes = [
        node.model_copy(update={name: text.format(number // 40) for name, text in update.items()})
        for number, node in enumerate(plain.nodes)
    ]
    assert findings(plain.model_copy(update={"nodes": tuple(nodes)})) == []


def test_the_names_of_what_goes_into_an_operation_are_no_difference() -> None:
    plain = graph_of(even(40))
    assert plain.nodes is not None
    nodes = [node.model_copy(update={"args": f"sin_{number}, 2"}) for number, node in enumerate(plain.nodes)]
    assert findings(plain.model_copy(update={"nodes": tuple(nodes)}))


def test_encoder_and_decoder_layers_are_named_together() -> None:
    others = tuple(f"decoder.{index}" for index in range(3))
    known = (FOUR, blocks(*others, class_name="make.<locals>.Other", container=None, compiled_as="forward"))
    (finding,) = findings(graph_of({**even(40), **even(40, paths=others)}), known=known)
    assert "has 4 `Layer` and 3 `Other` modules in one graph" in finding.message
    assert finding.fixes[0].snippet == (
        "for block in model.layers:\n    block.compile()\n"
        'for block in model.modules():\n    if type(block).__name__ == "Other":\n'
        "        block.forward = torch.compile(block.forward)"
    )


def test_the_run_s_arguments_are_in_the_loop_and_a_list_in_a_list_is_counted() -> None:
    known = (blocks("0.1.0", "0.1.1", "0.1.2", container="0.1"),)
    arguments = {"backend": "inductor", "mode": "max-autotune", "dynamic": True, "fullgraph": False, "options": {}}
    ops = {f"0.1.{index}": 60 for index in range(3)}
    (finding,) = findings(graph_of(ops, root="L['model']"), known=known, arguments=arguments)
    assert finding.fixes[0].snippet == (
        "for block in model[0][1]:\n    block.compile(mode='max-autotune', dynamic=True)"
    )

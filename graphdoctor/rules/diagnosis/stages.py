"""Stages of the compiler for each graph: a recording with its picture in, ``GraphStages`` out.

From Dynamo's graph to AOTAutograd's, torch's own mapping of nodes says what came of an operation;
where torch notes none, operations of one line of the program belong together. From there on nodes
keep their names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from graphdoctor.facts.base import grouped
from graphdoctor.facts.picture import (
    GeneratedCode,
    GraphStages,
    LinePlace,
    LoweredGraph,
    Picture,
    SavedValue,
    SourceLine,
    StageChange,
    StageGraph,
    StageKernel,
    StageNode,
    StageReport,
)
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.spec import StageName
from graphdoctor.facts.stack import relative

_LOWERED: tuple[LoweredGraph, ...] = ("inference", "forward", "backward")
_ITEM = "operator.getitem"
"""Takes one of several results; it is no operation of its own in what changed."""
_OF_PYTHON = ("torch.", "operator.", "builtins.", "math.")
_NAMELESS = ("aten", "prims")
"""Namespaces of operators that go without saying."""

_Nodes = Sequence[StageNode]
_Group = tuple[list[StageNode], list[StageNode]]
"""Operations that belong together, before and after."""


def graph_stages(recording: Recording, picture: Picture, root: Path) -> tuple[GraphStages, ...]:
    """Return each graph with its stages, in the order in which Dynamo captured them.

    Args:
        recording: Says which function each graph is of.
        picture: The graphs, stage by stage, and what was generated for them.
        root: Paths below it are shown relative to it.
    """
    frames = recording.frames_by_compile()
    texts = {
        relative(source.file, root): source.text.splitlines()
        for source in picture.files
        if source.text is not None
    }
    graphs = grouped((_key(graph), _with_relative_files(graph, root)) for graph in picture.graphs)
    codes = grouped((_key(code), code) for code in picture.generated)
    shown = []
    for key, stages in graphs.items():
        first = stages[0]
        frame = frames.get(first.compile_id or "")
        # What was compiled as one: DDP's optimizer cuts one graph of Dynamo's into several.
        by_stage = grouped(((graph.stage, graph.of), graph) for graph in stages).values()
        by_code = grouped((code.stage, code) for code in codes.get(key, ())).values()
        part_count = max(*map(len, by_stage), *map(len, by_code), 0)
        reports = (
            report
            for part in range(part_count)
            for report in _reports(
                [alike[part] for alike in by_stage if part < len(alike)],
                [alike[part] for alike in by_code if part < len(alike)],
                is_only=part_count == 1,
            )
        )
        places = _places(node for graph in stages for node in graph.nodes)
        lines = (
            SourceLine(file=place.file, line=place.line, text=text[place.line - 1].strip())
            for place in sorted(places, key=lambda place: (place.file, place.line))
            if 0 < place.line <= len(text := texts.get(place.file, []))
        )
        shown.append(
            GraphStages(
                compile_id=first.compile_id,
                graph_index=first.graph_index,
                function="?" if frame is None else frame.described,
                place=None
                if frame is None
                else LinePlace(file=relative(frame.file, root), line=frame.line),
                stages=tuple(reports),
                lines=tuple(lines),
            )
        )
    return tuple(shown)


def _key(stage: StageGraph | GeneratedCode) -> object:
    return stage.compile_id if stage.graph_index is None else stage.graph_index


def _with_relative_files(graph: StageGraph, root: Path) -> StageGraph:
    nodes = (
        node if node.file is None else node.replace(file=relative(node.file, root))
        for node in graph.nodes
    )
    return graph.replace(nodes=tuple(nodes))


def _reports(
    graphs: Iterable[StageGraph], codes: Iterable[GeneratedCode], *, is_only: bool
) -> Iterator[StageReport]:
    """Yield the stages of one graph in the order in which torch makes them.

    Args:
        graphs: It, stage by stage.
        codes: What was generated for it.
        is_only: Nothing else was compiled for the same graph of Dynamo's.
    """
    stages = {(graph.stage, graph.of): graph for graph in graphs}
    generated = {code.stage: code for code in codes}
    dynamo, joint = stages.get(("dynamo", None)), stages.get(("joint", None))
    forward, backward = stages.get(("forward", None)), stages.get(("backward", None))

    def since_dynamo(report: StageReport, nodes: _Nodes, of: LoweredGraph | None) -> StageReport:
        if dynamo is None or not is_only:
            return report
        links = generated[of].lowered_from if of in generated else {}
        return _compared(report, "dynamo", dynamo.nodes, nodes, links)

    if dynamo is not None:
        yield _report("dynamo", dynamo)
    if joint is not None:
        # The partitioner picks nodes of the joint graph, and they keep their names.
        picked = _names(joint if forward is None else forward)
        ahead = [node for node in joint.nodes if node.name in picked]
        of: LoweredGraph | None = None if forward is None else "forward"
        report = since_dynamo(_report("joint", joint), ahead, of)
        if forward is not None and backward is not None:
            back = _names(backward) - picked
            count = sum(node.name in back for node in _operations(joint.nodes))
            report = report.replace(of_backward=count)
        yield report
    for of in (*_LOWERED, None):
        graph, post_grad = of and stages.get((of, None)), stages.get(("post_grad", of))
        if graph is not None and of == "inference":
            yield since_dynamo(_report(of, graph), graph.nodes, of)
        elif graph is not None and of is not None:
            yield _half(_report(of, graph), graph, joint, forward, backward)
        if post_grad is not None:
            report = _report("post-grad", post_grad, of)
            # The parts of a graph may be compiled for the backward in another order.
            if of is not None and graph is not None and (of != "backward" or is_only):
                same = {name: [name] for name in _names(graph)}
                report = _compared(report, of, graph.nodes, post_grad.nodes, same)
            yield report
        if of in generated:
            yield _fusion(generated[of], post_grad)


def _report(stage: StageName, graph: StageGraph, of: LoweredGraph | None = None) -> StageReport:
    return StageReport(
        stage=stage,
        of=of,
        operations=len(_operations(graph.nodes)),
        nodes=graph.nodes,
        unread_lines=graph.unread_lines,
        code=graph.code,
    )


def _half(
    report: StageReport,
    graph: StageGraph,
    joint: StageGraph | None,
    forward: StageGraph | None,
    backward: StageGraph | None,
) -> StageReport:
    """Add to the report on the forward or the backward graph what it has of the joint graph and of
    the other half.
    """
    if joint is not None:
        names = _names(joint)
        kept = sum(node.name in names for node in _operations(graph.nodes))
        report = report.replace(compared_with="joint", kept=kept)
    if forward is None or backward is None:
        return report
    computed = {node.name: node for node in forward.nodes}
    if graph is backward:
        again = [node for node in _operations(backward.nodes) if node.name in computed]
        return report.replace(recomputed=_words(again))
    taken = (computed.get(node.name) for node in backward.nodes if node.opcode == "placeholder")
    saved = (
        SavedValue(name=node.name, value=node.value, is_input=node.opcode == "placeholder")
        for node in taken
        if node is not None
    )
    left = _names(forward) | _names(backward)
    lost = (node for node in _operations(joint.nodes if joint else ()) if node.name not in left)
    return report.replace(saved=tuple(saved), changes=_changes(([node], []) for node in lost))


def _compared(
    report: StageReport,
    name: StageName,
    before: _Nodes,
    after: _Nodes,
    links: Mapping[str, Sequence[str]],
) -> StageReport:
    """Add to a report what changed since the stage of that name."""
    kept, changed = 0, []
    for group in _groups(_computing(before), _computing(after), links):
        if _words(group[0]) == _words(group[1]):
            kept += len(group[0])
        else:
            changed.append(group)
    return report.replace(compared_with=name, kept=kept, changes=_changes(changed))


def _fusion(code: GeneratedCode, post_grad: StageGraph | None) -> StageReport:
    nodes = {node.name: node for node in post_grad.nodes} if post_grad is not None else {}
    order = {name: number for number, name in enumerate(nodes)}
    kernels = []
    for fused in code.fused or ():
        names = sorted(fused.nodes, key=lambda name: order.get(name, len(order)))
        computed = [nodes[name] for name in names if name in nodes]
        kernels.append(
            StageKernel(
                name=fused.name,
                nodes=tuple(names),
                operations=_words(_computing(computed)),
                places=_places(computed),
            )
        )
    in_kernels = {name for kernel in kernels for name in kernel.nodes}
    unfused = (node for node in _computing(nodes.values()) if node.name not in in_kernels)
    is_noted = code.fused is not None
    return StageReport(
        stage="fusion",
        of=code.stage,
        compared_with="post-grad" if post_grad is not None else None,
        operations=len(kernels) if is_noted else None,
        kernels=tuple(kernels) if is_noted else None,
        unfused=_words(unfused) if is_noted and post_grad is not None else None,
        kernel_names=code.kernels,
        file=code.file,
        code=code.code,
    )


def _groups(before: _Nodes, after: _Nodes, links: Mapping[str, Sequence[str]]) -> Iterable[_Group]:
    """Group operations and what became of them, in the order of the graphs.

    Linked ones belong together, unless they are from different lines: a link is to what is left
    after later passes, which also put other operations' results in an operation's place. An
    operation without a link belongs to one of the same name in its line. Others belong to those of
    the same line that nothing links either, and else to what else became of the line, if that is
    one group.
    """
    # By identity: two nodes can be equal.
    groups = {id(node): [id(node)] for node in (*before, *after)}

    def join(node: StageNode, other: StageNode) -> None:
        first, second = groups[id(node)], groups[id(other)]
        if first is not second:
            first += second
            groups.update(dict.fromkeys(second, first))

    by_name = {node.name: node for node in after}
    mapped = [
        (node, by_name[name])
        for node in before
        for name in links.get(node.name, ())
        if name in by_name and (name == node.name or _line(by_name[name]) == _line(node))
    ]
    sources = grouped((id(result), node) for node, result in mapped)
    named = {id(node) for node, _ in mapped}
    waiting = grouped(
        ((_line(node), _operation_name(node)), node)
        for node in before
        if id(node) not in named and node.file is not None
    )
    linked: set[int] = set()
    for node in after:
        if alike := waiting.get((_line(node), _operation_name(node))):
            sources[id(node)] = [alike.pop(0)]
        for source in sources.get(id(node), ()):
            join(source, node)
            linked |= {id(source), id(node)}
    before_at = grouped((_line(node), node) for node in before if node.file is not None)
    left = grouped((_line(node), node) for node in after if id(node) not in linked)
    for line, nodes in left.items():
        in_line = before_at.get(line, [])
        free = [node for node in in_line if id(node) not in linked]
        if free or len({id(groups[id(node)]) for node in in_line}) == 1:
            for node in (*free, *nodes):
                join((free or in_line)[0], node)
    members: dict[int, _Group] = {}
    for side, of_side in enumerate((before, after)):
        for node in of_side:
            members.setdefault(id(groups[id(node)]), ([], []))[side].append(node)
    return members.values()


def _changes(groups: Iterable[_Group]) -> tuple[StageChange, ...]:
    return tuple(
        StageChange(
            before=before,
            after=after,
            count=sum(count for count, _ in equal),
            places=_places(node for _, nodes in equal for node in nodes),
        )
        for (before, after), equal in grouped(map(_repeated, groups)).items()
    )


def _repeated(
    group: _Group,
) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], tuple[int, list[StageNode]]]:
    """Return the words of a change, with how often it happens, and its nodes: a line that runs
    several times changes in the same way each time.
    """
    nodes = [*group[0], *group[1]]
    before, after = _words(group[0]), _words(group[1])
    for count in range(math.gcd(len(before), len(after)), 1, -1):
        first, then = before[: len(before) // count], after[: len(after) // count]
        if first * count == before and then * count == after:
            return (first, then), (count, nodes)
    return (before, after), (1, nodes)


def _places(nodes: Iterable[StageNode]) -> tuple[LinePlace, ...]:
    lines = dict.fromkeys(map(_line, nodes))
    return tuple(
        LinePlace(file=file, line=line)
        for file, line in lines
        if file is not None and line is not None
    )


def _line(node: StageNode) -> tuple[str | None, int | None]:
    return node.file, node.line


def _names(graph: StageGraph) -> set[str]:
    return {node.name for node in graph.nodes}


def _operations(nodes: Iterable[StageNode]) -> list[StageNode]:
    return [node for node in nodes if node.opcode.startswith("call_")]


def _computing(nodes: Iterable[StageNode]) -> list[StageNode]:
    return [node for node in _operations(nodes) if node.target != _ITEM]


def _words(nodes: Iterable[StageNode]) -> tuple[str, ...]:
    return tuple(map(_operation_name, nodes))


def _operation_name(node: StageNode) -> str:
    """Return what people call an operation: ``layer_norm``, ``mm``, ``view``; with its namespace
    unless it is torch's.
    """
    if node.opcode == "call_module":
        return node.target
    parts = node.target.split(".")
    if node.opcode == "call_method" or len(parts) == 1 or node.target.startswith(_OF_PYTHON):
        return parts[-1]
    return parts[1] if parts[0] in _NAMELESS else ".".join(parts[:2])

"""Stages of the compiler for each graph: a recording with its picture in, ``GraphStages`` out.

From Dynamo's graph to AOTAutograd's, torch's own mapping of nodes says what came of an operation;
where torch notes none, operations of one line of the program belong together. From there on nodes
keep their names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from graphdoctor.facts.recording import Frame, Recording
from graphdoctor.facts.spec import StageName
from graphdoctor.facts.stack import relative

_LOWERED: tuple[LoweredGraph, ...] = ("inference", "forward", "backward")
_ITEM = "operator.getitem"
"""Takes one of several results; it is no operation of its own in what changed."""
_OF_PYTHON = ("torch.", "operator.", "builtins.", "math.")
_NAMELESS = ("aten", "prims")
"""Namespaces of operators that go without saying."""

Links = Mapping[str, Sequence[str]]
"""Names of nodes at a stage, and of those that came of each at the next."""


def graph_stages(recording: Recording, picture: Picture, root: Path) -> tuple[GraphStages, ...]:
    """Return each graph with its stages, in the order in which Dynamo captured them."""
    frames = recording.frames_by_compile()
    texts = {
        source.file: source.text.splitlines() for source in picture.files if source.text is not None
    }
    graphs = grouped((_key(graph), graph) for graph in picture.graphs)
    codes = grouped((_key(code), code) for code in picture.generated)
    return tuple(
        _graph(of_graph, codes.get(key, []), frames.get(of_graph[0].compile_id or ""), texts, root)
        for key, of_graph in graphs.items()
    )


def _key(stage: StageGraph | GeneratedCode) -> object:
    return stage.compile_id if stage.graph_index is None else stage.graph_index


def _graph(
    graphs: Sequence[StageGraph],
    codes: Sequence[GeneratedCode],
    frame: Frame | None,
    texts: Mapping[str, Sequence[str]],
    root: Path,
) -> GraphStages:
    parts = list(_parts(graphs, codes))
    stages = tuple(
        report for part in parts for report in _Reports(*part, root, is_only=len(parts) == 1).all()
    )
    places = {(node.file, node.line) for graph in graphs for node in graph.nodes}
    lines = (
        SourceLine(file=relative(file, root), line=line, text=texts[file][line - 1].strip())
        for file, line in sorted(
            (file, line) for file, line in places if file is not None and line is not None
        )
        if 0 < line <= len(texts.get(file, ()))
    )
    return GraphStages(
        compile_id=graphs[0].compile_id,
        graph_index=graphs[0].graph_index,
        function="?" if frame is None else frame.described,
        place=None
        if frame is None
        else LinePlace(file=relative(frame.file, root), line=frame.line),
        stages=stages,
        lines=tuple(lines),
    )


def _parts(
    graphs: Sequence[StageGraph], codes: Sequence[GeneratedCode]
) -> Iterator[tuple[list[StageGraph], list[GeneratedCode]]]:
    """Yield what was compiled as one: DDP's optimizer cuts one graph of Dynamo's into several."""
    by_stage = grouped(((graph.stage, graph.of), graph) for graph in graphs)
    by_code = grouped((code.stage, code) for code in codes)
    count = max(*map(len, by_stage.values()), *map(len, by_code.values()), 0)
    for number in range(count):
        yield (
            [alike[number] for alike in by_stage.values() if number < len(alike)],
            [alike[number] for alike in by_code.values() if number < len(alike)],
        )


class _Reports:
    """Reports on the stages of one graph.

    Args:
        graphs: It, stage by stage.
        codes: What was generated for it.
        root: Paths below it are shown relative to it.
        is_only: Nothing else was compiled for the same graph of Dynamo's.
    """

    def __init__(
        self,
        graphs: Sequence[StageGraph],
        codes: Sequence[GeneratedCode],
        root: Path,
        *,
        is_only: bool,
    ) -> None:
        self._is_only = is_only
        self._by_stage = {graph.stage: graph for graph in graphs if graph.stage != "post_grad"}
        self._post_grad = {graph.of: graph for graph in graphs if graph.stage == "post_grad"}
        self._codes = {code.stage: code for code in codes}
        self._root = root

    def all(self) -> Iterator[StageReport]:
        """Its stages in the order in which torch makes them."""
        dynamo, joint = self._by_stage.get("dynamo"), self._by_stage.get("joint")
        if dynamo is not None:
            yield self._report("dynamo", dynamo)
        if joint is not None:
            yield self._joint(joint)
        for of in (*_LOWERED, None):
            graph = None if of is None else self._by_stage.get(of)
            if of is not None and graph is not None:
                yield self._lowered(of, graph)
            post_grad = self._post_grad.get(of)
            if post_grad is not None:
                yield self._compared(
                    self._report("post-grad", post_grad, of), post_grad, of or "post-grad", graph
                )
            if (code := self._codes.get(of)) is not None:
                yield self._fusion(code, post_grad)

    def _report(
        self, stage: StageName, graph: StageGraph, of: LoweredGraph | None = None
    ) -> StageReport:
        return StageReport(
            stage=stage,
            of=of,
            operations=len(_operations(graph.nodes)),
            nodes=tuple(self._shown(node) for node in graph.nodes),
            unread_lines=graph.unread_lines,
            code=graph.code,
        )

    def _shown(self, node: StageNode) -> StageNode:
        return node if node.file is None else node.replace(file=relative(node.file, self._root))

    def _joint(self, joint: StageGraph) -> StageReport:
        report = self._report("joint", joint)
        forward = self._by_stage.get("forward")
        if forward is None:
            return self._from_dynamo(report, joint.nodes, None)
        # The partitioner picks nodes of the joint graph, and they keep their names.
        own = {node.name for node in forward.nodes}
        ahead = [node for node in joint.nodes if node.name in own]
        backward = self._by_stage.get("backward")
        back = set() if backward is None else {node.name for node in backward.nodes} - own
        of_backward = sum(node.name in back for node in _operations(joint.nodes))
        return self._from_dynamo(report, ahead, "forward").replace(
            of_backward=None if backward is None else of_backward
        )

    def _lowered(self, of: LoweredGraph, graph: StageGraph) -> StageReport:
        report = self._report(of, graph)
        if of == "inference":
            return self._from_dynamo(report, graph.nodes, of)
        joint, forward, backward = (
            self._by_stage.get(stage) for stage in ("joint", "forward", "backward")
        )
        if joint is not None:
            names = {node.name for node in joint.nodes}
            kept = sum(node.name in names for node in _operations(graph.nodes))
            report = report.replace(compared_with="joint", kept=kept)
        if forward is None or backward is None:
            return report
        computed = {node.name: node for node in forward.nodes}
        if of == "backward":
            again = [node for node in _operations(backward.nodes) if node.name in computed]
            return report.replace(recomputed=_words(again))
        saved = (computed.get(node.name) for node in backward.nodes if node.opcode == "placeholder")
        values = tuple(
            SavedValue(name=node.name, value=node.value, is_input=node.opcode == "placeholder")
            for node in saved
            if node is not None
        )
        gone = {node.name for graph in (forward, backward) for node in graph.nodes}
        lost = [node for node in _operations(joint.nodes if joint else ()) if node.name not in gone]
        changes = tuple(self._changes([([node], []) for node in lost]))
        return report.replace(saved=values, changes=changes)

    def _from_dynamo(
        self, report: StageReport, nodes: Sequence[StageNode], of: LoweredGraph | None
    ) -> StageReport:
        dynamo = self._by_stage.get("dynamo")
        if dynamo is None or not self._is_only:
            return report
        code = self._codes.get(of)
        return self._with_changes(
            report, "dynamo", dynamo.nodes, nodes, code.lowered_from if code else {}
        )

    def _compared(
        self, report: StageReport, graph: StageGraph, name: StageName, before: StageGraph | None
    ) -> StageReport:
        # The parts of a graph may be compiled for the backward in another order.
        if before is None or (name == "backward" and not self._is_only):
            return report
        links = {node.name: [node.name] for node in before.nodes}
        return self._with_changes(report, name, before.nodes, graph.nodes, links)

    def _with_changes(
        self,
        report: StageReport,
        name: StageName,
        before: Sequence[StageNode],
        after: Sequence[StageNode],
        links: Links,
    ) -> StageReport:
        kept, changed = 0, []
        for group in _groups(_computing(before), _computing(after), links):
            if _words(group[0]) == _words(group[1]):
                kept += len(group[0])
            else:
                changed.append(group)
        changes = tuple(self._changes(changed))
        return report.replace(compared_with=name, kept=kept, changes=changes)

    def _changes(self, groups: Iterable[_Group]) -> Iterator[StageChange]:
        alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[StageNode]] = {}
        counts: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
        for ours, theirs in groups:
            before, after, count = _once(_words(ours), _words(theirs))
            alike.setdefault((before, after), []).extend((*ours, *theirs))
            counts[before, after] = counts.get((before, after), 0) + count
        for (before, after), nodes in alike.items():
            yield StageChange(
                before=before, after=after, count=counts[before, after], places=self._places(nodes)
            )

    def _fusion(self, code: GeneratedCode, post_grad: StageGraph | None) -> StageReport:
        nodes = post_grad.nodes if post_grad is not None else ()
        kernels = unfused = None
        if code.fused is not None:
            order = {node.name: number for number, node in enumerate(nodes)}
            known = {node.name: node for node in nodes}
            kernels = tuple(
                self._kernel(
                    fused.name,
                    sorted(fused.nodes, key=lambda name: order.get(name, len(order))),
                    known,
                )
                for fused in code.fused
            )
            named = {name for fused in code.fused for name in fused.nodes}
            unfused = _words([node for node in _computing(nodes) if node.name not in named])
        return StageReport(
            stage="fusion",
            of=code.stage,
            compared_with="post-grad" if post_grad is not None else None,
            operations=None if kernels is None else len(kernels),
            kernels=kernels,
            unfused=unfused if post_grad is not None else None,
            kernel_names=code.kernels,
            file=code.file,
            code=code.code,
        )

    def _kernel(
        self, name: str, nodes: Sequence[str], known: Mapping[str, StageNode]
    ) -> StageKernel:
        fused = [known[node] for node in nodes if node in known]
        return StageKernel(
            name=name,
            nodes=tuple(nodes),
            operations=_words(_computing(fused)),
            places=self._places(fused),
        )

    def _places(self, nodes: Iterable[StageNode]) -> tuple[LinePlace, ...]:
        lines = dict.fromkeys(
            (node.file, node.line)
            for node in nodes
            if node.file is not None and node.line is not None
        )
        return tuple(LinePlace(file=relative(file, self._root), line=line) for file, line in lines)


_Group = tuple[list[StageNode], list[StageNode]]
"""Operations that belong together, before and after."""


def _groups(
    before: Sequence[StageNode], after: Sequence[StageNode], links: Links
) -> Iterator[_Group]:
    """Operations and what became of them, in the order of the graphs.

    Linked ones belong together, unless they are from different lines: a link is to what is left
    after later passes, which also put other operations' results in an operation's place. An
    operation without a link belongs to one of the same name in its line. Others belong to those of
    the same line that nothing links either, and else to what else became of the line, if that is
    one group.
    """
    find, join = _union()
    links_of = _linked(before, after, links)
    named = {name for names in links_of.values() for name in names}
    links_of |= _alike([node for node in before if node.name not in named], after)
    linked: set[object] = set()
    for name, names in links_of.items():
        for source in names:
            join(("before", source), ("after", name))
            linked |= {("before", source), ("after", name)}
    before_at = grouped((_place(node), node) for node in before if node.file is not None)
    left = grouped((_place(node), node) for node in after if ("after", node.name) not in linked)
    for place, of_line in left.items():
        own = before_at.get(place, [])
        free = [node for node in own if ("before", node.name) not in linked]
        groups = {find(("before", node.name)) for node in own}
        for node in of_line:
            if free or len(groups) == 1:
                join(("before", (free or own)[0].name), ("after", node.name))
        for node in free[1:]:
            join(("before", free[0].name), ("before", node.name))
    members: dict[object, _Group] = {}
    for node in before:
        members.setdefault(find(("before", node.name)), ([], []))[0].append(node)
    for node in after:
        members.setdefault(find(("after", node.name)), ([], []))[1].append(node)
    yield from members.values()


def _linked(
    before: Sequence[StageNode], after: Sequence[StageNode], links: Links
) -> dict[str, list[str]]:
    """For nodes after, those before that torch's mapping names."""
    known = {node.name: node for node in after}
    return grouped(
        (name, node.name)
        for node in before
        for name in links.get(node.name, ())
        if name in known and (name == node.name or _place(known[name]) == _place(node))
    )


def _alike(before: Sequence[StageNode], after: Sequence[StageNode]) -> dict[str, list[str]]:
    """For nodes after, one before that has the same operation in the same line; each is taken
    once.
    """
    free = grouped(
        ((_place(node), _operation_name(node)), node.name)
        for node in before
        if node.file is not None
    )
    links: dict[str, list[str]] = {}
    for node in after:
        waiting = free.get((_place(node), _operation_name(node)))
        if waiting:
            links[node.name] = [waiting.pop(0)]
    return links


def _once(
    before: tuple[str, ...], after: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """One of several equal changes of a line that runs several times, and how many there are."""
    for count in range(math.gcd(len(before), len(after)), 1, -1):
        first, then = before[: len(before) // count], after[: len(after) // count]
        if first * count == before and then * count == after:
            return first, then, count
    return before, after, 1


def _union() -> tuple[Callable[[object], object], Callable[[object, object], None]]:
    parents: dict[object, object] = {}

    def find(item: object) -> object:
        while item in parents:
            item = parents[item]
        return item

    def join(first: object, second: object) -> None:
        first, second = find(first), find(second)
        if first != second:
            parents[second] = first

    return find, join


def _place(node: StageNode) -> tuple[str | None, int | None]:
    return node.file, node.line


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

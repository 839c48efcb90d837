"""The stages of each graph: how many operations, what changed, the graph by line, kernels, code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.picture import GraphStages, LinePlace, StageChange, StageNode, StageReport
from graphdoctor.facts.recording import Graph
from graphdoctor.views.parts import Block, Cell, Code, Note, Section, Span, Table
from graphdoctor.views.words import base_name, few_text, inputs_text, repeated_text
from graphdoctor.wording import counted, join_texts

_MOST_CHANGES = 12
_MOST_KERNELS = 20
_MOST_LINES = 60
"""Of code, and of a graph's listing, unless all is asked for."""
_MOST_NAMES = 8
_MOST_PLACES = 4
_NAME = re.compile(r"\b[^\W\d]\w*")
_WHAT = {
    "dynamo": "as Dynamo captured it",
    "joint": "forward and backward in one, as AOTAutograd traced it",
    "forward": "the forward that AOTAutograd cut out",
    "backward": "the backward that AOTAutograd cut out",
    "inference": "as AOTAutograd traced it, without a backward",
    "post-grad": "after Inductor's passes",
    "fusion": "kernels, and the code that runs them",
}
_FROM = {"dynamo": "Dynamo's graph", "post-grad": "the post-grad graph"}


def stage_parts(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield the stages of each graph, and which stages there can't be; nothing if they weren't
    asked for.
    """
    if diagnosis.stages is None:
        return
    captured = {graph.index: graph for graph in diagnosis.recording.graphs}
    for graph in diagnosis.stages:
        place = "" if graph.place is None else f" ({graph.place.file}:{graph.place.line})"
        title = Span(f"Graph {graph.compile_id or '?'} {graph.function}{place}")
        report = None if graph.graph_index is None else captured.get(graph.graph_index)
        yield Section(title, _graph(graph, report), f"Stages of {graph.compile_id or '?'}")
    yield from (Note(text, "warning") for text in _missing(diagnosis))


def _missing(diagnosis: Diagnosis) -> Iterator[str]:
    graphs = diagnosis.stages or ()
    if not graphs:
        yield "There are no stages to show, because torch made no graph."
        return
    backend = diagnosis.recording.target.compile_arguments.get("backend")
    if backend in ("eager", "aot_eager"):
        yield f"The backend {backend} has no later stages: --backend inductor has all."
    shown = {(report.stage, report.of) for graph in graphs for report in graph.stages}
    if {("backward", None), ("fusion", "forward")} <= shown and ("fusion", "backward") not in shown:
        yield (
            "torch compiles the backward when it first runs, and it didn't: explain --backward"
            " shows its kernels."
        )


def _graph(graph: GraphStages, report: Graph | None) -> Iterator[Block]:
    if len(graph.stages) > 1:
        rows = (
            (
                _name(stage),
                "?" if stage.operations is None else str(stage.operations),
                Cell(_WHAT[stage.stage], tone="dim"),
            )
            for stage in graph.stages
        )
        yield Table(("#stage", "#operations", "what it is"), rows, "stage")
    lines = {(line.file, line.line): line.text for line in graph.lines}
    for stage in graph.stages:
        is_fusion = stage.stage == "fusion"
        content = _fusion(stage) if is_fusion else _traced(stage, report, lines)
        title = f"{_name(stage)}: {_headline(stage)}"
        yield Section(title, (*map(Span, _summary(stage)), *content))


def _summary(report: StageReport) -> Iterator[str]:
    if report.stage == "forward" and report.changes:
        gone = [word for change in report.changes for word in change.before * change.count]
        yield f"In neither half any more: {_counts(gone)}"
    if (saved := report.saved) is not None:
        values = [_named_value(value.name, value.value) for value in saved if not value.is_input]
        inputs = counted(len(saved) - len(values), "input")
        names = few_text(values, _MOST_NAMES) or "nothing that it computes"
        yield f"Keeps for the backward: {inputs}; {names}"
    if report.recomputed:
        yield f"Computes again what the forward has computed: {_counts(report.recomputed)}"
    if report.unread_lines:
        unread = counted(report.unread_lines, "line")
        yield f"{unread} of the printed graph couldn't be read; --format json has it whole"


def _counts(words: Iterable[str]) -> str:
    return repeated_text(Counter(words).items())


def _places(places: Sequence[LinePlace]) -> str:
    """Return the first line, and the numbers of a few more of its file."""
    first = [f"{base_name(place.file)}:{place.line}" for place in places[:1]]
    rest = [str(place.line) for place in places[1:_MOST_PLACES] if place.file == places[0].file]
    return join_texts(", ", *first, *rest, "…" if len(places) > 1 + len(rest) else None)


# A graph.


def _traced(
    stage: StageReport, report: Graph | None, lines: Mapping[tuple[str, int], str]
) -> Iterator[Block]:
    if stage.stage != "forward" and stage.changes:
        rows = (
            (Span(_change_text(item)), Cell(_places(item.places), tone="dim"))
            for item in stage.changes
        )
        yield Table(("#change", "lines"), rows, "change", _MOST_CHANGES)
    inputs = [
        _named_value(node.name, node.value) for node in stage.nodes if node.opcode == "placeholder"
    ]
    words: Mapping[str, str] = {}
    if stage.stage == "dynamo" and report is not None:
        # What the user calls the inputs, by the names of their nodes.
        words = {
            item.name: expression(item.source, report.resumes_at)
            for item in report.inputs or ()
            if item.source
        }
        inputs = [inputs_text(report)]
    yield _named("inputs", inputs)
    # The operations as Python, below the line that each comes from.
    code = []
    body = [node for node in stage.nodes if node.opcode not in ("placeholder", "output")]
    for (file, line), group in groupby(body, key=lambda node: (node.file, node.line)):
        source = "no source line"
        if file is not None and line is not None:
            source = f"{base_name(file)}:{line}  {lines.get((file, line), '')}"
        code.append(f"# {' '.join(source.split())}")
        for node in group:
            value = "" if node.value is None else f"  # {node.value}"
            code.append(f"{node.name} = {_node_text(node, words)}{value}")
    if code:
        yield Code("\n".join(code), most=_MOST_LINES)
    outputs = [name for node in stage.nodes if node.opcode == "output" for name in node.inputs]
    yield _named("returns", outputs)


def _named(label: str, texts: Sequence[str]) -> Note:
    return Note(Span(f"{label}: {few_text(texts, _MOST_NAMES) or 'none'}"), "dim")


# Kernels and code.


def _fusion(report: StageReport) -> Iterator[Block]:
    if report.kernels is None:
        yield _named("kernels", report.kernel_names)
        yield Note("torch didn't log which operations went into which kernel", "dim")
    else:
        rows = (
            (
                Span(kernel.name),
                Span(_words_text(kernel.operations) or ", ".join(kernel.nodes)),
                Cell(_places(kernel.places), tone="dim"),
            )
            for kernel in report.kernels
        )
        yield Table(("kernel", "operations", "lines"), rows, "kernel", _MOST_KERNELS)
        if report.unfused:
            yield Note(Span(f"in no kernel's list: {_counts(report.unfused)}"), "dim")
    if report.code is None:
        return
    if report.file:
        yield Note(Span(f"code: {report.file}", "strong"))
    yield Code(report.code.rstrip(), most=_MOST_LINES)


def _name(report: StageReport) -> str:
    return report.stage if report.of in (None, "inference") else f"{report.stage}, {report.of}"


def _headline(report: StageReport) -> str:
    count = report.operations
    if report.stage == "fusion":
        return "the generated code" if count is None else counted(count, "kernel")
    parts = [counted(count or 0, "operation")]
    if report.of_backward:
        parts.append(f"{report.of_backward} of them only for the backward")
    kept, before = report.kept or "none", report.compared_with
    if before == "joint":
        parts.append(f"{'all' if report.kept == count else kept} from the joint graph")
    elif before is not None:
        graph = _FROM.get(before, f"the {before} graph")
        parts.append(f"{kept} the same as in {graph}" if report.changes else f"the same as {graph}")
    return ", ".join(parts)


def _change_text(change: StageChange) -> str:
    before, after = _words_text(change.before), _words_text(change.after)
    text = f"{before} → {after}"
    if not before or not after:
        text = f"new: {after}" if after else f"gone: {before}"
    return f"{text} (×{change.count})" if change.count > 1 else text


def _words_text(words: Iterable[str]) -> str:
    """Return words in order, one that follows itself with a count."""
    return repeated_text((word, len(list(again))) for word, again in groupby(words))


def _named_value(name: str, value: str | None) -> str:
    return name if value is None else f"{name} {value}"


def _node_text(node: StageNode, words: Mapping[str, str]) -> str:
    if node.text is not None:
        return _NAME.sub(lambda name: words.get(name[0], name[0]), node.text)
    named = (words.get(name, name) for name in node.inputs)
    return f"{node.target}({', '.join(named)})" if node.opcode.startswith("call_") else node.target

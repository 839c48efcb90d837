"""The stages of each graph on the terminal: how many operations, what changed, the graph by line, kernels, code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from graphdoctor.facts.expressions import expression
from graphdoctor.facts.wording import counted
from graphdoctor.views.terminal_lines import Prose, clean, clean_lines, write
from graphdoctor.views.words import base_name, inputs_text
from graphdoctor.views.wrapping import cut

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.picture import StageNode
    from graphdoctor.facts.recording import Graph
    from graphdoctor.facts.spec import StageName
    from graphdoctor.facts.stages import (
        GraphStages,
        LinePlace,
        SavedValue,
        StageChange,
        StageKernel,
        StageReport,
    )

_MAX_OPERATIONS = 40
"""Of a graph's listing, unless verbose."""
_MAX_CHANGES = 12
_MAX_KERNELS = 20
_MAX_CODE_LINES = 40
_MAX_NAMES = 8
_MAX_PLACES = 4
_NAME = re.compile(r"\b[^\W\d]\w*")
_WIDEST_NAME = 20
_WIDEST_VALUE = 24
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
_AOT = "--backend aot_eager for AOTAutograd's, --backend inductor for all"


def render_stages(diagnosis: Diagnosis, console: Console, *, is_verbose: bool = False) -> None:
    """Write the stages of a diagnosis to a terminal.

    Args:
        diagnosis: Has the stages.
        console: Where to.
        is_verbose: Show whole graphs and all of the code.
    """
    captured = {graph.index: graph for graph in diagnosis.recording.graphs}
    view = _View(console.width, captured, is_verbose=is_verbose)
    for graph in diagnosis.stages or ():
        for renderable in view.graph(graph):
            if isinstance(renderable, _Whole):
                console.print(renderable.text, soft_wrap=True, markup=False, highlight=False)
            else:
                write(console, renderable)
    for line in _missing(diagnosis):
        write(console, Text())
        write(console, clean(line, "yellow"))


def _missing(diagnosis: Diagnosis) -> Iterator[str]:
    """Which stages there can't be."""
    graphs = diagnosis.stages or ()
    if not graphs:
        yield "There are no stages to show, because torch made no graph."
        return
    backend = diagnosis.recording.target.compile_arguments.get("backend")
    if backend == "eager":
        yield f"The backend eager has Dynamo's stage alone: {_AOT}."
    elif backend == "aot_eager":
        yield "The backend aot_eager ends with AOTAutograd's stages: --backend inductor has the others."
    shown = {(report.stage, report.of) for graph in graphs for report in graph.stages}
    if {("backward", None), ("fusion", "forward")} <= shown and ("fusion", "backward") not in shown:
        yield "torch compiles the backward when it first runs, and it didn't: explain --backward shows its kernels."


@dataclass(frozen=True)
class _Whole:
    """Code whose lines stay whole however wide they are, so that they can be copied."""

    text: Text


class _View:
    """Writes graphs for one terminal.

    Args:
        width: Cells of a line.
        captured: Dynamo's graphs by number, for the inputs in the user's words.
        is_verbose: Leave nothing out.
    """

    def __init__(self, width: int, captured: Mapping[int, Graph], *, is_verbose: bool) -> None:
        self._width = width
        self._captured = captured
        self._report: Graph | None = None
        self._shown: set[StageName] = set()
        self._is_verbose = is_verbose
        self._lines: Mapping[tuple[str, int], str] = {}

    def graph(self, graph: GraphStages) -> Iterator[RenderableType | _Whole]:
        """A graph with its stages."""
        self._report = None if graph.graph_index is None else self._captured.get(graph.graph_index)
        self._shown = {report.stage for report in graph.stages}
        self._lines = {(line.file, line.line): line.text for line in graph.lines}
        place = "" if graph.place is None else f" ({graph.place.file}:{graph.place.line})"
        yield Text()
        yield clean(f"Graph {graph.compile_id or '?'} {graph.function}{place}", "bold underline")
        if len(graph.stages) > 1:
            yield Text()
            yield self._overview(graph.stages)
        for report in graph.stages:
            yield Text()
            yield from self._stage(report)

    def _overview(self, stages: Sequence[StageReport]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column("stage", no_wrap=True)
        table.add_column("operations", justify="right", no_wrap=True)
        table.add_column("")
        for report in stages:
            count = "?" if report.operations is None else str(report.operations)
            table.add_row(clean(_name(report)), Text(count), Prose(clean(_WHAT[report.stage], "dim")))
        return table

    def _stage(self, report: StageReport) -> Iterator[RenderableType | _Whole]:
        yield clean(f"{_name(report)}: {_headline(report)}", "bold")
        for line in self._summary(report):
            yield Padding(Prose(clean(line)), (0, 0, 0, 2))
        if report.stage == "fusion":
            yield from self._kernels(report)
            yield from self._generated(report)
        else:
            if report.stage != "forward":
                yield from self._changes(report.changes)
            is_repeated = report.stage == "post-grad" and report.compared_with in self._shown and not report.changes
            if self._is_verbose or not is_repeated:
                yield from self._listing(report)

    def _summary(self, report: StageReport) -> Iterator[str]:
        if report.stage == "forward" and report.changes:
            gone = [word for change in report.changes for word in change.before * change.count]
            yield f"In neither half any more: {_counts_text(gone)}"
        if report.saved is not None:
            yield _saved_text(report.saved)
        if report.recomputed:
            yield f"Computes again what the forward has computed: {_counts_text(report.recomputed)}"
        if report.unread_lines:
            unread = counted(report.unread_lines, "line")
            yield f"{unread} of the printed graph couldn't be read; --format json has it whole"

    # What changed.

    def _changes(self, changes: Sequence[StageChange]) -> Iterator[RenderableType]:
        if not changes:
            return
        shown = changes if self._is_verbose else changes[:_MAX_CHANGES]
        yield Text()
        table = Table.grid(padding=(0, 2))
        table.add_column(ratio=1)
        table.add_column(no_wrap=True, style="dim")
        for change in shown:
            table.add_row(Prose(clean(_change_text(change))), clean(self._places(change.places)))
        yield Padding(table, (0, 0, 0, 2))
        if len(changes) > len(shown):
            yield _more(len(changes) - len(shown), "change")

    def _places(self, places: Sequence[LinePlace]) -> str:
        shown = [f"{base_name(place.file)}:{place.line}" for place in places[:1]]
        rest = [f"{place.line}" for place in places[1:_MAX_PLACES] if place.file == places[0].file]
        more = ", …" if len(places) > 1 + len(rest) else ""
        return ", ".join((*shown, *rest)) + more

    # A graph.

    def _listing(self, report: StageReport) -> Iterator[RenderableType]:
        inputs = [node for node in report.nodes if node.opcode == "placeholder"]
        body = [node for node in report.nodes if node.opcode not in ("placeholder", "output")]
        outputs = [name for node in report.nodes if node.opcode == "output" for name in node.inputs]
        yield Text()
        words: Mapping[str, str] = {}
        if report.stage == "dynamo" and self._report is not None:
            words = _inputs_in_words(self._report)
            yield Padding(Prose(clean(f"inputs: {inputs_text(self._report)}", "dim")), (0, 0, 0, 2))
        else:
            yield self._named("inputs", [_named_value(node.name, node.value) for node in inputs])
        shown = body if self._is_verbose else body[:_MAX_OPERATIONS]
        name_width = _widest((node.name for node in shown), _WIDEST_NAME)
        value_width = _widest((node.value or "" for node in shown), _WIDEST_VALUE)
        for (file, line), nodes in groupby(shown, key=lambda node: (node.file, node.line)):
            yield self._line(file, line)
            rows = [(node, _node_text(node, words)) for node in nodes]
            yield Padding(_operations(rows, name_width, value_width), (0, 0, 0, 4))
        if len(body) > len(shown):
            yield _more(len(body) - len(shown), "operation")
        yield self._named("returns", outputs)

    def _named(self, label: str, texts: Sequence[str]) -> RenderableType:
        shown = texts if self._is_verbose else texts[:_MAX_NAMES]
        more = f" and {len(texts) - len(shown)} more" if len(texts) > len(shown) else ""
        return Padding(Prose(clean(f"{label}: {', '.join(shown) or 'none'}{more}", "dim")), (0, 0, 0, 2))

    def _line(self, file: str | None, line: int | None) -> RenderableType:
        if file is None or line is None:
            return Padding(Text("no source line", style="cyan"), (0, 0, 0, 2))
        text = f"{base_name(file)}:{line}  {self._lines.get((file, line), '')}".rstrip()
        return Padding(Text(cut(clean(text).plain, self._width - 2), style="cyan", no_wrap=True), (0, 0, 0, 2))

    # Kernels and code.

    def _kernels(self, report: StageReport) -> Iterator[RenderableType]:
        if report.kernels is None:
            names = list(report.kernel_names)
            yield Text()
            yield self._named("kernels", names)
            yield Padding(Text("torch didn't log which operations went into which kernel", style="dim"), (0, 0, 0, 2))
            return
        shown = report.kernels if self._is_verbose else report.kernels[:_MAX_KERNELS]
        yield Text()
        for kernel in shown:
            yield from self._kernel(kernel)
        if len(report.kernels) > len(shown):
            yield _more(len(report.kernels) - len(shown), "kernel")
        if report.unfused:
            text = f"in no kernel's list: {_counts_text(report.unfused)}"
            yield Padding(Prose(clean(text, "dim")), (0, 0, 0, 2))

    def _kernel(self, kernel: StageKernel) -> Iterator[RenderableType]:
        name = clean(cut(kernel.name, self._width - 2), "cyan")
        yield Padding(name, (0, 0, 0, 2))
        table = Table.grid(padding=(0, 2))
        table.add_column(ratio=1)
        table.add_column(no_wrap=True, style="dim")
        table.add_row(
            Prose(clean(_words_text(kernel.operations) or ", ".join(kernel.nodes))),
            clean(self._places(kernel.places)),
        )
        yield Padding(table, (0, 0, 0, 4))

    def _generated(self, report: StageReport) -> Iterator[RenderableType | _Whole]:
        if report.code is None:
            return
        lines = report.code.rstrip().splitlines()
        yield Text()
        where = f" {report.file}" if report.file else ""
        yield Padding(Prose(clean(f"code:{where}", "bold")), (0, 0, 0, 2))
        if self._is_verbose:
            yield _Whole(clean_lines("\n".join(f"    {line}".rstrip() for line in lines), "dim"))
            return
        begin, end = _calling(lines)
        for line in lines[begin:end]:
            yield Padding(clean(cut(line, self._width - 4), "dim"), (0, 0, 0, 4))
        if (left := len(lines) - (end - begin)) > 0:
            yield Padding(
                Text(f"and {counted(left, 'more line')}, the kernels among them (-v shows all)", style="dim"),
                (0, 0, 0, 4),
            )


def _operations(rows: Sequence[tuple[StageNode, str]], name_width: int, value_width: int) -> Table:
    """Each node with what computes it and its value; the same columns for all lines of a graph."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(width=name_width, no_wrap=True)
    table.add_column(ratio=1)
    table.add_column(width=value_width, no_wrap=True, style="dim")
    for node, text in rows:
        name, value = cut(node.name, name_width), cut(node.value or "", value_width)
        table.add_row(clean(name), Prose(clean(text)), clean(value))
    return table


def _widest(texts: Iterable[str], most: int) -> int:
    return max(1, min(most, max(map(cell_len, texts), default=1)))


def _calling(lines: Sequence[str]) -> tuple[int, int]:
    """The lines of generated code that run the kernels, at most as many as are shown; the first ones if it has none."""
    begin = next((n for n, line in enumerate(lines) if line.lstrip().startswith("def call(")), 0)
    indent = len(lines[begin]) - len(lines[begin].lstrip()) if lines else 0
    end = next(
        (
            n
            for n in range(begin + 1, len(lines))
            if lines[n].strip() and len(lines[n]) - len(lines[n].lstrip()) <= indent
        ),
        len(lines),
    )
    while end > begin and not lines[end - 1].strip():
        end -= 1
    return begin, min(end, begin + _MAX_CODE_LINES)


def _name(report: StageReport) -> str:
    return report.stage if report.of in (None, "inference") else f"{report.stage}, {report.of}"


def _headline(report: StageReport) -> str:
    if report.stage == "fusion":
        return "the generated code" if report.operations is None else counted(report.operations, "kernel")
    parts = [counted(report.operations or 0, "operation")]
    if report.of_backward:
        parts.append(f"{report.of_backward} of them only for the backward")
    if report.compared_with == "joint":
        kept = "all" if report.kept == report.operations else f"{report.kept or 'none'}"
        parts.append(f"{kept} from the joint graph")
    elif report.compared_with is not None:
        before = _FROM.get(report.compared_with, f"the {report.compared_with} graph")
        parts.append(
            f"the same as {before}" if not report.changes else f"{report.kept or 'none'} the same as in {before}"
        )
    return ", ".join(parts)


def _change_text(change: StageChange) -> str:
    times = f" (×{change.count})" if change.count > 1 else ""
    if not change.after:
        return f"gone: {_words_text(change.before)}{times}"
    if not change.before:
        return f"new: {_words_text(change.after)}{times}"
    return f"{_words_text(change.before)} → {_words_text(change.after)}{times}"


def _words_text(words: Iterable[str]) -> str:
    """Words in order, one that follows itself with a count."""
    found = [(word, len(list(again))) for word, again in groupby(words)]
    return ", ".join(word if count == 1 else f"{word} ×{count}" for word, count in found)


def _counts_text(words: Sequence[str]) -> str:
    """Each word once, with its count."""
    return ", ".join(
        word if words.count(word) == 1 else f"{word} ×{words.count(word)}" for word in dict.fromkeys(words)
    )


def _saved_text(saved: Sequence[SavedValue]) -> str:
    made = [_named_value(each.name, each.value) for each in saved if not each.is_input]
    inputs = counted(sum(each.is_input for each in saved), "input")
    if not made:
        return f"Keeps {inputs} for the backward, and nothing that it computes"
    shown = ", ".join(made[:_MAX_NAMES]) + (f" and {len(made) - _MAX_NAMES} more" if len(made) > _MAX_NAMES else "")
    kept = [inputs] if len(made) < len(saved) else []
    return f"Keeps {' and '.join((*kept, counted(len(made), 'value')))} for the backward: {shown}"


def _named_value(name: str, value: str | None) -> str:
    return name if value is None else f"{name} {value}"


def _inputs_in_words(graph: Graph) -> dict[str, str]:
    """What the user calls the inputs of Dynamo's graph, by the names of their nodes."""
    return {item.name: expression(item.source, graph.resumes_at) for item in graph.inputs or () if item.source}


def _node_text(node: StageNode, words: Mapping[str, str]) -> str:
    if node.text is not None:
        return _NAME.sub(lambda name: words.get(name[0], name[0]), node.text)
    named = (words.get(name, name) for name in node.inputs)
    return f"{node.target}({', '.join(named)})" if node.opcode.startswith("call_") else node.target


def _more(count: int, noun: str) -> RenderableType:
    return Padding(Text(f"and {counted(count, f'more {noun}')} (-v shows all)", style="dim"), (0, 0, 0, 2))

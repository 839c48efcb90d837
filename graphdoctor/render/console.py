"""The terminal's answer: verdict, findings worst first, graphs, gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from graphdoctor.model.diagnosis import Diagnosis, GraphReport, Summary
from graphdoctor.model.expressions import expression
from graphdoctor.model.recording import CompileCall, GraphInput
from graphdoctor.render.cards import (
    base_name,
    clean,
    closing,
    clusters,
    counted,
    finding_card,
    not_known,
    nothing_compiled,
    partial,
    times,
    title_line,
    write,
)
from graphdoctor.render.fixes import treatment_sections

_MAX_INPUTS = 4
_MAX_GRAPH_ROWS = 60
_MAX_COMPILE_CALLS = 5


def render_console(diagnosis: Diagnosis, console: Console, *, is_verbose: bool = False) -> None:
    """Write the diagnosis to a terminal.

    Args:
        diagnosis: What to show.
        console: Where to.
        is_verbose: Add each graph's operations and code, torch's full words and every hint.
    """
    write(console, title_line(diagnosis))
    write(console, Text())
    for line in _verdict(diagnosis):
        write(console, line)
    for cluster in clusters(diagnosis.findings):
        write(console, Text())
        for renderable in finding_card(cluster, is_verbose=is_verbose):
            write(console, renderable)
    if diagnosis.treatment is not None:
        for renderable in treatment_sections(diagnosis, diagnosis.treatment, is_verbose=is_verbose):
            write(console, renderable)
    if diagnosis.graphs:
        write(console, Text())
        write(console, _graph_table(diagnosis.graphs, is_verbose=is_verbose))
        hidden = len(diagnosis.graphs) - _MAX_GRAPH_ROWS
        if hidden > 0 and not is_verbose:
            write(console, Text(f"  {hidden} more graphs: -v shows all", style="dim"))
    if is_verbose:
        for graph in diagnosis.graphs:
            write(console, Text())
            for renderable in _graph_detail(graph):
                write(console, renderable)
    for renderable in not_known(diagnosis):
        write(console, renderable)
    for line in closing(diagnosis):
        write(console, Text())
        write(console, line)


# The head: what ran, and the verdict.


def _verdict(diagnosis: Diagnosis) -> Iterator[Text]:
    summary = diagnosis.summary
    yield from partial(diagnosis)
    if (empty := nothing_compiled(diagnosis)) is not None:
        yield clean(empty.message, "bold yellow")
    else:
        headline = _headline(summary, is_partial=diagnosis.is_partial)
        if headline is not None:
            yield headline
        yield _counts(summary)
    yield from _compile_calls(diagnosis.compile_calls)


def _compile_calls(calls: Iterable[CompileCall]) -> Iterator[Text]:
    """Where a script called torch.compile and with what, each place once."""
    counts: dict[str, int] = {}
    for call in calls:
        arguments = "".join(f", {name}={value}" for name, value in call.arguments.items())
        text = f"torch.compile({call.compiled}{arguments}) at {call.file}:{call.line}"
        counts[text] = counts.get(text, 0) + 1
    for text, count in list(counts.items())[:_MAX_COMPILE_CALLS]:
        yield clean(f"{text}, {times(count)}" if count > 1 else text, "dim")
    if len(counts) > _MAX_COMPILE_CALLS:
        yield Text(f"and {len(counts) - _MAX_COMPILE_CALLS} more calls of torch.compile", style="dim")


def _headline(summary: Summary, *, is_partial: bool) -> Text | None:
    """What must be said first: nothing compiled, or nothing wrong (which half a run cannot tell)."""
    detail = summary.coverage_detail
    if detail is not None and summary.coverage == 0:
        total = detail.graph_ops + detail.eager_ops
        return Text(f"Not compiled: 0 of {total} tensor operations ran in a compiled graph.", style="bold red")
    if detail is None and summary.calls and not summary.graphs and not is_partial:
        return Text("Not compiled: no graph reached the backend.", style="bold red")
    is_clean = not (summary.break_sites or summary.skipped_frames or summary.frames_over_limit or is_partial)
    if is_clean and summary.graphs:
        recompiled = f", compiled again {times(summary.recompiles)}" if summary.recompiles else ""
        return Text(f"No graph break{recompiled}.", style="bold yellow" if recompiled else "bold green")
    return None


def _counts(summary: Summary) -> Text:
    parts = [counted(summary.calls, "call")] if summary.calls else []
    parts += [
        counted(summary.graphs, "graph"),
        counted(summary.break_sites, "break site"),
        counted(summary.skipped_frames, "skipped frame"),
    ]
    if summary.recompiles:
        parts.append(counted(summary.recompiles, "recompile"))
    if summary.frames_over_limit:
        parts.append(f"{counted(summary.frames_over_limit, 'frame')} over the recompile limit")
    parts.append(_coverage_text(summary))
    if summary.compile_time_s is not None:
        parts.append(f"{summary.compile_time_s:.2f} s compiling")
    return Text(" · ".join(parts))


def _coverage_text(summary: Summary) -> str:
    detail = summary.coverage_detail
    if detail is None:
        return "coverage not known"
    total = detail.graph_ops + detail.eager_ops
    if summary.coverage is None:
        return "no tensor operation"
    return f"coverage {percent(summary.coverage)} ({detail.graph_ops} of {total} operations)"


def percent(share: float) -> str:
    """Whole percent, but never 0 or 100 for what is neither."""
    if 0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{share:.0%}".replace("%", " %")


# Graphs.


def _graph_table(graphs: Sequence[GraphReport], *, is_verbose: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Graphs", title_justify="left", title_style="bold")
    table.add_column("graph", no_wrap=True)
    table.add_column("function", overflow="fold")
    table.add_column("ops", justify="right", no_wrap=True)
    table.add_column("inputs", overflow="fold", ratio=2)
    table.add_column("ended by", overflow="fold")
    for graph in graphs if is_verbose else graphs[:_MAX_GRAPH_ROWS]:
        table.add_row(
            Text(graph.compile_id),
            clean(graph.function),
            Text("?" if graph.op_count is None else str(graph.op_count)),
            clean(_inputs_text(graph)),
            clean(base_name(graph.ended_by), "" if graph.ended_by == "return" else "yellow"),
        )
    return table


def _inputs_text(graph: GraphReport) -> str:
    """Arguments one by one, parameters and buffers as a count."""
    inputs = graph.inputs
    if inputs is None:
        return "not recorded"
    arguments = [item for item in inputs if not item.is_parameter]
    parts = [_input_text(item, graph.resumes_at) for item in arguments[:_MAX_INPUTS]]
    if len(arguments) > _MAX_INPUTS:
        parts.append(f"{len(arguments) - _MAX_INPUTS} more")
    parameters = len(inputs) - len(arguments)
    if parameters:
        parts.append(counted(parameters, "parameter"))
    return ", ".join(parts) or "none"


def _input_text(item: GraphInput, resumes_at: int | None) -> str:
    name = expression(item.source, resumes_at) if item.source else item.name
    if item.kind == "tensor":
        device = "" if item.device in (None, "cpu") else f" {item.device}"
        return f"{name} {item.dtype}[{', '.join(map(str, item.shape or ()))}]{device}"
    return f"{name} (dynamic)" if item.kind == "symbol" else name


def _graph_detail(graph: GraphReport) -> Iterator[RenderableType]:
    yield Text(f"Graph {graph.compile_id} ", "bold").append_text(clean(graph.function, "bold"))
    if graph.nodes is not None:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("opcode", "name", "target", "args", "kwargs", "value", "line"):
            table.add_column(heading, overflow="fold")
        for node in graph.nodes:
            place = f"{base_name(node.file)}:{node.line}" if node.file else ""
            cells = (node.opcode, node.name, node.target, node.args, node.kwargs, node.value or "", place)
            table.add_row(*(clean(cell) for cell in cells))
        yield table
    if graph.code:
        yield Padding(clean(graph.code.rstrip(), "dim"), (0, 0, 0, 2))

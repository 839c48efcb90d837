"""A diagnosis on the terminal: verdict, findings with the worst first, graphs, gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from graphdoctor.model.wording import counted
from graphdoctor.render.cards import clean, closing, finding_card, partial, title_line, unknown_rows, write
from graphdoctor.render.fixes import treatment_sections
from graphdoctor.render.words import (
    Tone,
    base_name,
    clusters,
    compile_calls_text,
    compiles_text,
    coverage_text,
    headline,
    inputs_text,
    nothing_compiled,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.model.diagnosis import Diagnosis, GraphReport, Summary
    from graphdoctor.model.recording import CompileCall

_MAX_GRAPH_ROWS = 60
_MAX_COMPILE_CALLS = 5
_TONES: dict[Tone, str] = {"good": "bold green", "warning": "bold yellow", "bad": "bold red"}


def render_console(diagnosis: Diagnosis, console: Console, *, is_verbose: bool = False) -> None:
    """Write the diagnosis to a terminal.

    Args:
        diagnosis: What to show.
        console: Where to.
        is_verbose: Add each graph's operations and code, torch's full messages and every hint.
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
            write(console, Text(f"  {counted(hidden, 'more graph')} (-v shows all)", style="dim"))
    if is_verbose:
        for graph in diagnosis.graphs:
            write(console, Text())
            for renderable in _graph_detail(graph):
                write(console, renderable)
    for renderable in unknown_rows(diagnosis):
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
        if (first := headline(summary, is_partial=diagnosis.is_partial)) is not None:
            yield clean(first[0], _TONES[first[1]])
        yield _counts(summary)
    yield from _compile_calls(diagnosis.compile_calls)


def _compile_calls(calls: Sequence[CompileCall]) -> Iterator[Text]:
    texts = compile_calls_text(calls)
    for text in texts[:_MAX_COMPILE_CALLS]:
        yield clean(text, "dim")
    if len(texts) > _MAX_COMPILE_CALLS:
        yield Text(f"and {counted(len(texts) - _MAX_COMPILE_CALLS, 'more call')} to torch.compile", style="dim")


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
    parts.append(coverage_text(summary))
    if summary.compile_time_s is not None:
        parts.append(f"{summary.compile_time_s:.2f} s compiling")
    if summary.steadiness is not None and (compiles := compiles_text(summary.steadiness)) is not None:
        parts.append(compiles)
    return Text(" · ".join(parts))


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
            clean(graph.compile_id),
            clean(graph.function),
            Text("?" if graph.op_count is None else str(graph.op_count)),
            clean(inputs_text(graph)),
            clean(base_name(graph.ended_by), "" if graph.ended_by == "return" else "yellow"),
        )
    return table


def _graph_detail(graph: GraphReport) -> Iterator[RenderableType]:
    yield clean(f"Graph {graph.compile_id} {graph.function}", "bold")
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

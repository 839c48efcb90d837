"""The terminal's answer: verdict, findings worst first, graphs, gaps.

Everything that comes from outside (paths, messages, source lines) goes through ``Text``, never through markup, so
that a path such as ``[red]/x.py`` is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from graphdoctor.model.diagnosis import Diagnosis, Finding, Fix, GraphReport, Location, Summary
from graphdoctor.model.expressions import expression
from graphdoctor.model.recording import GraphInput
from graphdoctor.model.stack import StackEntry

_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_MAX_INPUTS = 4
_MAX_COMPILE_IDS = 6
_MAX_GRAPH_ROWS = 60
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x9b]")


def render_console(diagnosis: Diagnosis, console: Console, *, is_verbose: bool = False) -> None:
    """Write the diagnosis to a terminal.

    Args:
        diagnosis: What to show.
        console: Where to.
        is_verbose: Add each graph's operations and code, torch's full words and every hint.
    """
    _write(console, _title(diagnosis))
    _write(console, Text())
    for line in _verdict(diagnosis):
        _write(console, line)
    for cluster in _clusters(diagnosis.findings):
        _write(console, Text())
        for renderable in _card(cluster, is_verbose=is_verbose):
            _write(console, renderable)
    if diagnosis.graphs:
        _write(console, Text())
        _write(console, _graph_table(diagnosis.graphs, is_verbose=is_verbose))
        hidden = len(diagnosis.graphs) - _MAX_GRAPH_ROWS
        if hidden > 0 and not is_verbose:
            _write(console, Text(f"  {hidden} more graphs: -v shows all", style="dim"))
    if is_verbose:
        for graph in diagnosis.graphs:
            _write(console, Text())
            for renderable in _graph_detail(graph):
                _write(console, renderable)
    if diagnosis.gaps:
        _write(console, Text())
        _write(console, _rows((("not known", _clean(gap.message)) for gap in diagnosis.gaps), style="dim"))
    for line in _closing(diagnosis):
        _write(console, Text())
        _write(console, line)


def _write(console: Console, renderable: RenderableType) -> None:
    console.print(renderable, markup=False, highlight=False)


def _clean(text: str, style: str = "") -> Text:
    """Outside text without control characters, which a terminal would obey."""
    return Text(_CONTROL.sub("�", text), style=style)


# The head: what ran, and the verdict.


def _title(diagnosis: Diagnosis) -> Text:
    target, environment = diagnosis.target, diagnosis.environment
    parts = [target.text or "trace log"]
    if target.class_name and target.class_name not in parts[0]:
        parts.append(target.class_name)
    if environment.torch:
        parts.append(f"torch {environment.torch}")
    arguments = target.compile_arguments
    if arguments.get("backend"):
        parts.append(f"backend {arguments['backend']}")
    parts += [
        f"{name}={arguments[name]}"
        for name in ("mode", "dynamic", "fullgraph")
        if arguments.get(name) not in (None, False)
    ]
    title = Text().append_text(_clean(parts[0], "bold"))
    for part in parts[1:]:
        title.append(" · ", "dim").append_text(_clean(part, "dim"))
    return title


def _verdict(diagnosis: Diagnosis) -> Iterator[Text]:
    summary = diagnosis.summary
    if diagnosis.is_partial:
        reason = diagnosis.exit.message or "the run ended early"
        yield Text().append("PARTIAL  ", "bold red").append_text(_clean(reason, "red"))
    headline = _headline(summary, is_partial=diagnosis.is_partial)
    if headline is not None:
        yield headline
    yield _counts(summary)


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
        recompiled = f", compiled again {_times(summary.recompiles)}" if summary.recompiles else ""
        return Text(f"No graph break{recompiled}.", style="bold yellow" if recompiled else "bold green")
    return None


def _counts(summary: Summary) -> Text:
    parts = [_count(summary.calls, "call")] if summary.calls else []
    parts += [
        _count(summary.graphs, "graph"),
        _count(summary.break_sites, "break site"),
        _count(summary.skipped_frames, "skipped frame"),
    ]
    if summary.recompiles:
        parts.append(_count(summary.recompiles, "recompile"))
    if summary.frames_over_limit:
        parts.append(f"{_count(summary.frames_over_limit, 'frame')} over the recompile limit")
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
    return f"coverage {_percent(summary.coverage)} ({detail.graph_ops} of {total} operations)"


def _percent(share: float) -> str:
    """Whole percent, but never 0 or 100 for what is neither."""
    if 0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{share:.0%}".replace("%", " %")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


# Findings.


def _clusters(findings: Sequence[Finding]) -> Iterator[list[Finding]]:
    """Findings at one line with one cause are one card: a break and the skipped frame that it made."""
    order: dict[tuple[str, int, str | None], list[Finding]] = {}
    for finding in findings:
        key = (finding.location.file, finding.location.line, finding.torch_id)
        if not finding.reasons:
            key = (*key[:2], finding.fingerprint)
        order.setdefault(key, []).append(finding)
    for cluster in order.values():
        # The cause comes before its consequence, whatever their severities.
        yield sorted(cluster, key=lambda finding: finding.code)


def _card(cluster: Sequence[Finding], *, is_verbose: bool) -> Iterator[RenderableType]:
    first = cluster[0]
    for finding in cluster:
        heading = Text().append(f"{finding.code} ", _STYLES[finding.severity])
        yield heading.append_text(_clean(finding.message, "bold"))
    yield from _source(first.location)
    rows: list[tuple[str, Text]] = []
    if first.torch_reason and (is_verbose or first.reasons):
        words = first.torch_reason if is_verbose else _first_sentence(first.torch_reason)
        label = first.torch_id or "torch"
        rows.append((label, _clean(words)))
    hints = first.hints if is_verbose else first.hints[:1] if not any(f.fixes for f in cluster) else ()
    rows += [("hint", _clean(hint)) for hint in hints]
    rows.append(("caused" if first.break_effects else "seen in", _caused(first)))
    path = _call_path(first)
    if path is not None:
        rows.append(("path", path))
    rows += [("see also", _related(location)) for finding in cluster for location in finding.related]
    fixes = list(dict.fromkeys(fix for finding in cluster for fix in finding.fixes))
    for number, fix in enumerate(fixes if is_verbose else fixes[:2]):
        rows.append(("try" if number == 0 else "or", _fix(fix)))
    yield _rows(rows)


def _source(location: Location) -> Iterator[RenderableType]:
    line = Text("  ").append("--> ", "blue").append_text(_clean(_shown_file(location), "bold"))
    line.append(f":{location.line}")
    if location.column is not None:
        line.append(f":{location.column}")
    line.append(" in ").append_text(_clean(location.function))
    if location.package:
        line.append(f"  [{location.package}]", "magenta")
    yield line
    if location.text is None:
        return
    number = str(location.line)
    yield Text().append(f"  {number} │ ", "blue").append_text(_clean(location.text))
    if location.column is not None:
        start = location.column - 1 - (location.indent or 0)
        # An expression that goes on in the next lines is marked to the end of its first.
        end = location.end_column - 1 - (location.indent or 0) if location.end_column else len(location.text)
        length = end - start
        if start >= 0 and length > 0:
            margin = " " * (len(number) + 3)
            yield Text(margin).append("│ ", "blue").append(" " * start + "^" * length, "red")


def _shown_file(location: Location) -> str:
    """A package's file from the package on; everything else as it is."""
    if location.package and f"/{location.package}/" in location.file:
        return location.package + "/" + location.file.rpartition(f"/{location.package}/")[2]
    return location.file


def _first_sentence(text: str) -> str:
    paragraph = re.split(r"\n\s*\n", text, maxsplit=1)[0]
    return " ".join(paragraph.split())


def _caused(finding: Finding) -> Text:
    effects = finding.effects
    parts = [f"fired {_times(finding.count)}"] if finding.break_effects else []
    if "raised" in finding.break_effects:
        parts.append("raised: fullgraph allows no break")
    parts += [f"`{name}` skipped: it runs eagerly as a whole" for name in effects.skipped_frames]
    parts += [f"the rest of `{name}` runs eagerly" for name in effects.rest_eager_frames]
    if effects.graphs:
        parts.append(_count(len(effects.graphs), "graph"))
    if effects.resume_functions:
        parts.append(_count(len(effects.resume_functions), "resume function"))
    text = _clean(", ".join(parts))
    if finding.compile_ids:
        shown = finding.compile_ids[:_MAX_COMPILE_IDS]
        more = len(finding.compile_ids) - len(shown)
        ids = " ".join(shown) + (f" and {more} more" if more else "")
        text.append(f"  [{ids}]" if parts else ids, "dim")
    return text


def _call_path(finding: Finding) -> Text | None:
    """The path through the user's and packages' code, torch's own lines folded to a count."""
    if len([entry for entry in finding.user_stack if entry.origin in ("user", "third_party")]) < 2:
        return None
    text = Text()
    for is_torch, group in groupby(finding.user_stack, lambda entry: entry.origin in ("torch", "stdlib")):
        entries = list(group)
        if is_torch:
            continue
        for entry in entries:
            if text:
                text.append(" → ", "dim")
            text.append_text(_clean(f"{entry.qualname or entry.function}"))
            text.append(f" {_short_place(entry)}", "dim")
    folded = sum(entry.origin in ("torch", "stdlib") for entry in finding.user_stack)
    if folded:
        text.append(f"  ({_count(folded, 'line')} of torch and Python folded)", "dim")
    return text


def _short_place(entry: StackEntry) -> str:
    return f"{_base_name(entry.file)}:{entry.line}"


def _base_name(file: str) -> str:
    return re.split(r"[/\\]", file)[-1]


def _related(location: Location) -> Text:
    text = _clean(f"{_shown_file(location)}:{location.line}")
    if location.note:
        text.append_text(_clean(f"  {location.note}", "dim"))
    return text


def _fix(fix: Fix) -> Text:
    text = _clean(fix.title, "green")
    if fix.snippet:
        text.append("\n").append_text(_clean(fix.snippet, "cyan"))
    return text


def _rows(rows: Iterable[tuple[str, Text]], *, style: str = "") -> Padding:
    """Labelled rows with a hanging indent."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", no_wrap=True, style="blue", min_width=9)
    grid.add_column(overflow="fold", style=style)
    for label, text in rows:
        grid.add_row(Text(label), text)
    return Padding(grid, (0, 0, 0, 2))


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
            _clean(graph.function),
            Text("?" if graph.op_count is None else str(graph.op_count)),
            _clean(_inputs_text(graph)),
            _clean(_base_name(graph.ended_by), "" if graph.ended_by == "return" else "yellow"),
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
        parts.append(_count(parameters, "parameter"))
    return ", ".join(parts) or "none"


def _input_text(item: GraphInput, resumes_at: int | None) -> str:
    name = expression(item.source, resumes_at) if item.source else item.name
    if item.kind == "tensor":
        device = "" if item.device in (None, "cpu") else f" {item.device}"
        return f"{name} {item.dtype}[{', '.join(map(str, item.shape or ()))}]{device}"
    return f"{name} (dynamic)" if item.kind == "symbol" else name


def _graph_detail(graph: GraphReport) -> Iterator[RenderableType]:
    yield Text(f"Graph {graph.compile_id} ", "bold").append_text(_clean(graph.function, "bold"))
    if graph.nodes is not None:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("opcode", "name", "target", "args", "kwargs", "value", "line"):
            table.add_column(heading, overflow="fold")
        for node in graph.nodes:
            place = f"{_base_name(node.file)}:{node.line}" if node.file else ""
            cells = (node.opcode, node.name, node.target, node.args, node.kwargs, node.value or "", place)
            table.add_row(*(_clean(cell) for cell in cells))
        yield table
    if graph.code:
        yield Padding(_clean(graph.code.rstrip(), "dim"), (0, 0, 0, 2))


# The end.


def _closing(diagnosis: Diagnosis) -> Iterator[Text]:
    summary = diagnosis.summary
    if summary.hidden_findings:
        yield Text(f"{_count(summary.hidden_findings, 'finding')} hidden by --own-code, --select or --ignore.", "dim")
    codes = sorted({finding.code for finding in diagnosis.findings})
    if codes:
        yield Text(f"Read more: graphdoctor rule {codes[0]}", "dim")

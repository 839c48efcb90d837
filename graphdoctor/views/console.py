"""A diagnosis on the terminal: verdict, what to do, findings in the order of what mends them, gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from graphdoctor.facts.wording import counted
from graphdoctor.views.actions import Action, actions, code_line, mends_text, saves_text
from graphdoctor.views.cards import closing, finding_card, partial, short_card, title_line, unknown_rows
from graphdoctor.views.fixes import ending, treatment_parts
from graphdoctor.views.log_words import log_rows, unshown_text
from graphdoctor.views.outcome import outcome
from graphdoctor.views.parts import Tone
from graphdoctor.views.terminal import shown_parts
from graphdoctor.views.terminal_lines import Code, Prose, Trimmed, clean, clean_lines, labeled_rows, write, write_report
from graphdoctor.views.words import (
    base_name,
    clusters,
    compile_calls_text,
    count_texts,
    inputs_text,
    nothing_compiled,
    sentence,
    watched_texts,
    watching_text,
    worth_trying,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.facts.diagnosis import Diagnosis, Finding
    from graphdoctor.facts.recording import CompileCall, Graph
    from graphdoctor.facts.watch import CallWatch

_MAX_COMPILE_CALLS = 5
_MAX_ACTIONS = 5
_MAX_CARDS = 10
_MOST_LINES = 40
"""Of whole cards, so that an answer fits on two screens of 40 lines; the cards after them are short."""
_NARROW = 100
_NARROW_COLUMN = 17
"""Of what fixes mend and save, on a terminal narrower than that."""
_TONES: dict[Tone, str] = {"good": "bold green", "warning": "bold yellow", "bad": "bold red"}


def render_console(diagnosis: Diagnosis, console: Console, *, is_verbose: bool = False) -> None:
    """Write the diagnosis to a terminal.

    Args:
        diagnosis: What to show.
        console: Where to.
        is_verbose: Show every finding with torch's full messages and every hint, and each graph with its operations
            and code.
    """
    write_report(console, _report(diagnosis, console, is_verbose=is_verbose), [_sentence(diagnosis)])
    if diagnosis.recording.treatment is not None:
        write(console, Text())
        last = tuple(ending(diagnosis, diagnosis.recording.treatment))
        for renderable in shown_parts(last, width=console.width, is_verbose=False):
            write(console, renderable)


def _report(diagnosis: Diagnosis, console: Console, *, is_verbose: bool) -> Iterator[RenderableType]:
    yield title_line(diagnosis)
    yield Text()
    yield from _verdict(diagnosis)
    todo = actions(diagnosis.findings)
    if len(todo) > 1 and any(action.fix for action in todo):
        yield Text()
        yield _todo_table(todo, console.width)
    yield from _findings(diagnosis, todo, console, is_verbose=is_verbose)
    if diagnosis.recording.treatment is not None:
        yield Text()
        parts = tuple(treatment_parts(diagnosis, diagnosis.recording.treatment))
        yield from shown_parts(parts, width=console.width, is_verbose=is_verbose)
    if diagnosis.graphs and is_verbose:
        yield Text()
        yield _graph_table(diagnosis)
        for graph in diagnosis.recording.graphs:
            yield Text()
            yield from _graph_detail(graph)
    rows = [(label, clean(text)) for label, text in log_rows(diagnosis, is_verbose=is_verbose)]
    if rows:
        yield Text()
        yield labeled_rows(rows, style="dim")
    if (unshown := unshown_text(diagnosis, is_verbose=is_verbose)) is not None:
        yield Text()
        yield clean(unshown, "dim")
    yield from unknown_rows(diagnosis)
    for line in closing(diagnosis):
        yield Text()
        yield line


# The head: what ran, and the verdict.


def _verdict(diagnosis: Diagnosis) -> Iterator[Text]:
    summary = diagnosis.summary
    yield from partial(diagnosis)
    yield _sentence(diagnosis)
    if diagnosis.recording.treatment is not None and diagnosis.recording.treatment.after is not None:
        yield clean(outcome(diagnosis.recording.treatment, diagnosis.recording.target), "bold green")
    if nothing_compiled(diagnosis) is None:
        yield clean(" · ".join(count_texts(summary, diagnosis.recording.watch)), "dim")
    yield from _compile_calls(diagnosis.recording.compile_calls)
    if diagnosis.recording.watch is not None:
        yield from _watch(diagnosis.recording.watch)


def _sentence(diagnosis: Diagnosis) -> Text:
    said, tone = sentence(diagnosis)
    return clean(said, _TONES[tone])


def _compile_calls(calls: Sequence[CompileCall]) -> Iterator[Text]:
    texts = compile_calls_text(calls)
    for text in texts[:_MAX_COMPILE_CALLS]:
        yield clean(text, "dim")
    if len(texts) > _MAX_COMPILE_CALLS:
        yield Text(f"and {counted(len(texts) - _MAX_COMPILE_CALLS, 'more call')} to torch.compile", style="dim")


def _watch(watch: CallWatch) -> Iterator[Text]:
    texts = watched_texts(watch)
    for text in texts[:_MAX_COMPILE_CALLS]:
        yield clean(text, "dim")
    if len(texts) > _MAX_COMPILE_CALLS:
        yield Text(f"and {counted(len(texts) - _MAX_COMPILE_CALLS, 'more compiled function')}", style="dim")
    yield clean(watching_text(watch), "dim")


# What to do, and why.


def _todo_table(todo: Sequence[Action], width: int) -> RenderableType:
    """What to do, the worst and costliest first; on a narrow terminal, code has the most room."""
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("", justify="right", style="dim", no_wrap=True)
    table.add_column("Do this")
    for heading in ("fixes", "saves"):
        table.add_column(heading, max_width=_NARROW_COLUMN if width < _NARROW else None)
    known = [action for action in todo if action.fix is not None]
    for number, action in enumerate(known[:_MAX_ACTIONS], start=1):
        code = code_line(action)
        what = Code(code) if code is not None else Prose(clean(action.fix.title if action.fix else ""))
        table.add_row(str(number), what, Prose(clean(mends_text(action))), Prose(clean(saves_text(action))))
    more = len(known) - _MAX_ACTIONS
    if more > 0:
        table.add_row("", Text(f"and {more} more, below", style="dim"), "", "")
    return table


def _findings(
    diagnosis: Diagnosis, todo: Sequence[Action], console: Console, *, is_verbose: bool
) -> Iterator[RenderableType]:
    """The findings of each thing to do, then those that need nothing; a few of each unless verbose."""
    groups = [list(clusters(action.findings)) for action in todo]
    kept = {finding.fingerprint for group in groups for cluster in group for finding in cluster}
    groups += [[cluster] for cluster in clusters(diagnosis.findings) if cluster[0].fingerprint not in kept]
    if is_verbose:
        for cluster in (cluster for group in groups for cluster in group):
            yield Text()
            yield from finding_card(cluster, is_verbose=True)
        return
    folded = [group[0] for group in groups if _is_foldable(group[0])]
    cards = [group for group in groups if not _is_foldable(group[0])]
    room = _MOST_LINES
    for number, group in enumerate(cards[:_MAX_CARDS]):
        others = [cluster[0] for cluster in group[1:]]
        card = Group(Text(), *finding_card(group[0], is_verbose=False, has_path=False, others=others))
        height = len(console.render_lines(Trimmed(card), pad=False))
        is_whole = height <= room or number == 0
        # After one that has no room, no later one is whole: they would stand out without being worse.
        if is_whole:
            yield card
            room -= height
            continue
        if room >= 0:
            yield Text()
        yield short_card(group[0])
        room = -1
    more = sum(map(len, cards[_MAX_CARDS:]))
    if more or room < 0:
        yield Text()
        yield Text(f"{counted(more, 'more finding')} (-v shows all)" if more else "-v shows each in full", style="dim")
    if folded:
        yield Text()
        yield from _folded(folded)


def _is_foldable(cluster: Sequence[Finding]) -> bool:
    """Whether it is in somebody else's package, and nothing is known that could be done about it."""
    return cluster[0].location.package is not None and not any(
        worth_trying(finding.fixes) or finding.hints for finding in cluster
    )


def _folded(folded: Sequence[Sequence[Finding]]) -> Iterator[Text]:
    """One line for each package."""
    packages: dict[str, list[Finding]] = {}
    for cluster in folded:
        packages.setdefault(cluster[0].location.package or "", []).append(cluster[0])
    for package, findings in packages.items():
        files = counted(len({finding.location.file for finding in findings}), "file")
        number = counted(len(findings), "finding")
        yield clean(f"{package}: {number} in {files} without a known fix (-v shows them)", "dim")


# Graphs.


def _graph_table(diagnosis: Diagnosis) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Graphs", title_justify="left", title_style="bold")
    table.add_column("graph", no_wrap=True)
    table.add_column("function")
    table.add_column("ops", justify="right", no_wrap=True)
    table.add_column("inputs", ratio=2)
    table.add_column("ended by")
    for graph, report in diagnosis.each_graph():
        table.add_row(
            clean(graph.compile_id),
            Prose(clean(graph.function)),
            Text("?" if graph.op_count is None else str(graph.op_count)),
            Prose(clean(inputs_text(graph))),
            Prose(clean(base_name(report.ended_by), "" if report.ended_by == "return" else "yellow")),
        )
    return table


def _graph_detail(graph: Graph) -> Iterator[RenderableType]:
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
        yield Padding(clean_lines(graph.code.rstrip(), "dim"), (0, 0, 0, 2))

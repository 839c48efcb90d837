"""A diagnosis: the answer, what to do, findings, the fixes that were tried; on a page, the program line by line too.

Comes in: a diagnosis, and for a page its picture. Goes out: a view.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import counted, percent, without_middle
from graphdoctor.views import words
from graphdoctor.views.actions import actions, code_line, mends_text, saves_text
from graphdoctor.views.finding_cards import card_of, closing, partial_note
from graphdoctor.views.fixes import keeping, outcome, treatment_parts
from graphdoctor.views.log_words import log_rows, unshown_text
from graphdoctor.views.parts import (
    Block,
    Blocks,
    Card,
    Cards,
    Cell,
    Code,
    Column,
    Figures,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Table,
    Verdict,
    View,
)
from graphdoctor.views.recompiles import variation_parts, what_if_parts
from graphdoctor.views.stages import stage_parts

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis, Finding
    from graphdoctor.facts.picture import Picture
    from graphdoctor.facts.recording import Graph
    from graphdoctor.views.html.page import Page

_MOST_CALLS = 5
_MOST_ACTIONS = 5
_VALUE = 200
"""Characters of a value of the environment."""


def report_view(diagnosis: Diagnosis, picture: Picture | None = None, *, root: Path | None = None) -> View:
    """The whole diagnosis; ``picture`` is what a page draws, None for one of the other outputs."""
    page = None
    if picture is not None:
        from graphdoctor.views.html.page import Page

        page = Page(diagnosis, picture, root or Path.cwd())
    links = {} if page is None else page.links
    return View(
        tuple(words.title_parts(diagnosis.recording)),
        "report",
        tuple(_parts(diagnosis, page)),
        diagnosis.graphdoctor_version,
        links,
    )


def _parts(diagnosis: Diagnosis, page: Page | None) -> Iterator[Block]:
    treatment = diagnosis.recording.treatment
    yield from _answer(diagnosis, page)
    yield from _todo(diagnosis)
    yield Section("Findings", tuple(_findings(diagnosis)), count=len(list(words.clusters(diagnosis.findings))))
    yield from () if treatment is None else treatment_parts(diagnosis, treatment)
    if page is not None:
        # Texts of these are those of other commands.
        yield from page.sections(tuple(what_if_parts(diagnosis)))
        yield Section("Sensitivity", tuple(variation_parts(diagnosis)))
    yield from stage_parts(diagnosis)
    yield Section("Evidence", tuple(_log(diagnosis, page)))
    yield words.unknown_section(words.other_gaps(diagnosis))
    yield Section("Environment", (Rows(tuple(_environment(diagnosis))),), show="long")
    if page is None:
        yield Section("Graphs", tuple(_graphs(diagnosis)), count=len(diagnosis.graphs), show="long")
    yield from closing(diagnosis)
    yield from () if treatment is None else keeping(diagnosis, treatment)


# The answer.


def _answer(diagnosis: Diagnosis, page: Page | None) -> Iterator[Block]:
    treatment, watch = diagnosis.recording.treatment, diagnosis.recording.watch
    yield from () if page is None else page.banner()
    yield from partial_note(diagnosis)
    yield Verdict(*words.sentence(diagnosis))
    if treatment is not None:
        yield Verdict(outcome(treatment, diagnosis.recording.target), "dim" if treatment.after is None else "good")
    if words.nothing_compiled(diagnosis) is None:
        yield Note(" · ".join(words.count_texts(diagnosis.summary, watch)), "dim", show="short")
        yield from () if page is None else page.coverage()
        yield Note(words.coverage_sentence(diagnosis), show="long")
        yield Figures(tuple(words.figures(diagnosis)), show="long")
        yield from () if page is None else page.shares()
    texts = [
        *words.compile_calls_text(diagnosis.recording.compile_calls),
        *([] if watch is None else words.watched_texts(watch)),
    ]
    yield Rows(tuple(Row("compiled", Note(Span(text), "dim")) for text in texts), "function", _MOST_CALLS)
    if watch is not None:
        yield Note(words.watching_text(watch), "dim")


def _todo(diagnosis: Diagnosis) -> Iterator[Section]:
    """What to do, the worst and costliest first."""
    todo = actions(diagnosis.findings)
    rows = []
    for action in todo:
        if action.fix is not None:
            code = code_line(action)
            what = Cell(action.fix.title if code is None else Span(code, "code"))
            mends = Span(mends_text(action), link=f"finding-{action.findings[0].fingerprint}")
            rows.append((what, Cell(mends), Cell(saves_text(action))))
    columns = (Column("do this", is_number=False), *(Column(name, is_number=False) for name in ("fixes", "saves")))
    if len(todo) > 1:
        yield Section("What to do", (Table(columns, tuple(rows), "thing", _MOST_ACTIONS),))
    if not todo:
        if diagnosis.findings:
            said = "The verified fixes remove every finding."
        elif diagnosis.recording.is_partial:
            said = "The run ended early, so what there is to do is unknown. Run it again once the cause above is gone."
        else:
            share = None if diagnosis.recording.guards is None else diagnosis.recording.guards.share
            guards = "" if share is None else f" Guard checks take {percent(share)} of a steady call."
            said = f"{words.nothing_to_do(diagnosis.summary)}{guards}"
        yield Section("What to do", (Note(said, show="long"),))


# Findings.


def _findings(diagnosis: Diagnosis) -> Iterator[Block]:
    """The findings of each thing to do, then those that need nothing; in short, one card for each thing to do."""
    groups = [list(words.clusters(action.findings)) for action in actions(diagnosis.findings)]
    kept = {finding.fingerprint for group in groups for cluster in group for finding in cluster}
    groups += [[cluster] for cluster in words.clusters(diagnosis.findings) if cluster[0].fingerprint not in kept]
    cards: list[Card] = []
    packages: dict[str, list[Finding]] = {}
    for first, *others in groups:
        package = first[0].location.package
        if package is not None and not any(words.worth_trying(one.fixes) or one.hints for one in first):
            packages.setdefault(package, []).append(first[0])
            cards.append(card_of(first, has_path=False, show="long"))
        else:
            cards.append(card_of(first, has_path=False, others=[cluster[0] for cluster in others]))
        cards += [card_of(cluster, has_path=False, show="long") for cluster in others]
    yield Cards(tuple(cards))
    for package, findings in packages.items():
        files = counted(len({finding.location.file for finding in findings}), "file")
        number = counted(len(findings), "finding")
        text = f"{package}: {number} in {files} without a known fix (-v shows them)"
        yield Note(Span(text), "dim", show="short")


# Graphs and records of the log.


def _graphs(diagnosis: Diagnosis) -> Iterator[Block]:
    names = ("function", "operations", "inputs", "ended by")
    columns = (Column("graph"), *(Column(name, is_number=name == "operations") for name in names))
    rows = tuple(
        (
            Cell(graph.compile_id),
            Cell(Span(graph.function)),
            Cell("?" if graph.op_count is None else str(graph.op_count)),
            Cell(Span(words.inputs_text(graph))),
            Cell(Span(words.base_name(report.ended_by)), tone=None if report.ended_by == "return" else "warning"),
        )
        for graph, report in diagnosis.each_graph()
    )
    yield Table(columns, rows, "graph")
    for graph in diagnosis.recording.graphs:
        yield Section((f"Graph {graph.compile_id} ", Span(graph.function)), tuple(_graph(graph)), show="long")


def _graph(graph: Graph) -> Blocks:
    names = ("opcode", "name", "target", "args", "kwargs", "value", "line")
    rows = tuple(
        tuple(
            Cell(Span(text))
            for text in (
                *(node.opcode, node.name, node.target, node.args, node.kwargs, node.value or ""),
                f"{words.base_name(node.file)}:{node.line}" if node.file else "",
            )
        )
        for node in graph.nodes or ()
    )
    table = Table(tuple(Column(name, is_number=False) for name in names), rows, "node")
    return (table, *((Code(graph.code.rstrip()),) if graph.code else ()))


def _environment(diagnosis: Diagnosis) -> Iterator[Row]:
    environment, target = diagnosis.recording.environment, diagnosis.recording.target
    values = {
        "torch": environment.torch,
        "Python": environment.python,
        "platform": environment.platform,
        "device": environment.device_name,
        "threads": environment.threads and f"{environment.threads:,}",
        "interpreter": environment.executable,
        "target": target.text,
        "file": target.file,
        "inputs from": target.inputs_from,
        **target.compile_arguments,
        **target.call_options,
    }
    for name, value in values.items():
        if value not in (None, "", False) and value != {}:
            yield Row(name, Span(without_middle(str(value), _VALUE)))


def _log(diagnosis: Diagnosis, page: Page | None) -> Iterator[Block]:
    yield Rows(tuple(log_rows(diagnosis)), "line")
    yield from unshown_text(diagnosis)
    yield from () if page is None else page.evidence()

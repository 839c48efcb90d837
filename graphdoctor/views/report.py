"""A diagnosis: the answer, what to do, findings, the fixes that were tried; on a page, the program
line by line too.

Comes in: a diagnosis, and for a page its picture. Goes out: a view.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.facts.base import grouped
from graphdoctor.facts.counts import CallWatch, Counts, Steadiness
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.picture import Picture
from graphdoctor.facts.recording import Graph
from graphdoctor.views import parts, words
from graphdoctor.views.actions import Action, actions, code_line, mends_text, saves_text
from graphdoctor.views.finding_cards import card_of, closing, partial_note
from graphdoctor.views.fixes import keeping, outcome, treatment_parts
from graphdoctor.views.log_words import log_rows, unshown_text
from graphdoctor.views.next_step import after_run
from graphdoctor.views.recompiles import variation_parts, what_if_parts
from graphdoctor.views.stages import stage_parts
from graphdoctor.wording import counted, duration, join_texts, percent, times

if TYPE_CHECKING:
    from graphdoctor.views.html.page import Page


_MOST_CALLS = 5
_MAX_SERIES = 10
_MAX_EAGER = 6
_MOST_ACTIONS = 5
_QUOTED = re.compile(r"`.*`")


_COUNTS = {
    "calls": "call",
    "graphs": "graph",
    "break_sites": "break site",
    "skipped_frames": "skipped frame",
    "recompiles": "recompile",
}
_ALWAYS = ("graphs", "break_sites", "skipped_frames")
"""Counts that are news even if they are 0."""


def report_view(
    diagnosis: Diagnosis, picture: Picture | None = None, *, root: Path | None = None
) -> parts.View:
    """The whole diagnosis; ``picture`` is what a page draws, None for one of the other outputs."""
    page = None
    if picture is not None:
        from graphdoctor.views.html.page import Page

        page = Page(diagnosis, picture, root or Path.cwd())
    view = words.diagnosis_view(diagnosis, "report", _parts(diagnosis, page), after_run(diagnosis))
    return view if page is None else replace(view, links=page.links)


def _parts(diagnosis: Diagnosis, page: Page | None) -> Iterator[parts.Block]:
    recording, treatment = diagnosis.recording, diagnosis.recording.treatment
    yield from _answer(diagnosis, page)
    if page is None:
        yield from _counts(diagnosis, None)
    yield from _todo(diagnosis)
    if page is not None:
        yield parts.Section("In figures", _counts(diagnosis, page), "Figures")
        yield from page.source()
    yield parts.Section(
        "Findings", _findings(diagnosis), count=len(list(words.clusters(diagnosis.findings)))
    )
    yield from () if treatment is None else treatment_parts(diagnosis, treatment)
    if page is not None:
        # Texts of these are those of other commands.
        yield from page.sections(tuple(what_if_parts(diagnosis)))
        yield parts.Section("Sensitivity", variation_parts(diagnosis))
    yield from stage_parts(diagnosis)
    yield parts.Section("Evidence", _log(diagnosis, page))
    yield words.unknown_section(words.other_gaps(diagnosis))
    yield parts.Section(
        "Environment",
        parts.Rows(words.setting_rows(recording.target, recording.environment)),
        show="long",
    )
    if page is None:
        yield parts.Section("Graphs", _graphs(diagnosis), count=len(diagnosis.graphs), show="long")
    yield from closing(diagnosis)
    yield from () if treatment is None else keeping(diagnosis, treatment)


# The answer.


def _answer(diagnosis: Diagnosis, page: Page | None) -> Iterator[parts.Block]:
    treatment = diagnosis.recording.treatment
    yield from () if page is None else page.banner()
    yield from partial_note(diagnosis)
    yield parts.Verdict(*words.sentence(diagnosis))
    if treatment is not None:
        yield parts.Verdict(
            outcome(treatment, diagnosis.recording.target),
            "dim" if treatment.after is None else "good",
        )


def _counts(diagnosis: Diagnosis, page: Page | None) -> Iterator[parts.Block]:
    watch, summary = diagnosis.recording.watch, diagnosis.summary
    if words.nothing_compiled(diagnosis) is None:
        yield parts.Note(
            " · ".join(count_texts(summary, watch, said=words.said_counts(diagnosis))),
            "dim",
            show="short",
        )
        yield parts.Figures(tuple(figures(diagnosis)), show="long")
        if page is not None and summary.coverage is not None:
            yield page.coverage()
        if summary.calls or summary.compiles or page is None:
            # What runs eagerly though nothing breaks the graph has no finding that would say so.
            has_finding = summary.break_sites or summary.skipped_frames or summary.frames_over_limit
            yield parts.Note(
                _coverage(diagnosis),
                show="long" if has_finding or summary.coverage in (None, 1) else "always",
            )
        yield from () if page is None else page.shares()
    calls = Counter(
        f"torch.compile({call.compiled}{''.join(f', {name}={value}' for name, value in call.arguments.items())}) "
        f"at {call.file}:{call.line}"
        for call in diagnosis.recording.compile_calls
    )
    texts = [f"{text}, {times(count)}" if count > 1 else text for text, count in calls.items()]
    texts += [] if watch is None else watched_texts(watch)
    yield parts.Rows(
        (parts.Row("compiled", parts.Note(parts.Span(text), "dim")) for text in texts),
        "function",
        _MOST_CALLS,
    )
    if watch is not None:
        yield parts.Note(watching_text(watch), "dim")


def count_texts(
    summary: Counts, watch: CallWatch | None, said: Collection[str] | None = None
) -> Iterator[str]:
    """The counts and times of a run, each with its noun.

    Args:
        summary: The counts.
        watch: None if it isn't a script, or wasn't watched.
        said: The fields that the verdict above has; those and zeros are left out then. None
            shows all.
    """
    for name, noun in _COUNTS.items():
        number = getattr(summary, name)
        is_shown = number and name not in said if said is not None else number or name in _ALWAYS
        if is_shown:
            yield counted(number, noun)
    if summary.frames_over_limit:
        yield f"{counted(summary.frames_over_limit, 'frame')} over the recompile limit"
    detail = summary.coverage_detail
    if said is None or "coverage" not in said:
        yield words.coverage_text(summary)
    elif detail is not None and detail.graph_ops:
        yield f"{detail.graph_ops} of {counted(detail.op_count, 'operation')} in graphs"
    if watch is not None and summary.steady_call_us is not None:
        yield _steady_text(summary.steady_call_us, watch)
    if summary.compile_time_s is not None:
        yield f"{summary.compile_time_s:.2f} s compiling"
    if (
        summary.steadiness is not None
        and (compiles := compiles_text(summary.steadiness)) is not None
    ):
        yield compiles


def compiles_text(steadiness: Steadiness) -> str | None:
    """Count the compiles of each call of a program that took several calls to settle; None for others."""
    if steadiness.compiling_calls is not None:
        return f"the last {counted(steadiness.compiling_calls, 'call')} of `{steadiness.function}` all compiled"
    if not steadiness.compiles_per_call:
        return None
    if steadiness.state in (None, "settled") and not any(steadiness.compiles_repeated or ()):
        return None
    text = f"compiles per call {_series(steadiness.compiles_per_call)}"
    repeated = steadiness.compiles_repeated
    return f"{text}; repeating the last one {_series(repeated)}" if repeated else text


def _series(numbers: Sequence[int]) -> str:
    shown = [str(number) for number in numbers]
    if len(shown) > _MAX_SERIES:
        shown = [*shown[: _MAX_SERIES - 1], "…", shown[-1]]
    return ", ".join(shown)


def figures(diagnosis: Diagnosis) -> Iterator[parts.Figure]:
    """The counts and times of a run, in the order people look for them; none that is 0."""
    summary, watch = diagnosis.summary, diagnosis.recording.watch
    findings = "findings" if diagnosis.findings else None
    if watch is not None:
        watched = f"{sum(function.watched_calls for function in watch.functions)} watched"
        yield parts.Figure(
            "calls", words.UNKNOWN if watch.calls is None else f"{watch.calls:,}", watched
        )
    elif summary.calls:
        failed = f"{summary.calls_failed} failed" if summary.calls_failed else ""
        yield parts.Figure("calls", str(summary.calls), failed, "bad" if failed else None, "calls")
    if summary.graphs:
        yield parts.Figure("graphs", str(summary.graphs), link="graphs")
    if summary.break_sites:
        reported = f"reported {times(summary.break_records)}" if summary.break_records else ""
        yield parts.Figure(
            "break sites",
            str(summary.break_sites),
            reported,
            "warning" if reported else None,
            findings,
        )
    eager = summary.skipped_frames + summary.frames_over_limit
    kinds = {"skipped": summary.skipped_frames, "over the limit": summary.frames_over_limit}
    why = ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)
    if eager:
        yield parts.Figure("functions running eagerly", str(eager), why, "bad", findings)
    if summary.recompiles:
        causes = f"for {counted(summary.recompile_causes, 'cause')}"
        yield parts.Figure("recompiles", str(summary.recompiles), causes, "warning", "recompiles")
    if summary.compiles:
        seconds = summary.compile_time_s
        took = words.UNKNOWN if seconds is None else f"{seconds:.2f} s"
        yield parts.Figure("compile time", took, counted(summary.compiles, "compile"), link="time")
    if watch is not None and summary.steady_call_us is not None:
        functions = f"{len(watch.own)} functions" if len(watch.own) > 1 else ""
        yield parts.Figure("steady call", duration(summary.steady_call_us), functions)


def _coverage(diagnosis: Diagnosis) -> str:
    detail, watch = diagnosis.summary.coverage_detail, diagnosis.recording.watch
    if detail is None or diagnosis.summary.coverage is None:
        return (
            f"Coverage is unknown{': the steady call has no tensor operations' if detail else ''}."
        )
    of = (
        "one steady call of each compiled function"
        if watch and len(watch.own) > 1
        else "a steady call"
    )
    total = counted(detail.op_count, "tensor operation")
    counts = list(detail.eager_op_names.items())
    shown = words.repeated_text(counts[:_MAX_EAGER])
    named = f": {shown}{' …' if len(counts) > _MAX_EAGER else ''}" if shown else ""
    share = percent(diagnosis.summary.coverage)
    return f"{share} compiled: {detail.graph_ops} of {total} of {of} ran in graphs, {detail.eager_ops} ran eagerly{named}."


def watched_texts(watch: CallWatch) -> list[str]:
    """Describe each watched function, if there are several; those of one line together."""
    outer = (function for function in watch.functions if function.not_covered != "nested")
    lines = grouped(
        ((function.compiled, function.file, function.line, function.process), function)
        for function in outer
    )
    texts = [
        _watched_text(CallWatch(functions=tuple(functions), cost_s=0.0))
        for functions in lines.values()
    ]
    return texts if len(texts) > 1 else []


def _watched_text(watch: CallWatch) -> str:
    first, coverage, calls = watch.functions[0], watch.coverage, watch.calls
    process = "" if first.process is None else f" in {first.process}"
    place = "" if first.file is None else f" ({words.base_name(first.file)}:{first.line})"
    several = f", compiled {times(len(watch.functions))}" if len(watch.functions) > 1 else ""
    share = "coverage unknown"
    if coverage is not None:
        operations = counted(coverage.op_count, "operation")
        is_known = coverage.share is not None
        share = (
            f"{percent(coverage.share or 0.0)} of {operations} compiled"
            if is_known
            else "no tensor operations"
        )
    return join_texts(
        " · ",
        f"{first.compiled}{place}{process}{several}: {share}",
        None if watch.graph_runs is None else f"{counted(watch.graph_runs, 'graph')} per call",
        "steady time unknown" if watch.steady_us is None else _steady_text(watch.steady_us, watch),
        None if calls is None else "1 call" if calls == 1 else f"{calls:,} calls",
    )


def _steady_text(steady_us: float, watch: CallWatch) -> str:
    """The time of a steady call, or of one of each compiled function."""
    return (
        f"{duration(steady_us)} {'for a call of each' if len(watch.own) > 1 else 'per steady call'}"
    )


def watching_text(watch: CallWatch) -> str:
    """Say how many of a script's calls were watched, and what that cost it."""
    watched = sum(function.watched_calls for function in watch.functions)
    calls = watch.calls
    of = f"{watched:,} of {calls:,} calls" if calls is not None else counted(watched, "call")
    cost = f"{watch.cost_s:.1f} s" if watch.cost_s >= 1 else f"{math.ceil(watch.cost_s * 1e3)} ms"
    return f"Watched {of}; watching added about {cost}."


def _todo(diagnosis: Diagnosis) -> Iterator[parts.Section]:
    todo = actions(diagnosis.findings)
    rows = []
    for action, *alike in grouped(
        (_kind_of(action), action) for action in todo if action.fix is not None
    ).values():
        code = code_line(action)
        more = f" and {counted(len(alike), 'line')} like it" if alike else ""
        title = words.fix_text(action.fix) if action.fix else ""
        what = f"{title}{more}" if code is None else parts.Span(code, "code")
        condition = action.fix.condition if action.fix and code is not None else None
        anchor = f"finding-{action.findings[0].fingerprint}"
        for other in alike:
            action.findings += other.findings
            action.counted_ids |= other.counted_ids
        rows.append(
            (
                what,
                (
                    parts.Span(mends_text(action), link=anchor),
                    f", {condition}" if condition else "",
                ),
                saves_text(action),
            )
        )
    if rows:
        first = parts.Column("do this", is_number=False, is_pasted=True)
        # One thing to do is said by its finding, which is all that a terminal shows.
        show: parts.Show = "always" if len(todo) > 1 else "long"
        yield parts.Section(
            "What to do",
            parts.Table((first, "fixes", "saves"), rows, "thing", _MOST_ACTIONS, show=show),
        )
    if not todo:
        if diagnosis.findings:
            said = "The verified fixes remove every finding."
        elif diagnosis.recording.is_partial:
            said = "The run ended early, so what there is to do is unknown. Run it again once the cause above is gone."
        else:
            share = None if diagnosis.recording.guards is None else diagnosis.recording.guards.share
            guards = (
                "" if share is None else f" Guard checks take {percent(share)} of a steady call."
            )
            said = f"{_nothing_to_do(diagnosis.summary)}{guards}"
        yield parts.Section("What to do", parts.Note(said, show="long"))


def _kind_of(action: Action) -> str:
    title = "" if action.fix is None else action.fix.title
    return code_line(action) or f"{action.findings[0].code} {_QUOTED.sub('', title)}"


def _nothing_to_do(summary: Counts) -> str:
    if summary.hidden_findings:
        return "Nothing: no findings are shown."
    compiled, detail, seconds = None, summary.coverage_detail, summary.compile_time_s
    if detail is not None and detail.graph_ops and not detail.eager_ops:
        graphs = (
            f" in {counted(summary.graphs_per_call, 'graph')}" if summary.graphs_per_call else ""
        )
        compiled = (
            f"all {counted(detail.graph_ops, 'tensor operation')} of a call run compiled{graphs}"
        )
    settled = "nothing recompiled" if summary.compiles and not summary.recompiles else None
    good = join_texts(": ", "Nothing", join_texts(", and ", compiled, settled))
    return f"{good}.{f' Compiling took {seconds:.2f} s.' if seconds else ''}"


# Findings.


def _findings(diagnosis: Diagnosis) -> Iterator[parts.Block]:
    """The findings of each thing to do, then those that need nothing; in short, one card for each
    thing to do.
    """
    groups = [list(words.clusters(action.findings)) for action in actions(diagnosis.findings)]
    kept = {finding.fingerprint for group in groups for cluster in group for finding in cluster}
    groups += [
        [cluster]
        for cluster in words.clusters(diagnosis.findings)
        if cluster[0].fingerprint not in kept
    ]
    cards: list[parts.Card] = []
    packages: dict[str, list[Finding]] = {}
    for first, *others in groups:
        package = first[0].location.package
        if package is not None and not any(
            words.worth_trying(finding.fixes) or finding.hints for finding in first
        ):
            packages.setdefault(package, []).append(first[0])
            cards.append(card_of(first, has_path=False, show="long"))
        else:
            cards.append(card_of(first, has_path=False, others=[cluster[0] for cluster in others]))
        cards += [card_of(cluster, has_path=False, show="long") for cluster in others]
    yield parts.Cards(tuple(cards))
    for package, findings in packages.items():
        files = counted(len({finding.location.file for finding in findings}), "file")
        number = counted(len(findings), "finding")
        yield parts.Note(
            parts.Span(f"{package}: {number} in {files} without a known fix: -v"),
            "dim",
            show="short",
        )


# Graphs and records of the log.


def _graphs(diagnosis: Diagnosis) -> Iterator[parts.Block]:
    rows = (
        (
            graph.compile_id,
            parts.Span(graph.function),
            "?" if graph.op_count is None else str(graph.op_count),
            parts.Span(words.inputs_text(graph)),
            parts.Cell(
                parts.Span(words.base_name(report.ended_by)),
                tone=None if report.ended_by == "return" else "warning",
            ),
        )
        for graph, report in diagnosis.each_graph()
    )
    yield parts.Table(("#graph", "function", "#operations", "inputs", "ended by"), rows, "graph")
    for graph in diagnosis.recording.graphs:
        yield parts.Section(
            (f"Graph {graph.compile_id} ", parts.Span(graph.function)), _graph(graph), show="long"
        )


def _graph(graph: Graph) -> parts.Blocks:
    rows = (
        (
            *map(
                parts.Span,
                (node.opcode, node.name, node.target, node.args, node.kwargs, node.value or ""),
            ),
            parts.Span(f"{words.base_name(node.file)}:{node.line}" if node.file else ""),
        )
        for node in graph.nodes or ()
    )
    table = parts.Table(
        ("opcode", "name", "target", "args", "kwargs", "value", "line"), rows, "node"
    )
    return (table, *((parts.Code(graph.code.rstrip()),) if graph.code else ()))


def _log(diagnosis: Diagnosis, page: Page | None) -> Iterator[parts.Block]:
    yield parts.Rows(log_rows(diagnosis), "line")
    yield from unshown_text(diagnosis)
    if page is not None:
        yield page.evidence()

"""A diagnosis: the answer, what to do, findings, the fixes that were tried; on a page, the program
line by line too.

Comes in: a diagnosis, and for a page its picture. Goes out: a view.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.facts.base import grouped
from graphdoctor.facts.counts import CallWatch, Counts, Steadiness
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.picture import Picture
from graphdoctor.facts.recording import Recording
from graphdoctor.views import words
from graphdoctor.views.actions import actions, todo_section
from graphdoctor.views.finding_cards import card_of, closing, partial_note
from graphdoctor.views.fixes import keeping, outcome, treatment_parts
from graphdoctor.views.log_words import log_rows, unshown_text
from graphdoctor.views.next_step import after_run
from graphdoctor.views.parts import (
    Block,
    Card,
    Cards,
    Cell,
    Code,
    Figure,
    Figures,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Table,
    Tone,
    Verdict,
    View,
)
from graphdoctor.views.recompiles import recompile_table, variation_parts, what_if_parts
from graphdoctor.views.stages import stage_parts
from graphdoctor.wording import counted, duration, join_texts, listed, percent, plural, times

if TYPE_CHECKING:
    from graphdoctor.views.html.page import Page


_MOST_CALLS = 5
_MAX_SERIES = 10
_MAX_EAGER = 6
_COUNTS: dict[str, tuple[str, Tone | None, str]] = {
    "calls": ("call", None, "calls"),
    "graphs": ("graph", None, "graphs"),
    "break_sites": ("break site", "warning", "findings"),
    "skipped_frames": ("skipped frame", "bad", "findings"),
    "recompiles": ("recompile", "warning", "recompiles"),
}
"""Of each count its noun, its tone, and the section of a page that has its details."""
_ALWAYS = ("graphs", "break_sites", "skipped_frames")
"""Counts that are news even if they are 0."""


def report_view(
    diagnosis: Diagnosis,
    picture: Picture | None = None,
    *,
    root: Path | None = None,
    is_within_limits: bool = False,
) -> View:
    """Return the whole diagnosis; ``picture`` is what a page draws, None for one of the other
    outputs.
    """
    page = None
    if picture is not None:
        from graphdoctor.views.html.page import Page

        page = Page(diagnosis, picture, root or Path.cwd())
    then = after_run(diagnosis, is_within_limits=is_within_limits)
    view = words.diagnosis_view(diagnosis, "report", _parts(diagnosis, page), then)
    return view if page is None else replace(view, links=page.links)


def _parts(diagnosis: Diagnosis, page: Page | None) -> Iterator[Block]:
    recording, treatment = diagnosis.recording, diagnosis.recording.treatment
    yield from page.banner() if page else ()
    yield from partial_note(diagnosis)
    said, tone, fields = words.verdict(diagnosis)
    yield Verdict(said, tone)
    if treatment is not None:
        tone = "dim" if treatment.after is None else "good"
        yield Verdict(outcome(treatment, recording.target), tone)
    counts = list(_counts(diagnosis, page, fields))
    yield from () if page else counts
    yield from _asking(recording)
    yield todo_section(diagnosis)
    if page is not None:
        yield Section("Figures", counts)
        yield from page.source()
    count = len(list(words.clusters(diagnosis.findings)))
    yield Section("Findings", _findings(diagnosis), count=count)
    yield from () if treatment is None else treatment_parts(diagnosis, treatment)
    kept = () if treatment is None else tuple(keeping(diagnosis, treatment))
    if page is not None:
        yield from kept
        yield from page.calls()
        # Texts of these are those of other commands.
        changes = (*recompile_table(diagnosis), *what_if_parts(diagnosis))
        yield Section("Recompiles", changes, count=diagnosis.summary.recompiles or None)
        yield from page.time()
        yield Section("Sensitivity", variation_parts(diagnosis))
    yield from stage_parts(diagnosis)
    log = (Rows(log_rows(diagnosis), "line"), *unshown_text(diagnosis))
    unknown = words.unknown_section(words.other_gaps(diagnosis))
    settings = Rows(words.setting_rows(recording.target, recording.environment))
    environment = Section("Environment", settings, show="long")
    if page is not None:
        evidence = Section("Evidence", (*log, page.evidence()), show="long")
        yield Section("About this run", (unknown, evidence, environment))
    else:
        yield from (Section("Evidence", log), unknown, environment)
        yield Section("Graphs", _graphs(diagnosis), count=len(diagnosis.graphs), show="long")
    yield from closing(diagnosis)
    yield from kept if page is None else ()


def _asking(recording: Recording) -> Iterator[Block]:
    """Name lines where compiled code can take another way than eager mode."""
    asking = [item for item in recording.tracing_branches if not item.is_answered_alike]
    own = [item for item in asking if item.location.origin == "user"]
    for lines in (own, [item for item in asking if item not in own]):
        if lines:
            places = listed([item.location.shown for item in lines], most=2)
            text = f"Asks whether it is compiled at {places}: compiled code may take another way."
            yield Note(text, "dim", show="always" if lines is own else "long")


# What was counted.


def _counts(diagnosis: Diagnosis, page: Page | None, said: Collection[str]) -> Iterator[Block]:
    watch, summary = diagnosis.recording.watch, diagnosis.summary
    if words.nothing_compiled(diagnosis) is None:
        texts = count_texts(summary, watch, said)
        yield Note(" · ".join(texts), "dim", show="short")
        yield Figures(tuple(figures(diagnosis)), show="long")
        if page is not None and summary.coverage is not None:
            yield page.coverage()
        if summary.calls or summary.compiles or page is None:
            # What runs eagerly though nothing breaks the graph has no finding that would say so.
            has_finding = summary.break_sites or summary.skipped_frames or summary.frames_over_limit
            is_said = has_finding or summary.coverage in (None, 1)
            yield Note(_coverage(diagnosis), show="long" if is_said else "always")
        yield from page.shares() if page else ()
    calls: Counter[str] = Counter()
    for call in diagnosis.recording.compile_calls:
        arguments = (f"{name}={value}" for name, value in call.arguments.items())
        text = join_texts(", ", call.compiled, *arguments)
        calls[f"torch.compile({text}) at {call.file}:{call.line}"] += 1
    compiled = [f"{text}, {times(count)}" if count > 1 else text for text, count in calls.items()]
    compiled += [] if watch is None else watched_texts(watch)
    rows = (Row("compiled", Note(Span(text), "dim")) for text in compiled)
    yield Rows(rows, "function", _MOST_CALLS)
    if watch is not None:
        watched, calls_made = _watched_calls(watch), watch.calls
        of = counted(watched, "call")
        if calls_made is not None:
            of = f"{watched:,} of {calls_made:,} calls"
        is_long = watch.cost_s >= 1
        cost = f"{watch.cost_s:.1f} s" if is_long else f"{math.ceil(watch.cost_s * 1e3)} ms"
        yield Note(f"Measured {of} (+{cost} overhead).", "dim")


def _watched_calls(watch: CallWatch) -> int:
    return sum(function.watched_calls for function in watch.functions)


def count_texts(
    summary: Counts, watch: CallWatch | None, said: Collection[str] | None = None
) -> Iterator[str]:
    """Yield the counts and times of a run, each with its noun.

    Args:
        summary: The counts.
        watch: None if it isn't a script, or wasn't watched.
        said: The fields that the verdict above has; those and zeros are left out then. None
            shows all.
    """
    for name, (noun, *_) in _COUNTS.items():
        number = getattr(summary, name)
        if (number and name not in (said or ())) or (said is None and name in _ALWAYS):
            yield words.calls_text(summary) if name == "calls" else counted(number, noun)
    if summary.frames_over_limit:
        yield f"{counted(summary.frames_over_limit, 'frame')} over the recompile limit"
    if "eager_calls" not in (said or ()):
        yield from words.eager_calls_texts(summary)
    detail = summary.coverage_detail
    if said is None or "coverage" not in said:
        yield words.coverage_text(summary)
    elif detail is not None and detail.graph_ops:
        in_graphs = f"{detail.graph_ops} of {counted(detail.op_count, 'operation')} in graphs"
        yield join_texts(", ", in_graphs, words.uncounted_text(detail))
    if watch is not None and summary.steady_call_us is not None:
        yield _steady_text(summary.steady_call_us, watch)
    if summary.compile_time_s is not None:
        yield f"{summary.compile_time_s:.2f} s compiling"
    if summary.steadiness is not None:
        yield from compiles_texts(summary.steadiness)


def compiles_texts(steadiness: Steadiness) -> Iterator[str]:
    """Count the compiles of each call of a program that took several calls to settle."""
    repeated = steadiness.compiles_repeated or ()
    per_call = steadiness.compiles_per_call + (repeated if any(repeated) else ())
    if steadiness.compiling_calls is not None:
        calls = counted(steadiness.compiling_calls, "call")
        yield f"the last {calls} of `{steadiness.function}` all compiled"
    elif per_call and (steadiness.state not in (None, "settled") or any(repeated)):
        yield f"compiles per call {_series(per_call)}"


def _series(numbers: Sequence[int]) -> str:
    shown = [str(number) for number in numbers]
    if len(shown) > _MAX_SERIES:
        shown[_MAX_SERIES - 1 : -1] = ["…"]
    return ", ".join(shown)


def figures(diagnosis: Diagnosis) -> Iterator[Figure]:
    """Yield the counts and times of a run, in the order people look for them; none that is 0."""
    summary, watch = diagnosis.summary, diagnosis.recording.watch
    if watch is not None:
        yield Figure("calls", words.UNKNOWN if watch.calls is None else f"{watch.calls:,}")
    for name, (noun, tone, link) in _COUNTS.items():
        number = getattr(summary, name)
        if number and (name != "calls" or watch is None):
            has_link = link != "findings" or diagnosis.findings
            label = noun if number == 1 else plural(noun)
            yield Figure(label, f"{number:,}", "", tone, link if has_link else None)
    if summary.frames_over_limit:
        yield Figure("frames over the recompile limit", f"{summary.frames_over_limit:,}", "", "bad")
    if summary.eager_calls:
        count = sum(summary.eager_calls.values())
        yield Figure("calls running code eagerly", f"{count:,}", "", "warning")
    if summary.compiles:
        seconds = summary.compile_time_s
        took = words.UNKNOWN if seconds is None else f"{seconds:.2f} s"
        yield Figure("compile time", took, counted(summary.compiles, "compile"), link="time")
    if watch is not None and summary.steady_call_us is not None:
        yield Figure("steady call", duration(summary.steady_call_us))


def _coverage(diagnosis: Diagnosis) -> str:
    detail, watch = diagnosis.summary.coverage_detail, diagnosis.recording.watch
    if detail is None:
        return "Coverage is unknown."
    if diagnosis.summary.coverage is None:
        return "Coverage is unknown: the steady call has no tensor operations."
    is_of_several = watch and len(watch.own) > 1
    of = "one steady call of each compiled function" if is_of_several else "a steady call"
    total = counted(detail.op_count, "tensor operation")
    counts = list(detail.eager_op_names.items())
    names = words.repeated_text(counts[:_MAX_EAGER])
    named = f": {names}{' …' if len(counts) > _MAX_EAGER else ''}" if names else ""
    share = percent(diagnosis.summary.coverage)
    uncounted = f" {words.uncounted_text(detail)}." if detail.text_ops else ""
    return (
        f"{share} compiled: {detail.graph_ops} of {total} of {of} ran in graphs, {detail.eager_ops}"
        f" ran eagerly{named}.{uncounted}"
    )


def watched_texts(watch: CallWatch) -> list[str]:
    """Describe each watched function, if there are several; those of one line together."""
    lines = grouped(
        ((function.compiled, function.file, function.line, function.process), function)
        for function in watch.functions
        if function.not_covered != "nested"
    )
    texts = []
    for (compiled, file, line, process), functions in lines.items():
        of_line = CallWatch(functions=tuple(functions), cost_s=0.0)
        coverage, calls, steady_us = of_line.coverage, of_line.calls, of_line.steady_us
        place = "" if file is None else f" ({words.base_name(file)}:{line})"
        where = "" if process is None else f" in {process}"
        several = f", compiled {times(len(functions))}" if len(functions) > 1 else ""
        share = "coverage unknown"
        if coverage is not None:
            share = "no tensor operations"
            if coverage.share is not None:
                operations = counted(coverage.op_count, "operation")
                share = f"{percent(coverage.share)} of {operations} compiled"
        graphs = of_line.graph_runs
        texts.append(
            join_texts(
                " · ",
                f"{compiled}{place}{where}{several}: {share}",
                None if graphs is None else f"{counted(graphs, 'graph')} per call",
                "steady time unknown" if steady_us is None else _steady_text(steady_us, of_line),
                None if calls is None else "1 call" if calls == 1 else f"{calls:,} calls",
            )
        )
    return texts if len(texts) > 1 else []


def _steady_text(steady_us: float, watch: CallWatch) -> str:
    """Return the time of a steady call, or of one of each compiled function."""
    of = "for a call of each" if len(watch.own) > 1 else "per steady call"
    return f"{duration(steady_us)} {of}"


def _findings(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield the findings of each thing to do, then those that need nothing; in short, one card for
    each thing to do.
    """
    groups = [list(words.clusters(action.findings)) for action in actions(diagnosis.findings)]
    kept = {finding.fingerprint for group in groups for cluster in group for finding in cluster}
    rest = words.clusters(diagnosis.findings)
    groups += [[cluster] for cluster in rest if cluster[0].fingerprint not in kept]
    cards: list[Card] = []
    for first, *others in groups:
        cards.append(card_of(first, has_path=False, others=[cluster[0] for cluster in others]))
        cards += [card_of(cluster, has_path=False, show="long") for cluster in others]
    yield Cards(tuple(cards))


def _graphs(diagnosis: Diagnosis) -> Iterator[Block]:
    rows = (
        (
            graph.compile_id,
            Span(graph.function),
            "?" if graph.op_count is None else str(graph.op_count),
            Span(words.inputs_text(graph)),
            Cell(
                Span(words.base_name(report.ended_by)),
                tone=None if report.ended_by == "return" else "warning",
            ),
        )
        for graph, report in diagnosis.each_graph()
    )
    yield Table(("#graph", "function", "#operations", "inputs", "ended by"), rows, "graph")
    for graph in diagnosis.recording.graphs:
        title = (f"Graph {graph.compile_id} ", Span(graph.function))
        code = Code(graph.code.rstrip()) if graph.code else ()
        yield Section(title, code, show="long")

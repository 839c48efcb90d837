"""Diagnoses a recording: a ``Recording`` and a ``RuleBook`` in, a ``Diagnosis`` out.

The caller passes the rules: this package doesn't import ``rules``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from graphdoctor.facts.base import sum_of_known
from graphdoctor.facts.counts import Counts, WatchedFunction
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.evidence import ShapeEvent
from graphdoctor.facts.recording import Compile, CompileCall, CompileOutcome, Recording
from graphdoctor.facts.stack import relative
from graphdoctor.rules.diagnosis.findings import (
    by_cost,
    by_effect,
    finding_of,
    with_causes,
    with_distinct_fingerprints,
    with_shared_first,
)
from graphdoctor.rules.diagnosis.matching import matches
from graphdoctor.rules.diagnosis.reports import (
    frame_reports,
    graph_reports,
    recompile_reports,
    with_costs,
)
from graphdoctor.rules.diagnosis.rule import RecordingView, RuleBook
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.diagnosis.sites import view_of
from graphdoctor.rules.diagnosis.steadiness import steadiness_of, unsettled
from graphdoctor.rules.diagnosis.verdicts import with_replays, with_verdicts

_HasFile = TypeVar("_HasFile", CompileCall, ShapeEvent, WatchedFunction)


def diagnose(
    recording: Recording,
    rules: RuleBook,
    *,
    root: Path,
    version: str,
    selection: Selection | None = None,
) -> Diagnosis:
    """Find out what a recording means.

    Args:
        recording: The facts.
        rules: What to look for.
        root: Paths below it are shown relative to it.
        version: graphdoctor's own version.
        selection: Which findings to show; None for all.

    Returns:
        The JSON document's model, findings worst first.
    """
    view = view_of(recording)
    found = [finding_of(rule, match, recording, root) for rule, match in matches(view, rules)]
    findings = with_distinct_fingerprints(
        with_shared_first(sorted(with_causes(found), key=by_effect))
    )
    _, changing = unsettled(recording)
    findings = [
        finding.replace(
            is_unsettling=not {change.key for change in changing}.isdisjoint(
                each.key for each in finding.changes
            )
        )
        for finding in with_verdicts(with_replays(findings, recording.what_if), recording)
    ]
    graphs = tuple(graph_reports(view, findings, root))
    recompiles = tuple(recompile_reports(view, findings, root))
    findings = sorted(with_costs(findings, recording, graphs, recompiles), key=by_cost)
    shown = [finding for finding in findings if (selection or Selection()).keeps(finding)]
    return Diagnosis(
        graphdoctor_version=version,
        recording=_with_relative_files(recording, root),
        summary=summary_of(view, hidden_findings=len(findings) - len(shown)),
        findings=tuple(shown),
        frames=tuple(frame_reports(view)),
        graphs=graphs,
        recompiles=recompiles,
    )


def _with_relative_files(recording: Recording, root: Path) -> Recording:
    """Without the picture, and with the files of compile calls, watched functions and shapes as in
    locations.
    """
    evidence, watch = recording.evidence, recording.watch
    return recording.replace(
        picture=None,
        compile_calls=_relative(recording.compile_calls, root),
        evidence=evidence.replace(shapes=_relative(evidence.shapes, root)),
        watch=watch and watch.replace(functions=_relative(watch.functions, root)),
    )


def _relative(facts: tuple[_HasFile, ...], root: Path) -> tuple[_HasFile, ...]:
    return tuple(
        fact if fact.file is None else fact.replace(file=relative(fact.file, root))
        for fact in facts
    )


def summary_of(view: RecordingView, *, hidden_findings: int) -> Counts:
    """Count what happened in a recording."""
    recording, steady, watch = view.recording, view.recording.steady_call, view.recording.watch
    # Distinct functions with distinct sets of changed values.
    causes = {
        (event.frame.frame_id, frozenset(change.key for change in event.changes))
        for event in view.events
        if not event.is_over_limit
    }
    compile_time_s = sum_of_known(compile_.duration_s for compile_ in recording.compiles)
    return Counts(
        calls=len(recording.calls),
        calls_failed=sum(call.outcome != "ok" for call in recording.calls),
        compiles=sum(compile_.outcome == "compiled" for compile_ in recording.compiles),
        graphs=len(recording.graphs),
        break_sites=len({(site.entry.file, site.entry.line) for site in view.sites}),
        break_records=sum(record.effect != "raised" for record in recording.breaks),
        skipped_frames=_frame_count(recording.compiles, "skipped"),
        recompiles=sum(compile_.is_recompile for compile_ in recording.compiles),
        recompile_causes=len(causes),
        frames_over_limit=_frame_count(recording.compiles, "limit"),
        coverage=recording.coverage.share if recording.coverage else None,
        coverage_detail=recording.coverage,
        # None if there were compiles and torch reported the time of none of them.
        compile_time_s=compile_time_s if recording.compiles else 0,
        steady_call_us=steady.call_us if steady else watch.steady_us if watch else None,
        graphs_per_call=len(steady.runs) if steady else watch.graph_runs if watch else None,
        steadiness=steadiness_of(view),
        cuda_graphs=None if recording.cuda_graphs is None else recording.cuda_graphs.captured,
        hidden_findings=hidden_findings,
    )


def _frame_count(compiles: Iterable[Compile], outcome: CompileOutcome) -> int:
    return len({compile_.frame_id for compile_ in compiles if compile_.outcome == outcome})

"""Diagnoses a recording: a ``Recording`` and rules in, a ``Diagnosis`` out.

The caller passes the rules: this package doesn't import them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from graphdoctor.facts.base import sum_of_known
from graphdoctor.facts.counts import Counts, WatchedFunction
from graphdoctor.facts.diagnosis import SEVERITIES, Cost, Diagnosis, Finding
from graphdoctor.facts.evidence import ShapeEvent
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.recording import Compile, CompileCall, CompileOutcome, Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.stack import relative
from graphdoctor.rules.diagnosis.recompiles import recompile_groups
from graphdoctor.rules.diagnosis.reports import (
    frame_reports,
    graph_reports,
    recompile_reports,
    with_costs,
)
from graphdoctor.rules.diagnosis.rule import (
    BreakRule,
    Findings,
    RecompileRule,
    RecordingRule,
    Rule,
    digest,
)
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.diagnosis.sites import RecordingView, view_of
from graphdoctor.rules.diagnosis.steadiness import steadiness_of, unsettled
from graphdoctor.rules.diagnosis.verdicts import with_replays, with_verdicts

_BREAK = "GD1"
_HasFile = TypeVar("_HasFile", CompileCall, ShapeEvent, WatchedFunction)


def diagnose(
    recording: Recording,
    rules: Sequence[Rule],
    *,
    root: Path,
    version: str,
    selection: Selection | None = None,
) -> Diagnosis:
    """Find out what a recording means.

    Args:
        recording: The facts.
        rules: What to look for: a site or a changed value belongs to the first that matches it.
        root: Paths below it are shown relative to it.
        version: graphdoctor's own version.
        selection: Which findings to show; None for all.

    Returns:
        The JSON document's model, findings worst first.
    """
    view = view_of(recording, root)
    matched = with_causes([_placed(finding, view) for finding in _matched(view, rules)])
    findings = with_distinct_fingerprints(with_shared_first(sorted(matched, key=by_effect)))
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


def _matched(view: RecordingView, rules: Sequence[Rule]) -> Findings:
    """Return what the rules find: break sites first, then recompiles, then the recording as a
    whole.
    """
    for site in view.sites:
        rules_of_breaks = (rule for rule in rules if isinstance(rule, BreakRule))
        rule = next(rule for rule in rules_of_breaks if rule.matches(site))
        yield rule.finding_of(view, site)
    yield from _recompiles(view, [rule for rule in rules if isinstance(rule, RecompileRule)])
    for recording_rule in rules:
        if isinstance(recording_rule, RecordingRule):
            yield from recording_rule.findings(view)


def _recompiles(view: RecordingView, rules: Sequence[RecompileRule]) -> Findings:
    def rule_of(change: GuardChange) -> RecompileRule:
        return next(rule for rule in rules if rule.matches(change))

    first_calls: dict[int, int | None] = {}
    for compile_ in view.recording.compiles:
        first_calls.setdefault(compile_.frame_id, compile_.call_index)
    for rule, group in recompile_groups(view.events, rule_of):
        calls = {first_calls.get(event.frame.frame_id) for event in group.events}
        calls |= {event.call_index for event in group.events}
        group.is_within_call = len(calls) == 1 and None not in calls
        # A resume function may have another value under an argument's name.
        if group.frame.resumes_at is None and all(
            event.call_site is None for event in group.events
        ):
            group.target = view.recording.target
        ids = {compile_.compile_id for compile_ in group.compiles}
        shapes = (shape for shape in view.recording.evidence.shapes if shape.compile_id in ids)
        group.constants = tuple(
            shape for shape in shapes if shape.kind == "specialized" and shape.text
        )
        # A group without a compile was over the recompile limit each time, which GD201 reports.
        if group.compile_count:
            yield rule.finding_of(view, group)


def with_distinct_fingerprints(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings in the same order, with equal fingerprints made distinct.

    Two equal lines in one function are two findings: the second one's fingerprint also depends on
    its position.
    """
    seen: dict[str, int] = {}
    renamed: dict[int, str] = {}
    for index, finding in sorted(enumerate(findings), key=lambda item: item[1].location.line):
        number = seen.get(finding.fingerprint, 0)
        seen[finding.fingerprint] = number + 1
        if number:
            renamed[index] = digest(finding.fingerprint, str(number))
    return [
        finding.replace(fingerprint=renamed[index]) if index in renamed else finding
        for index, finding in enumerate(findings)
    ]


def _placed(finding: Finding, view: RecordingView) -> Finding:
    return finding.replace(fixes=tuple(_fix_placed(fix, view) for fix in finding.fixes))


def _fix_placed(fix: Fix, view: RecordingView) -> Fix:
    """Return a fix whose place names its file as locations do, and the line of the only call of
    ``torch.compile``.
    """
    if fix.place is None:
        return fix
    file, line = fix.place.file, fix.place.line
    calls = {(call.file, call.line) for call in view.recording.compile_calls}
    if fix.place.where in ("compile", "compile_call") and len(calls) == 1:
        ((file, line),) = calls
    place = fix.place.replace(file=file and relative(file, view.root), line=line)
    return fix.replace(place=place)


def with_shared_first(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings; a torch setting that is for breaks on several lines comes before what is
    for one line.

    Not one that drops output: what a program prints elsewhere would go too.
    """
    lines: dict[Setting, set[tuple[str, int]]] = defaultdict(set)
    for finding in findings:
        for fix in finding.fixes:
            if fix.setting is not None and not fix.setting.drops_output:
                lines[fix.setting].add(finding.location.at)

    def is_for_one(fix: Fix) -> bool:
        return fix.setting is None or len(lines[fix.setting]) < 2

    return [
        finding.replace(fixes=tuple(sorted(finding.fixes, key=is_for_one)))
        if finding.code.startswith(_BREAK)
        else finding
        for finding in findings
    ]


def by_effect(finding: Finding) -> tuple[int, int, int, int]:
    """Sort key: severity, then how much code runs eagerly, then how many graphs and how often."""
    effects = finding.effects
    eager_count = len(effects.eager_frames)
    return (SEVERITIES.index(finding.severity), -eager_count, -len(effects.graphs), -finding.count)


def with_causes(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings; a break is as severe as what it causes, and the frame skipped for a
    consequence is one too.
    """
    breaks = [one for one in findings if one.is_consequence and one.code.startswith(_BREAK)]
    caused = {id_: one.severity for one in breaks for id_ in one.compile_ids}
    sites = {one.site for one in breaks}
    ranked = []
    for finding in findings:
        worse = [
            caused[id_]
            for id_ in finding.compile_ids
            if id_ in caused and finding.code.startswith(_BREAK)
        ]
        severity = min([finding.severity, *worse], key=SEVERITIES.index)
        is_consequence = finding.is_consequence or finding.site in sites
        ranked.append(finding.replace(severity=severity, is_consequence=is_consequence))
    return ranked


def by_cost(finding: Finding) -> tuple[object, ...]:
    """Sort key: rank, then measured time. A stable sort keeps the order of findings that cost the
    same.
    """
    cost = finding.cost or Cost()
    return *finding.rank, -(cost.call_us or 0.0), -(cost.compile_s or 0.0)


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

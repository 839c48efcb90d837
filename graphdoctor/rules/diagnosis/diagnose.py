"""Diagnoses a recording: a ``Recording`` and rules in, a ``Diagnosis`` out.

The caller passes the rules: this package doesn't import them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from graphdoctor.facts.base import grouped, sum_of_known
from graphdoctor.facts.counts import Counts, EagerReason, WatchedFunction
from graphdoctor.facts.diagnosis import SEVERITIES, Cost, Diagnosis, Finding
from graphdoctor.facts.evidence import ShapeEvent
from graphdoctor.facts.fixes import Fix, Unguarded
from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.recording import CompileCall, Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.stack import relative
from graphdoctor.rules.diagnosis.recompiles import RecompileGroup
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
from graphdoctor.rules.diagnosis.sites import RecordingView
from graphdoctor.rules.diagnosis.steadiness import steadiness_of, unsettled
from graphdoctor.rules.diagnosis.verdicts import with_replays, with_verdicts

_BREAK = "GD1"
_TENSOR_KINDS = frozenset(
    {"rank", "stride", "dtype", "device", "requires_grad", "tensor_class", "dispatch_keys"}
)
"""What torch checks of a tensor by itself; of a size that became dynamic, it's a separate guard."""
_ARGUMENT = re.compile(r"L\['(?!self')\w+'\](?:\[[^][]*\])*(?:\.size\(\)\[\d+\])?\Z")
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
    view = RecordingView(recording, root)
    findings = sorted(_with_causes([*_matched(view, rules)]), key=_by_effect)
    findings = with_distinct_fingerprints(_with_placed_fixes(findings, view))
    findings = with_verdicts(with_replays(findings, recording.what_if), recording)
    unsettling = {change.key for change in unsettled(recording)[1]}
    findings = [
        finding.replace(is_unsettling=any(change.key in unsettling for change in finding.changes))
        for finding in findings
    ]
    graphs = tuple(graph_reports(view, findings))
    recompiles = tuple(recompile_reports(view, findings))
    findings = sorted(with_costs(findings, recording, graphs, recompiles), key=by_cost)
    shown = [finding for finding in findings if (selection or Selection()).keeps(finding)]
    return Diagnosis(
        graphdoctor_version=version,
        recording=_with_relative_files(recording, root),
        summary=_summary_of(view, hidden_findings=len(findings) - len(shown)),
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
        of_breaks = (rule for rule in rules if isinstance(rule, BreakRule))
        yield next(rule for rule in of_breaks if rule.matches(site)).finding_of(view, site)
    yield from _recompiles(view, [rule for rule in rules if isinstance(rule, RecompileRule)])
    for rule in rules:
        if isinstance(rule, RecordingRule):
            yield from rule.findings(view)


def _recompiles(view: RecordingView, rules: Sequence[RecompileRule]) -> Findings:
    """Yield a finding for each function and value, or set of values that changed together."""
    recording = view.recording
    made = {call.arguments.get("dynamic") for call in recording.compile_calls}
    is_static = recording.target.compile_arguments.get("dynamic") is False or made == {"False"}
    groups: list[tuple[RecompileRule, RecompileGroup]] = []
    in_functions: dict[object, list[RecompileGroup]] = {}
    for event in view.events:
        frame = event.frame
        matched = (
            (next(rule for rule in rules if rule.matches(change)), change)
            for change in event.changes
        )
        # Changes of one rule in one event stay together.
        for rule, changes in grouped(matched).items():
            names = dict.fromkeys(change.expression for change in changes)
            function = rule, frame.file, frame.name, frame.resumes_at
            alike = in_functions.setdefault(function, [])
            group = next((group for group in alike if names.keys() & group.names.keys()), None)
            if group is None:
                group = RecompileGroup(frame, is_static=is_static, config=recording.config_in_force)
                alike.append(group)
                groups.append((rule, group))
            group.names |= names
            group.pairs += [(event, change) for change in changes]
    first_calls: dict[int, int | None] = {}
    for compile_ in recording.compiles:
        first_calls.setdefault(compile_.frame_id, compile_.call_index)
    for rule, group in groups:
        # A group without a compile was over the recompile limit each time, which GD201 reports.
        if not group.compile_count:
            continue
        calls = {first_calls.get(event.frame.frame_id) for event in group.events}
        calls |= {event.call_index for event in group.events}
        group.is_within_call = len(calls) == 1 and None not in calls
        # A resume function may have another value under an argument's name.
        is_resumed = group.frame.resumes_at is not None
        if not is_resumed and all(event.call_site is None for event in group.events):
            group.target = recording.target
        ids = {compile_.compile_id for compile_ in group.compiles}
        group.constants = tuple(
            shape
            for shape in recording.evidence.shapes
            if shape.compile_id in ids and shape.kind == "specialized" and shape.text
        )
        # Values that need different advice are findings of their own.
        advice = grouped((rule.advice(group.of([name])), name) for name in group.names)
        for together in advice.values():
            yield rule.finding_of(view, group.of(together))


def _with_causes(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings; a break is as severe as what it causes, and the frame skipped for a
    consequence is one too.
    """
    consequences = [
        finding
        for finding in findings
        if finding.is_consequence and finding.code.startswith(_BREAK)
    ]
    caused = {id_: finding.severity for finding in consequences for id_ in finding.compile_ids}
    sites = {finding.site for finding in consequences}
    for finding in findings:
        ids = finding.compile_ids if finding.code.startswith(_BREAK) else ()
        severities = [finding.severity, *(caused[id_] for id_ in ids if id_ in caused)]
        yield finding.replace(
            severity=min(severities, key=SEVERITIES.index),
            is_consequence=finding.is_consequence or finding.site in sites,
        )


def _by_effect(finding: Finding) -> tuple[int, int, int, int]:
    """Sort key: severity, then how much code runs eagerly, then how many graphs and how often."""
    effects = finding.effects
    eager_count = len(effects.eager_frames)
    return (SEVERITIES.index(finding.severity), -eager_count, -len(effects.graphs), -finding.count)


def _with_placed_fixes(findings: Sequence[Finding], view: RecordingView) -> list[Finding]:
    """Return the findings with fixes that the run doesn't contradict, whose places name files as
    locations do.

    A torch setting that is for breaks on several lines comes before what is for one line. Not one
    that drops output: what a program prints elsewhere would go too. What drops guards comes last.
    """
    lines: dict[Setting, set[tuple[str, int]]] = defaultdict(set)
    for finding in findings:
        for fix in finding.fixes:
            if fix.setting is not None and not fix.setting.drops_output:
                lines[fix.setting].add(finding.location.at)
    calls = {(relative(call.file, view.root), call.line) for call in view.recording.compile_calls}
    changed, in_force = {*_changed(view)}, view.recording.config_in_force

    def placed(fix: Fix) -> Fix:
        # The only call of torch.compile.
        if (
            fix.place is None
            or fix.place.where not in ("compile", "compile_call")
            or len(calls) > 1
        ):
            return fix
        file, line = next(iter(calls), (None, None))
        return fix.replace(place=fix.place.replace(file=file, line=line))

    def is_open(fix: Fix) -> bool:
        """Return whether the run doesn't contradict it and hasn't the setting in force."""
        chosen = fix.setting
        if chosen is None or chosen.value is None:
            return fix.unguarded not in changed
        names = (chosen.name, chosen.line.partition(" = ")[0])
        return all(in_force.get(name) != repr(chosen.value) for name in names)

    def order(finding: Finding, fix: Fix) -> tuple[bool, bool]:
        is_for_one_line = fix.setting is None or len(lines[fix.setting]) < 2
        return fix.unguarded is not None, finding.code.startswith(_BREAK) and is_for_one_line

    return [
        finding.replace(
            fixes=tuple(
                sorted(
                    (placed(fix) for fix in finding.fixes if is_open(fix)),
                    key=partial(order, finding),
                )
            )
        )
        for finding in findings
    ]


def _changed(view: RecordingView) -> Iterator[Unguarded]:
    """Yield what the run saw change, or may have, of what fixes stop torch from checking."""
    compiles = view.recording.compiles
    causes = [compile_.cause for compile_ in compiles if compile_.cause is not None]
    changes = {change for cause in causes for change in (*cause.changes, *cause.also_changed)}
    changes |= {change for event in view.events for change in event.changes}
    is_hidden = any(cause.hidden_change_count for cause in causes)
    if is_hidden or any(_may_be_of_module(change) for change in changes):
        yield "modules"
    if is_hidden or any(
        change.is_parameter or change.kind not in _TENSOR_KINDS for change in changes
    ):
        yield "values"


def _may_be_of_module(change: GuardChange) -> bool:
    if change.source is None:
        return change.kind == "unknown"
    is_argument = _ARGUMENT.match(change.source) is not None and not change.is_parameter
    return not is_argument or change.kind in ("identity", "type", "attribute", "unknown")


def with_distinct_fingerprints(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings in the same order, with equal fingerprints made distinct.

    Two equal lines in one function are two findings: the second one's fingerprint also depends on
    its position.
    """
    seen: Counter[str] = Counter()
    distinct = list(findings)
    for index, finding in sorted(enumerate(findings), key=lambda item: item[1].location.line):
        if number := seen[finding.fingerprint]:
            distinct[index] = finding.replace(fingerprint=digest(finding.fingerprint, str(number)))
        seen[finding.fingerprint] += 1
    return distinct


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

    def moved(facts: tuple[_HasFile, ...]) -> tuple[_HasFile, ...]:
        return tuple(
            fact if fact.file is None else fact.replace(file=relative(fact.file, root))
            for fact in facts
        )

    evidence, watch = recording.evidence, recording.watch
    return recording.replace(
        picture=None,
        compile_calls=moved(recording.compile_calls),
        evidence=evidence.replace(shapes=moved(evidence.shapes)),
        watch=watch and watch.replace(functions=moved(watch.functions)),
    )


def _eager_calls(recording: Recording) -> dict[EagerReason, int] | None:
    if recording.watch is not None:
        return recording.watch.eager_calls
    whys = [call.eager_because for call in recording.calls if call.outcome == "ok"]
    if not whys or any(why is None for why in whys):
        return None
    return dict(Counter(reason for why in whys for reason in (why or ())[:1]))


def _summary_of(view: RecordingView, *, hidden_findings: int) -> Counts:
    recording, watch, coverage = view.recording, view.recording.watch, view.recording.coverage
    compiles, steady = recording.compiles, recording.steady_call
    frames = {(compile_.outcome, compile_.frame_id) for compile_ in compiles}
    outcomes = Counter(outcome for outcome, _ in frames)
    # Distinct functions with distinct sets of changed values.
    causes = {
        (event.frame.frame_id, frozenset(change.key for change in event.changes))
        for event in view.events
        if any(compile_.has_recompiled for compile_ in event.compiles)
    }
    compile_time_s = sum_of_known(compile_.duration_s for compile_ in compiles)
    return Counts(
        calls=len(recording.calls),
        calls_failed=sum(call.outcome != "ok" for call in recording.calls),
        compiles=sum(compile_.outcome == "compiled" for compile_ in compiles),
        graphs=len(recording.graphs),
        break_sites=len({site.entry.at for site in view.sites}),
        break_records=sum(record.effect != "raised" for record in recording.breaks),
        skipped_frames=outcomes["skipped"],
        recompiles=sum(compile_.has_recompiled for compile_ in compiles),
        recompile_causes=len(causes),
        frames_over_limit=outcomes["limit"],
        coverage=coverage.share if coverage else None,
        coverage_detail=coverage,
        eager_calls=_eager_calls(recording),
        # None if there were compiles and torch reported the time of none of them.
        compile_time_s=compile_time_s if compiles else 0,
        steady_call_us=steady.call_us if steady else watch.steady_us if watch else None,
        graphs_per_call=len(steady.runs) if steady else watch.graph_runs if watch else None,
        steadiness=steadiness_of(view),
        cuda_graphs=recording.cuda_graphs.captured if recording.cuda_graphs else None,
        hidden_findings=hidden_findings,
    )

"""Diagnoses a recording: a ``Recording`` and a ``RuleBook`` in, a ``Diagnosis`` out.

The caller passes the rules: this package doesn't import ``rules``.
"""

from __future__ import annotations

from pathlib import Path

from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.evidence import LogEvidence
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.stack import relative
from graphdoctor.facts.watch import CallWatch
from graphdoctor.rules.diagnosis.costs import with_costs
from graphdoctor.rules.diagnosis.findings import by_cost, by_effect, finding_of, with_shared_first
from graphdoctor.rules.diagnosis.fingerprints import with_distinct_fingerprints
from graphdoctor.rules.diagnosis.matching import at_compile_call, matches
from graphdoctor.rules.diagnosis.replays import with_replays
from graphdoctor.rules.diagnosis.reports import frame_reports, graph_reports, recompile_reports
from graphdoctor.rules.diagnosis.rule import RecordingView, RuleBook
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.diagnosis.sites import view_of
from graphdoctor.rules.diagnosis.summary import summary_of
from graphdoctor.rules.diagnosis.verdicts import with_verdicts


def diagnose(
    recording: Recording, rules: RuleBook, *, root: Path, version: str, selection: Selection | None = None
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
    findings = with_replays(_findings(view, rules, root), recording.what_if)
    findings = with_verdicts(findings, recording.treatment)
    graphs = tuple(graph_reports(view, findings, root))
    recompiles = tuple(recompile_reports(view, findings, root))
    findings = sorted(with_costs(findings, recording, graphs, recompiles), key=by_cost)
    shown = [finding for finding in findings if (selection or Selection()).keeps(finding)]
    return Diagnosis(
        graphdoctor_version=version,
        is_partial=recording.is_partial,
        environment=recording.environment,
        target=recording.target,
        exit=recording.exit,
        summary=summary_of(view, hidden_findings=len(findings) - len(shown)),
        findings=tuple(shown),
        calls=recording.calls,
        compile_calls=tuple(
            call.model_copy(update={"file": relative(call.file, root)}) for call in recording.compile_calls
        ),
        watch=_with_relative_files(recording.watch, root),
        switches=recording.switches,
        frames=tuple(frame_reports(recording)),
        compiles=recording.compiles,
        graphs=graphs,
        ddp_splits=recording.ddp_splits,
        recompiles=recompiles,
        what_if=recording.what_if,
        guards=recording.guards,
        sensitivity=recording.variations,
        treatment=recording.treatment,
        evidence=_with_relative_places(recording.evidence, root),
        gaps=recording.gaps,
    )


def _with_relative_places(evidence: LogEvidence, root: Path) -> LogEvidence:
    shapes = (
        found if found.file is None else found.model_copy(update={"file": relative(found.file, root)})
        for found in evidence.shapes
    )
    return evidence.model_copy(update={"shapes": tuple(shapes)})


def _with_relative_files(watch: CallWatch | None, root: Path) -> CallWatch | None:
    if watch is None:
        return None
    functions = (
        found if found.file is None else found.model_copy(update={"file": relative(found.file, root)})
        for found in watch.functions
    )
    return watch.model_copy(update={"functions": tuple(functions)})


def _findings(view: RecordingView, rules: RuleBook, root: Path) -> list[Finding]:
    recording = view.recording
    found = [finding_of(rule, at_compile_call(match, recording), root) for rule, match in matches(view, rules)]
    return with_distinct_fingerprints(with_shared_first(sorted(found, key=by_effect)))

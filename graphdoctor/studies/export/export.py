"""A recorded program in, an ``ExportReport`` out: strict and not.

Each export has a process of its own, as whatever the program changes while it is traced must not
reach the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from graphdoctor.facts.base import values_of
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.export import Best, ExportBlocker, ExportReport, ExportWay, WayStatus
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import ExportFailure, Recording
from graphdoctor.probe.wire import EXPORT_FILE
from graphdoctor.studies.export.view import answer
from graphdoctor.trials.judge import Observed, Reference, clause, compared_with_eager
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import ExportPlan, Program, RunChange
from graphdoctor.trials.replays import Replays
from graphdoctor.version import __version__
from graphdoctor.views.reasons import reasons_text

_BREAK = "GD1"
_FOLDER = "export"
"""Below a recording: the recordings of its exports."""

LIKE_FIRST = Program(change=RunChange(alike="sizes"))
"""The calls that a program without dynamic sizes can make."""


def export(request: Request, recording: Path, diagnosis: Diagnosis, setup: Setup) -> ExportReport:
    """Export a target that was recorded already; its recording holds the answer."""
    with Replays(request, recording / _FOLDER, setup.with_limit) as replays:
        reference = Reference(replays, LIKE_FIRST, on_phase=setup.on_phase)
        ways, runs = [], []
        for is_strict in (False, True):
            setup.on_phase(f"exporting with strict={is_strict}")
            way, run = _way(reference, is_strict=is_strict)
            ways.append(way)
            runs.append(run)
    best, strict = best_of(ways), ways[1]
    exports = [run.export for run in runs if run.export is not None]
    calls = next((export.calls for export in exports if export.calls), None)
    # Strict export may stop next where torch.compile breaks.
    lines = {blocker.finding.location.at for blocker in strict.blockers}
    breaks = (
        finding
        for finding in diagnosis.findings
        if finding.code.startswith(_BREAK) and finding.location.at not in lines
    )
    report = ExportReport(
        graphdoctor_version=__version__,
        environment=diagnosis.recording.environment,
        target=diagnosis.recording.target,
        text=answer(ways, best),
        best=best,
        is_wrapped=any(export.is_wrapped for export in exports),
        ways=tuple(ways),
        calls_made=0 if calls is None else calls.made,
        calls_other=() if calls is None else calls.other,
        breaks=tuple(breaks) if strict.op_count is None else (),
        gaps=diagnosis.recording.gaps,
    )
    write_fact(report, recording / EXPORT_FILE)
    return report


def best_of(ways: Sequence[ExportWay]) -> Best | None:
    """Return the first way that is right, else one whose results are unknown; None if there is
    none.

    ``ways``: non-strict, torch's default, first.
    """
    rank: dict[WayStatus, int] = {"exported": 0, "unknown": 1}
    usable = (way for way in ways if way.status in rank)
    best = min(usable, key=lambda way: rank[way.status], default=None)
    return None if best is None else "strict" if best.is_strict else "non-strict"


def _way(reference: Reference, *, is_strict: bool) -> tuple[ExportWay, Recording]:
    """Export the program, and make its calls with the result."""
    name = f"strict-{str(is_strict).lower()}"
    exporting = LIKE_FIRST.changed(RunChange(export=ExportPlan(is_strict)))
    recording = reference.replay(exporting, name)
    export = recording.export
    if export is None:
        reason = clause(recording.exit.message)
        return ExportWay(is_strict=is_strict, status="failed", reason=reason), recording
    way = ExportWay(
        is_strict=is_strict,
        status="blocked",
        **values_of(export, "line", "seconds", "op_count", "inputs", "constraints"),
    )
    if (failure := export.failure) is not None:
        reason = _first_line(failure.message) or failure.type
        finding = next(_raised(Observed.of(recording, Path.cwd(), name=name).diagnosis), None)
        blockers = () if finding is None else (_blocker(finding, failure),)
        return way.replace(reason=reason, blockers=blockers), recording
    if recording.exit.reason != "finished" and reference.own.reason is None:
        # Eager mode makes the same calls.
        return way.replace(status="different", reason=_failed_call(recording)), recording
    judged = reference.judge(recording, exporting, name)
    status: WayStatus = "exported" if judged.correct else "different"
    compared = compared_with_eager(recording)
    differing = () if compared is None else compared.differences
    return way.replace(
        status="unknown" if judged.correct is None else status,
        reason=reasons_text(judged.reasons),
        correctness=judged.correctness,
        lost=() if recording.replay is None else recording.replay.lost,
        unwritten=tuple(item.kind for item in differing if item.kind in ("stdout", "logs")),
    ), recording


def _raised(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield the findings that made torch raise."""
    return (finding for finding in diagnosis.findings if "raised" in finding.break_effects)


def _blocker(finding: Finding, failure: ExportFailure) -> ExportBlocker:
    # That it raised is what this is about, and settings are torch.compile's.
    fixes = tuple(fix for fix in finding.fixes if fix.setting is None)
    shown = finding.replace(fixes=fixes, break_effects=(), compile_ids=())
    return ExportBlocker(finding=shown, type=failure.type, message=failure.message)


def _failed_call(recording: Recording) -> str:
    for call in recording.calls:
        if call.error is not None:
            raised = f"the exported program raises {call.error.type} in call {call.index}"
            return f"{raised}: {_first_line(call.error.message)}"
    return f"the exported program fails: {clause(recording.exit.message)}"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")

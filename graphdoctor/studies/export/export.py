"""Exports a recorded program each way.

Comes in: the program, and what its recorded run says. Goes out: an ``ExportReport``. Each export has a process of its
own, as whatever the program changes while it is traced must not reach the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from graphdoctor import __version__
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.export import DynamicShapes, ExportReport, ExportWay
from graphdoctor.facts.reading import json_of
from graphdoctor.facts.recording import ExportCalls
from graphdoctor.probe.wire import EXPORT_FILE
from graphdoctor.studies.export.attempts import LIKE_FIRST, Attempt, Exporter
from graphdoctor.studies.export.dynamic import Asked, DynamicTrials
from graphdoctor.studies.export.trials import Cure, ExportTrials
from graphdoctor.studies.export.verdict import answer, best_of
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.recorded import fitting
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import ExportPlan, Program, RunChange
from graphdoctor.trials.replays import Replays

_BREAK = "GD1"
_FOLDER = "export"
"""Below a recording: the recordings of its exports."""

_MAX_JOBS = 2


def export(
    request: Request, recording: Path, diagnosis: Diagnosis, setup: Setup, *, is_tried: bool, dynamic: bool | None
) -> ExportReport:
    """Export a target that was recorded already; its recording holds the answer.

    ``dynamic``: ask for all sizes to stay dynamic if True, for none if False, and if None for those that differ
    between the calls.
    """
    is_on_device = request.spec.device is not None
    jobs = 1 if is_on_device else fitting(diagnosis.recording.exit.peak_memory_bytes, most=_MAX_JOBS)
    with Replays(request, recording / _FOLDER, setup.with_limit) as replays:
        exporter = Exporter(replays, setup.watching.on_phase, Path.cwd(), jobs)
        report = _Exports(exporter, is_tried, dynamic).report(diagnosis)
    (recording / EXPORT_FILE).write_text(json_of(report), encoding="utf-8")
    return report


@dataclass(frozen=True)
class _Tried:
    """One way, and what came of it.

    Args:
        attempt: The export that counts: with the fixes, if some work.
    """

    way: ExportWay
    attempt: Attempt
    program: Program


@dataclass(frozen=True)
class _Exports:
    exporter: Exporter
    is_tried: bool
    asked_dynamic: bool | None

    def report(self, diagnosis: Diagnosis) -> ExportReport:
        tried = [self._tried(is_strict=is_strict) for is_strict in (False, True)]
        ways = tuple(one.way for one in tried)
        best = best_of(ways)
        exports = [one.attempt.export for one in tried if one.attempt.export is not None]
        calls = next((export.calls for export in exports if export.calls is not None), None)
        strict = ways[1]
        return ExportReport(
            graphdoctor_version=__version__,
            environment=diagnosis.recording.environment,
            target=diagnosis.recording.target,
            text=answer(ways, best),
            best=best,
            is_wrapped=any(export.is_wrapped for export in exports),
            ways=ways,
            dynamic=self._dynamic(tried, calls),
            calls_made=0 if calls is None else calls.made,
            calls_other=() if calls is None else calls.other,
            breaks=() if strict.op_count is not None or strict.is_cured else _later(diagnosis, strict),
            gaps=diagnosis.recording.gaps,
        )

    def _tried(self, *, is_strict: bool) -> _Tried:
        flag = f"strict={is_strict}"
        reference = self.exporter.reference(RunChange())
        self.exporter.on_phase(f"exporting with {flag}")
        plan = ExportPlan(is_strict)
        attempt = self.exporter.attempt(LIKE_FIRST, plan, flag.replace("=", "-").lower(), reference)
        trials = ExportTrials(self.exporter, plan)
        if attempt.blocker is None:
            return _Tried(_way(attempt, is_strict=is_strict), attempt, LIKE_FIRST)
        if not self.is_tried:
            blocker = trials.described(attempt)
            cure = Cure([] if blocker is None else [blocker])
        else:
            cure = trials.run(attempt, LIKE_FIRST)
        way = _way(attempt, is_strict=is_strict).model_copy(
            update={
                "blockers": tuple(cure.blockers),
                "is_cured": cure.attempt is not None,
                "diff": trials.diff(cure),
                "settings": cure.settings,
            }
        )
        return _Tried(way, cure.attempt or attempt, cure.program if cure.attempt else LIKE_FIRST)

    def _dynamic(self, tried: list[_Tried], calls: ExportCalls | None) -> DynamicShapes | None:
        """Which sizes can stay dynamic, in the first way that works; None if nobody asked or no way does."""
        differing = () if calls is None else calls.differing
        working = [one for one in tried if one.attempt.status in ("exported", "unknown")]
        if self.asked_dynamic is False or not working or not (differing or self.asked_dynamic):
            return None
        chosen = working[0]
        asked = Asked(chosen.way.is_strict, differing, is_all=bool(self.asked_dynamic))
        return DynamicTrials(self.exporter).run(chosen.program, asked)


def _way(attempt: Attempt, *, is_strict: bool) -> ExportWay:
    export = attempt.export
    if export is None:
        return ExportWay(is_strict=is_strict, status=attempt.status, reason=attempt.reason)
    return ExportWay(
        is_strict=is_strict,
        status=attempt.status,
        reason=attempt.reason,
        line=export.line,
        seconds=export.seconds,
        op_count=export.op_count,
        inputs=export.inputs,
        constraints=export.constraints,
        correctness=attempt.correctness,
        lost=attempt.lost,
        unwritten=attempt.unwritten,
    )


def _later(diagnosis: Diagnosis, strict: ExportWay) -> tuple[Finding, ...]:
    """Where torch.compile breaks the graph, apart from where strict export stopped already."""
    known = {(one.finding.location.file, one.finding.location.line) for one in strict.blockers}
    return tuple(
        finding
        for finding in diagnosis.findings
        if finding.code.startswith(_BREAK) and (finding.location.file, finding.location.line) not in known
    )

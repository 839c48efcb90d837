"""Exports a recorded program each way.

Comes in: the program, and what its recorded run says. Goes out: an ``ExportReport``. Each export has a process of its
own, as whatever the program changes while it is traced must not reach the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from graphdoctor import __version__
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.export import DynamicShapes, ExportReport, ExportWay
from graphdoctor.facts.reading import json_of
from graphdoctor.facts.recording import ExportCalls
from graphdoctor.probe.wire import EXPORT_FILE
from graphdoctor.studies.export.attempts import Attempt, Exporter
from graphdoctor.studies.export.dynamic import Asked, DynamicTrials
from graphdoctor.studies.export.trials import Cure, EagerRuns, ExportTrials
from graphdoctor.studies.export.verdict import answer, best_of
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.recorded import fitting
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import ExportPlan, Program, RunChange
from graphdoctor.trials.replays import Replays

_BREAK = "GD1"
_FOLDER = "export"
"""Below a recording: the recordings of its exports."""

_MAX_JOBS = 2
_LIKE_FIRST = Program(change=RunChange(alike="sizes"))
"""The calls that a program without dynamic sizes can make."""


def export(
    request: Request, recording: Path, diagnosis: Diagnosis, setup: Setup, *, is_tried: bool, dynamic: bool | None
) -> ExportReport:
    """Export a target that was recorded already; its recording holds the answer.

    Args:
        request: What the user asked for.
        recording: The folder of the recording; those of the exports go below it.
        diagnosis: What it says, under torch.compile.
        setup: How to run processes.
        is_tried: Try fixes.
        dynamic: Ask for all sizes to stay dynamic if True, for none if False, and if None for those that differ between
            the calls.
    """
    is_on_device = request.spec.device is not None
    jobs = 1 if is_on_device else fitting(diagnosis.recording.exit.peak_memory_bytes, most=_MAX_JOBS)
    with Replays(request, recording / _FOLDER, setup.with_limit) as replays:
        exports = _Exports(replays, setup.watching.on_phase, is_tried=is_tried, dynamic=dynamic, jobs=jobs)
        report = exports.report(diagnosis)
    (recording / EXPORT_FILE).write_text(json_of(report), encoding="utf-8")
    return report


@dataclass(frozen=True)
class _Tried:
    """One way, and what came of it.

    Args:
        way: For people.
        attempt: The export that counts: with the fixes, if some work.
        program: The program of that export.
    """

    way: ExportWay
    attempt: Attempt
    program: Program


class _Exports:
    def __init__(
        self, replays: Replays, on_phase: Callable[[str], None], *, is_tried: bool, dynamic: bool | None, jobs: int
    ) -> None:
        self._replays = replays
        self._on_phase = on_phase
        self._is_tried = is_tried
        self._asked_dynamic = dynamic
        self._jobs = jobs
        self._exporter = Exporter(replays)
        self._eager = EagerRuns(self._run_eager, _LIKE_FIRST.change)
        self._eager.reference(RunChange())

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

    def _run_eager(self, program: Program, prefix: str) -> Reference:
        return Reference(self._replays, program, on_phase=self._on_phase, prefix=prefix)

    def _tried(self, *, is_strict: bool) -> _Tried:
        flag = f"strict={is_strict}"
        self._on_phase(f"exporting with {flag}")
        plan = ExportPlan(is_strict)
        reference = self._eager.reference(RunChange())
        attempt = self._exporter.attempt(_LIKE_FIRST, plan, flag.replace("=", "-").lower(), reference)
        trials = ExportTrials(
            self._exporter,
            self._eager,
            plan,
            Path.cwd(),
            on_phase=self._on_phase,
            jobs=self._jobs,
        )
        if attempt.blocker is None:
            return _Tried(_way(attempt, is_strict=is_strict), attempt, _LIKE_FIRST)
        if not self._is_tried:
            blocker = trials.described(attempt)
            cure = Cure([] if blocker is None else [blocker])
        else:
            cure = trials.run(attempt, _LIKE_FIRST)
        way = _way(attempt, is_strict=is_strict).model_copy(
            update={
                "blockers": tuple(cure.blockers),
                "is_cured": cure.attempt is not None,
                "diff": trials.diff(cure),
                "settings": cure.settings,
            }
        )
        return _Tried(way, cure.attempt or attempt, cure.program if cure.attempt else _LIKE_FIRST)

    def _dynamic(self, tried: list[_Tried], calls: ExportCalls | None) -> DynamicShapes | None:
        """Which sizes can stay dynamic, in the first way that works; None if nobody asked or no way does."""
        differing = () if calls is None else calls.differing
        working = [one for one in tried if one.attempt.status in ("exported", "unknown")]
        if self._asked_dynamic is False or not working or not (differing or self._asked_dynamic):
            return None
        chosen = working[0]
        dynamic = DynamicTrials(
            self._exporter,
            self._eager,
            Path.cwd(),
            on_phase=self._on_phase,
            run_eager=self._run_eager,
        )
        asked = Asked(chosen.way.is_strict, differing, is_all=bool(self._asked_dynamic))
        return dynamic.run(chosen.program, asked)


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

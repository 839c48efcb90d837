"""Exports a recorded program each way.

Comes in: the program, and what its recorded run says. Goes out: an ``ExportReport``. Each export
has a process of its own, as whatever the program changes while it is traced must not reach the next
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphdoctor.facts.base import values_of
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.export import Best, DynamicShapes, ExportReport, ExportWay, WayStatus
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import ExportCalls
from graphdoctor.probe.wire import EXPORT_FILE
from graphdoctor.studies.export.attempts import LIKE_FIRST, Attempt, Exporter
from graphdoctor.studies.export.dynamic import DynamicTrials
from graphdoctor.studies.export.trials import ExportTrials
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.recorded import fitting
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import ExportPlan, Program, RunChange
from graphdoctor.trials.replays import Replays
from graphdoctor.version import __version__
from graphdoctor.wording import shortened

_BREAK = "GD1"
_FOLDER = "export"
"""Below a recording: the recordings of its exports."""

_MAX_JOBS = 2


def export(
    request: Request,
    recording: Path,
    diagnosis: Diagnosis,
    setup: Setup,
    *,
    is_tried: bool,
    dynamic: bool | None,
) -> ExportReport:
    """Export a target that was recorded already; its recording holds the answer.

    ``dynamic``: ask for all sizes to stay dynamic if True, for none if False, and if None for those
    that differ between the calls.
    """
    is_on_device = request.spec.device is not None
    jobs = (
        1 if is_on_device else fitting(diagnosis.recording.exit.peak_memory_bytes, most=_MAX_JOBS)
    )
    with Replays(request, recording / _FOLDER, setup.with_limit) as replays:
        report = _Exports(
            Exporter(replays, setup.on_phase, Path.cwd(), jobs), is_tried, dynamic
        ).report(diagnosis)
    write_fact(report, recording / EXPORT_FILE)
    return report


@dataclass(frozen=True)
class _Tried:
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
            breaks=()
            if strict.op_count is not None or strict.is_cured
            else _later(diagnosis, strict),
            gaps=diagnosis.recording.gaps,
        )

    def _tried(self, *, is_strict: bool) -> _Tried:
        flag = f"strict={is_strict}"
        reference = self.exporter.reference(RunChange())
        self.exporter.on_phase(f"exporting with {flag}")
        plan = ExportPlan(is_strict)
        attempt = self.exporter.attempt(LIKE_FIRST, plan, flag.replace("=", "-").lower(), reference)
        trials, way = ExportTrials(self.exporter, plan), _way(attempt, is_strict=is_strict)
        blocker = trials.described(attempt)
        if blocker is None or not self.is_tried:
            return _Tried(
                replace(way, blockers=() if blocker is None else (blocker,)), attempt, LIKE_FIRST
            )
        cure = trials.run(attempt, LIKE_FIRST)
        is_cured = cure.attempt is not None
        way = replace(
            way,
            blockers=(*cure.blockers,),
            is_cured=is_cured,
            settings=cure.settings,
            diff=trials.diff(cure),
        )
        return _Tried(way, cure.attempt or attempt, cure.program if cure.attempt else LIKE_FIRST)

    def _dynamic(self, tried: list[_Tried], calls: ExportCalls | None) -> DynamicShapes | None:
        """Which sizes can stay dynamic, in the first way that works; None if nobody asked or no way
        does.
        """
        differing = () if calls is None else calls.differing
        working = [one for one in tried if one.attempt.status in ("exported", "unknown")]
        if self.asked_dynamic is False or not working or not (differing or self.asked_dynamic):
            return None
        chosen = working[0]
        trials = DynamicTrials(
            self.exporter, chosen.way.is_strict, differing, is_all=bool(self.asked_dynamic)
        )
        return trials.run(chosen.program)


def _way(attempt: Attempt, *, is_strict: bool) -> ExportWay:
    way = ExportWay(is_strict=is_strict, status=attempt.status, reason=attempt.reason)
    if (export := attempt.export) is None:
        return way
    made = values_of(export, "line", "seconds", "op_count", "inputs", "constraints")
    return way.replace(**made, **values_of(attempt, "correctness", "lost", "unwritten"))


def _later(diagnosis: Diagnosis, strict: ExportWay) -> tuple[Finding, ...]:
    known = {(one.finding.location.file, one.finding.location.line) for one in strict.blockers}
    return tuple(
        finding
        for finding in diagnosis.findings
        if finding.code.startswith(_BREAK)
        and (finding.location.file, finding.location.line) not in known
    )


_REASON = 160
"""Characters of a reason in the answer, which stands in full below it."""


def best_of(ways: Sequence[ExportWay]) -> Best | None:
    """The way to take: the first that is right, else one whose results aren't known; None if there
    is none.

    ``ways``: non-strict, torch's default, first.
    """
    for status in ("exported", "unknown"):
        for way in ways:
            if way.status == status:
                return "strict" if way.is_strict else "non-strict"
    return None


def answer(ways: Sequence[ExportWay], best: Best | None) -> str:
    """The answer: whether torch.export takes the program, and what comes of each way."""
    works = "works" if best is not None else "doesn't work"
    return f"torch.export {works} for this program: {'; '.join(map(_came, ways))}."


def _came(way: ExportWay) -> str:
    why = shortened(way.reason or "torch doesn't say why", _REASON).rstrip(".")
    came: dict[WayStatus, str] = {
        "exported": "computes what eager mode does",
        "unknown": f"may compute something else: {why}",
        "different": f"computes something else: {why}",
        "failed": f"fails: {why}",
        "blocked": f"is refused: {why}",
    }
    text = came[way.status]
    if way.blockers:
        location = way.blockers[0].finding.location
        text = f"stops at {location.shown}"
    cured = " and works with the verified fixes" if way.is_cured else ""
    return f"`strict={way.is_strict}` {text}{cured}"

"""Exports a recorded program each way.

Comes in: the program, and what its recorded run says. Goes out: an ``ExportReport``. Each export has a process of its
own, as whatever the program changes while it is traced must not reach the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from graphdoctor import __version__
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.export import DynamicShapes, ExportReport, ExportWay, WayStatus
from graphdoctor.facts.reading import json_of
from graphdoctor.facts.recording import ExportCalls
from graphdoctor.facts.wording import shortened
from graphdoctor.probe.wire import EXPORT_FILE
from graphdoctor.studies.export.attempts import LIKE_FIRST, Attempt, Exporter
from graphdoctor.studies.export.dynamic import DynamicTrials
from graphdoctor.studies.export.trials import ExportTrials
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
        trials, way = ExportTrials(self.exporter, plan), _way(attempt, is_strict=is_strict)
        if attempt.blocker is None:
            return _Tried(way, attempt, LIKE_FIRST)
        if not self.is_tried:
            return _Tried(way.model_copy(update={"blockers": (trials.described(attempt),)}), attempt, LIKE_FIRST)
        cure = trials.run(attempt, LIKE_FIRST)
        update = {"blockers": tuple(cure.blockers), "is_cured": cure.attempt is not None, "settings": cure.settings}
        way = way.model_copy(update={**update, "diff": trials.diff(cure)})
        return _Tried(way, cure.attempt or attempt, cure.program if cure.attempt else LIKE_FIRST)

    def _dynamic(self, tried: list[_Tried], calls: ExportCalls | None) -> DynamicShapes | None:
        """Which sizes can stay dynamic, in the first way that works; None if nobody asked or no way does."""
        differing = () if calls is None else calls.differing
        working = [one for one in tried if one.attempt.status in ("exported", "unknown")]
        if self.asked_dynamic is False or not working or not (differing or self.asked_dynamic):
            return None
        chosen = working[0]
        trials = DynamicTrials(self.exporter, chosen.way.is_strict, differing, is_all=bool(self.asked_dynamic))
        return trials.run(chosen.program)


def _way(attempt: Attempt, *, is_strict: bool) -> ExportWay:
    way = ExportWay(is_strict=is_strict, status=attempt.status, reason=attempt.reason)
    if (export := attempt.export) is None:
        return way
    made = {name: getattr(export, name) for name in ("line", "seconds", "op_count", "inputs", "constraints")}
    came = {name: getattr(attempt, name) for name in ("correctness", "lost", "unwritten")}
    return way.model_copy(update=made | came)


def _later(diagnosis: Diagnosis, strict: ExportWay) -> tuple[Finding, ...]:
    known = {(one.finding.location.file, one.finding.location.line) for one in strict.blockers}
    return tuple(
        finding
        for finding in diagnosis.findings
        if finding.code.startswith(_BREAK) and (finding.location.file, finding.location.line) not in known
    )


Best = Literal["strict", "non-strict"]

_REASON = 160
"""Characters of a reason in the answer, which stands in full below it."""


def best_of(ways: Sequence[ExportWay]) -> Best | None:
    """The way to take: the first that is right, else one whose results aren't known; None if there is none.

    ``ways``: non-strict, torch's default, first.
    """
    for status in ("exported", "unknown"):
        for way in ways:
            if way.status == status:
                return name_of(way)
    return None


def name_of(way: ExportWay) -> Best:
    """What a way is called."""
    return "strict" if way.is_strict else "non-strict"


def answer(ways: Sequence[ExportWay], best: Best | None) -> str:
    """The answer, in one or two sentences."""
    if best is None:
        if all(way.status == "different" for way in ways):
            reasons = dict.fromkeys(_short(way.reason) for way in ways)
            return f"torch.export makes a program, but it computes something else: {'; '.join(reasons)}."
        troubles = [_trouble(way) for way in ways]
        places = [_place(way) for way in ways]
        is_one = None not in places and len(set(places)) == 1
        said = f"strict or not, it stops at {places[0]}" if is_one else "; ".join(troubles)
        return f"torch.export doesn't take this program: {said}.{_cured(ways)}"
    chosen = next(way for way in ways if name_of(way) == best)
    others = [way for way in ways if way is not chosen]
    right = "and it computes what eager mode does"
    if chosen.status == "unknown":
        right = f"but whether it computes what eager mode does is unknown: {_short(chosen.reason)}"
    if all(way.status == chosen.status for way in others):
        return f"torch.export takes this program, strict or not, {right}."
    said = "; ".join(_trouble(way) for way in others)
    return (
        f"torch.export takes this program with {_flag(chosen)}, {right}. {said[:1].upper()}{said[1:]}.{_cured(others)}"
    )


def _flag(way: ExportWay) -> str:
    return f"`strict={way.is_strict}`"


def _trouble(way: ExportWay) -> str:
    flag, why = _flag(way), _short(way.reason)
    said: dict[WayStatus, str] = {
        "exported": f"{flag} works too",
        "unknown": f"with {flag}, whether it is right is unknown: {why}",
        "different": f"with {flag}, the program computes something else: {why}",
        "failed": f"{flag} fails: {why}",
        "blocked": f"{flag} stops at {_place(way)}" if way.blockers else f"{flag} is refused: {why}",
    }
    return said[way.status]


def _place(way: ExportWay) -> str | None:
    if way.status != "blocked" or not way.blockers:
        return None
    location = way.blockers[0].finding.location
    return f"{location.shown_file}:{location.line}"


def _cured(ways: Sequence[ExportWay]) -> str:
    cured = [_flag(way) for way in ways if way.is_cured]
    if not cured:
        return ""
    return f" With the verified fixes, {' and '.join(cured)} {'works' if len(cured) == 1 else 'work'}."


def _short(reason: str | None) -> str:
    return shortened(reason or "torch doesn't say why", _REASON).rstrip(".")

"""A recorded program in, an ``ExportReport`` out: strict and not.

Each export has a process of its own, as whatever the program changes while it is traced must not
reach the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graphdoctor.facts.base import values_of
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.export import Best, ExportReport, ExportWay
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import Export
from graphdoctor.probe.wire import EXPORT_FILE
from graphdoctor.studies.export.trials import LIKE_FIRST, Exporter, ExportTrials
from graphdoctor.studies.export.view import answer
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.recorded import fitting
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import ExportPlan, RunChange
from graphdoctor.trials.replays import Replays
from graphdoctor.version import __version__

_BREAK = "GD1"
_FOLDER = "export"
"""Below a recording: the recordings of its exports."""

_MAX_JOBS = 2


def export(
    request: Request, recording: Path, diagnosis: Diagnosis, setup: Setup, *, is_tried: bool
) -> ExportReport:
    """Export a target that was recorded already; its recording holds the answer."""
    is_on_device = request.spec.device is not None
    peak_bytes = diagnosis.recording.exit.peak_memory_bytes
    jobs = 1 if is_on_device else fitting(peak_bytes, most=_MAX_JOBS)
    with Replays(request, recording / _FOLDER, setup.with_limit) as replays:
        exporter = Exporter(replays, setup.on_phase, Path.cwd(), jobs)
        pairs = [
            _way(exporter, is_strict=is_strict, is_tried=is_tried) for is_strict in (False, True)
        ]
    ways, exports = zip(*pairs, strict=True)
    best, strict = best_of(ways), ways[1]
    calls = next((export.calls for export in exports if export and export.calls), None)
    is_known = strict.op_count is not None or strict.is_cured
    report = ExportReport(
        graphdoctor_version=__version__,
        environment=diagnosis.recording.environment,
        target=diagnosis.recording.target,
        text=answer(ways, best),
        best=best,
        is_wrapped=any(export is not None and export.is_wrapped for export in exports),
        ways=ways,
        calls_made=0 if calls is None else calls.made,
        calls_other=() if calls is None else calls.other,
        breaks=() if is_known else _later(diagnosis, strict),
        gaps=diagnosis.recording.gaps,
    )
    write_fact(report, recording / EXPORT_FILE)
    return report


def _way(exporter: Exporter, *, is_strict: bool, is_tried: bool) -> tuple[ExportWay, Export | None]:
    flag, plan = f"strict={is_strict}", ExportPlan(is_strict)
    reference = exporter.reference(RunChange())
    exporter.on_phase(f"exporting with {flag}")
    attempt = exporter.attempt(LIKE_FIRST, plan, flag.replace("=", "-").lower(), reference)
    trials, made = ExportTrials(exporter, plan), attempt.export
    way = ExportWay(is_strict=is_strict, status=attempt.status, reason=attempt.reason)
    if made is not None:
        values = values_of(made, "line", "seconds", "op_count", "inputs", "constraints")
        way = way.replace(**values, **values_of(attempt, "correctness", "lost", "unwritten"))
    if attempt.blocker is None:
        return way, made
    if not is_tried:
        blocker = trials.blocker(attempt.blocker, attempt, LIKE_FIRST)
        return way.replace(blockers=(blocker,)), made
    cure = trials.run(attempt, LIKE_FIRST)
    values = values_of(cure, "is_cured", "settings", "diff")
    return way.replace(blockers=tuple(cure.blockers), **values), cure.export or made


def _later(diagnosis: Diagnosis, strict: ExportWay) -> tuple[Finding, ...]:
    """Return breaks of torch.compile where strict export may stop next."""
    locations = [blocker.finding.location for blocker in strict.blockers]
    lines = {(location.file, location.line) for location in locations}
    return tuple(
        finding
        for finding in diagnosis.findings
        if finding.code.startswith(_BREAK)
        and (finding.location.file, finding.location.line) not in lines
    )


def best_of(ways: Sequence[ExportWay]) -> Best | None:
    """Return the first way that is right, else one whose results are unknown; None if there is
    none.

    ``ways``: non-strict, torch's default, first.
    """
    for status in ("exported", "unknown"):
        for way in ways:
            if way.status == status:
                return "strict" if way.is_strict else "non-strict"
    return None

"""Exports a recorded target, each way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor import __version__
from graphdoctor.facts.reading import json_of
from graphdoctor.probe.wire import EXPORT_FILE
from graphdoctor.trials.launch.recorded import fitting

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.export import ExportReport
    from graphdoctor.facts.recording import Recording
    from graphdoctor.trials.launch.child import Setup
    from graphdoctor.trials.launch.request import Request

EXPORT_FOLDER = "export"
"""Below a recording: the recordings of its exports."""

_MAX_JOBS = 2


@dataclass(frozen=True)
class Exporting:
    """How to export.

    Args:
        dynamic: Ask for all sizes to stay dynamic if True, for none if False, and if None for those that differ between
            the calls.
    """

    is_tried: bool
    dynamic: bool | None


def export_target(
    request: Request, recording: Path, diagnosis: Diagnosis, asked: Exporting, setup: Setup
) -> ExportReport:
    """Export a target that was recorded already; its recording holds the answer."""
    # Not earlier: the recorded run begins sooner.
    from graphdoctor.studies.export.export import Choices, export
    from graphdoctor.trials.replays import Replays

    choices = Choices(
        root=Path.cwd(),
        on_phase=setup.watching.on_phase,
        diagnose=_diagnosed,
        is_tried=asked.is_tried,
        dynamic=asked.dynamic,
        jobs=1
        if request.spec.device is not None
        else fitting(diagnosis.recording.exit.peak_memory_bytes, most=_MAX_JOBS),
    )
    with Replays(request, recording / EXPORT_FOLDER, setup.with_limit) as replays:
        report = export(replays, diagnosis, choices, version=__version__)
    (recording / EXPORT_FILE).write_text(json_of(report), encoding="utf-8")
    return report


def _diagnosed(recording: Recording) -> Diagnosis:
    from graphdoctor.rules.catalog import RULES
    from graphdoctor.rules.diagnosis.diagnose import diagnose

    return diagnose(recording, RULES, root=Path.cwd(), version=__version__)

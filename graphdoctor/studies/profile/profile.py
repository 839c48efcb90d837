"""Runs a target to see where the time of its calls goes."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from graphdoctor import __version__
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.profile import ProfileReport
from graphdoctor.facts.reading import json_of
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.result import ProfileResult
from graphdoctor.probe.wire import PROFILE_FILE
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.studies.profile.keeping_less import try_keeping_less
from graphdoctor.studies.profile.report import profile_report
from graphdoctor.trace.cache_keys import key_changes
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch.calibrations import keep_calibration, kept_calibrations
from graphdoctor.trials.launch.child import Setup, Watching, record
from graphdoctor.trials.launch.recorded import Recorded, record_target
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.trials.launch.store import Store

_RESTART = "restart"
"""The folder of the second start, below the first one's."""


@dataclass(frozen=True)
class Profile:
    """A profile that was just made."""

    recorded: Recorded
    diagnosis: Diagnosis
    result: ProfileResult


def profile_target(
    request: Request,
    store: Store,
    setup: Setup,
    selection: Selection,
    *,
    is_restarted: bool = False,
    is_tried: bool = False,
) -> Profile:
    """Record a target's calls and profile the last one; the recording holds the report."""
    with tempfile.TemporaryDirectory(prefix="graphdoctor-", ignore_cleanup_errors=True) as caches:
        measured = replace(
            request.measured, kernels=True, memory=True, profile=caches, calibrations=kept_calibrations()
        )
        recorded = record_target(replace(request, measured=measured), store, setup)
        again = _restarted(request, setup, caches, recorded) if is_restarted else None
    # The lines' text is in the picture.
    found = read_recording(recorded.folder, picture=True)
    calibration = None if found.profiled is None else found.profiled.calibration
    if calibration is not None and calibration.is_steady and not calibration.is_kept:
        keep_calibration(calibration)
    diagnosis = diagnose(found, RULES, root=Path.cwd(), version=__version__, selection=selection)
    report = profile_report(found, diagnosis, again, version=__version__)
    if is_tried:
        report = _with_less_kept(report, found, request, recorded.folder, setup)
    if again is not None and again.caches is not None and again.caches.misses:
        changes = key_changes(recorded.folder, recorded.folder / _RESTART)
        report = report.model_copy(update={"restart_changes": changes})
    (recorded.folder / PROFILE_FILE).write_text(json_of(report), encoding="utf-8")
    return Profile(recorded, diagnosis, ProfileResult(report, found.picture))


def _with_less_kept(
    report: ProfileReport, found: Recording, request: Request, folder: Path, setup: Setup
) -> ProfileReport:
    """The report with what keeping less for the backward pass did, where the call runs one and keeps something."""
    memory = report.memory
    if found.profiled is None or memory is None or not memory.has_backward or not memory.saved_bytes:
        return report
    trial = try_keeping_less(
        request, folder, memory, found.profiled.smaller_budget, setup, draws_random=found.profiled.draws_random
    )
    return report.model_copy(update={"memory": memory.model_copy(update={"trial": trial})})


def _restarted(request: Request, setup: Setup, caches: str, recorded: Recorded) -> Recording | None:
    """The program in a new process that finds what the first left on disk; None if one of the two failed."""
    if recorded.exit.reason != "finished":
        return None
    setup.watching.on_phase("starting once more")
    folder = recorded.folder / _RESTART
    folder.mkdir()
    # The first start has already shown what the program prints.
    quiet = replace(setup, watching=Watching())
    ended = record(replace(request, measured=Measured(profile=caches)), folder, quiet)
    return read_recording(folder) if ended.reason == "finished" else None

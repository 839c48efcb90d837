"""Runs a target to see where the time of its calls goes."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.profile import ProfileResult
from graphdoctor.facts.reading import write_fact
from graphdoctor.probe.wire import PROFILE_FILE
from graphdoctor.rules.diagnosed import diagnosis_of
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.studies.profile.report import profile_report
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.recorded import Recorded, record_target
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.launch.store import Store
from graphdoctor.version import __version__


def profile_target(
    request: Request, store: Store, setup: Setup, selection: Selection
) -> tuple[Recorded, Diagnosis, ProfileResult]:
    """Record a target's calls and profile the last one; the recording holds the report."""
    with tempfile.TemporaryDirectory(prefix="graphdoctor-", ignore_cleanup_errors=True) as caches:
        measured = replace(request.measured, kernels=True, memory=True, profile=caches)
        recorded = record_target(replace(request, measured=measured), store, setup)
    setup.on_phase("reading the recording")
    # The lines' text is in the picture.
    recording = read_recording(recorded.folder, picture=True)
    diagnosis = diagnosis_of(recording, root=Path.cwd(), selection=selection)
    report = profile_report(recording, diagnosis, version=__version__)
    if recorded.exit.reason == "finished":
        write_fact(report, recorded.folder / PROFILE_FILE)
    return recorded, diagnosis, ProfileResult(report, recording.picture)

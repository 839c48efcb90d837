"""``graphdoctor export``: whether torch.export takes a target, and what blocks it."""

from __future__ import annotations

from graphdoctor.commands.options import Given, OutputOptions, TargetArgument, with_options
from graphdoctor.commands.running import begin, finish, recording_of, tell_place
from graphdoctor.facts.spec import RunSpec
from graphdoctor.rules.diagnosed import diagnose_recording
from graphdoctor.studies.documents import EXPORT
from graphdoctor.trials.launch.request import Request


@with_options(
    formats=EXPORT.names,
    without=("backend", "mode", "dynamic", "fullgraph", "options", "regional", "backward"),
)
def export(target: TargetArgument, spec: RunSpec, common: OutputOptions, flags: Given) -> None:
    """Find out whether torch.export takes a model, and what blocks it.

    Strict and not, each in a process of its own; the exported program is compared with eager mode.

    Examples:
        graphdoctor export model.py: strict or not, and what is in the way
        graphdoctor export model.py -o export.html: as a page
    """
    settings, output = begin(EXPORT, common, flags)
    request = Request.of(spec, target=target)
    with recording_of(request, settings, common, is_warm=True) as (recorded, setup):
        diagnosis = diagnose_recording(recorded.folder).diagnosis
        if not recorded.is_explained(diagnosis):
            finish(recorded, diagnosis)
        # Not earlier: the recorded run begins sooner.
        from graphdoctor.studies.export.export import export as exported

        # What torch.compile alone refuses, torch.export may take.
        report = exported(request, recorded.folder, diagnosis, setup)
    output.write(report)
    tell_place(recorded.made)

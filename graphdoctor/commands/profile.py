"""``graphdoctor profile``: where the time of a compiled call goes."""

from __future__ import annotations

from graphdoctor.commands.named import NamedRun, kept_report, place_or_target
from graphdoctor.commands.options import CommonOptions, Given, TargetOrReportArgument, with_options
from graphdoctor.commands.running import begin, finish, set_up
from graphdoctor.facts.profile import ProfileReport, ProfileResult
from graphdoctor.facts.spec import RunSpec
from graphdoctor.rules.diagnosed import Needs
from graphdoctor.trials.launch.request import Request
from graphdoctor.views.formats import PROFILE


@with_options(formats=PROFILE.names, defaults={"backend": "inductor"})
def profile(
    spec: RunSpec, common: CommonOptions, flags: Given, target: TargetOrReportArgument = None
) -> None:
    """Report where the time of a compiled call goes.

    By line and by kernel, with what limits the call.

    Examples:
        graphdoctor profile model.py: by line and by kernel
        graphdoctor profile model.py -o profile.html: as a page, with the generated code
    """
    from graphdoctor.studies.profile.profile import profile_target

    settings, output = begin(PROFILE, common, flags)
    selection = common.selection(settings)
    place = place_or_target(target, settings)
    if place is not None:
        flags.refuse_run()
        output.write(kept_profile(place, output.needs))
        return
    request = Request.of(spec, target=target)
    with set_up(settings, common) as setup:
        recorded, diagnosis, result = profile_target(request, settings.store, setup, selection)
    if recorded.exit.reason == "finished":
        output.write(result)
    finish(recorded, diagnosis)


def kept_profile(place: NamedRun, needs: Needs) -> ProfileResult:
    """Read the report of an earlier ``profile``."""
    from graphdoctor.trace.reader import read_recording

    report = kept_report(place, ProfileReport)
    has_picture = needs.picture and place.kind == "folder"
    return ProfileResult(
        report, read_recording(place.path, picture=True).picture if has_picture else None
    )

"""``graphdoctor keep``: a name for a recording, with which it stays."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from graphdoctor.commands.named import place_named
from graphdoctor.commands.options import RECORDINGS, argument, with_options
from graphdoctor.commands.running import project_settings
from graphdoctor.commands.terminal import say
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import option
from graphdoctor.trials.launch.store import name_of


@with_options()
def keep(
    name: Annotated[str, argument("The name: letters, digits, dots, - and _.")],
    recording: Annotated[str | None, argument("The recording. By default, the last one.")] = None,
    is_dropped: bool = option(
        False, "Take the name away again, so that the recording goes with time.", flag="--drop"
    ),
    recordings: Path | None = RECORDINGS,
) -> None:
    """Name a recording, so that it stays and every command finds it by that name.

    Examples:
        graphdoctor keep before-refactoring: the last recording
        graphdoctor keep --drop nightly: let it go with time
    """
    settings = project_settings(recordings)
    named = settings.store.find(name)
    if is_dropped:
        if named is None or name_of(named) is None:
            raise GraphDoctorError(
                f"No recording is kept as {name}.", hint="graphdoctor list shows their names."
            )
        settings.store.keep(named, None)
        say(f"{named.name} is no longer kept as {name}.")
        return
    if not re.fullmatch(r"[A-Za-z0-9_][\w.-]{0,59}", name):
        raise GraphDoctorError(
            f"{name!r} can't be a recording's name.", hint="Use letters, digits, dots, - and _."
        )
    if named is not None and recording is None and named.name == name:
        raise GraphDoctorError(
            f"{name} is a recording.", hint=f"Give it a name: graphdoctor keep NAME {name}"
        )
    place = place_named(recording, settings)
    if place.kind != "folder" or settings.store.find(place.path.name) is None:
        raise GraphDoctorError(
            f"{place.location} is no recording of this folder.", hint="graphdoctor list shows them."
        )
    if named is not None and named.resolve() != place.path.resolve():
        raise GraphDoctorError(
            f"{named.name} is kept as {name} already.", hint=f"graphdoctor keep --drop {name}"
        )
    settings.store.keep(place.path, name)
    say(f"{place.path.name} is kept as {name}.")

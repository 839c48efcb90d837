"""``graphdoctor list`` and ``graphdoctor keep``: the recordings that are kept here, and their
names.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from graphdoctor.commands.named import NamedRun, kept_study, place_named
from graphdoctor.commands.options import COLOR, RECORDINGS, argument, with_options
from graphdoctor.commands.profile import kept_profile
from graphdoctor.commands.running import project_settings
from graphdoctor.commands.terminal import Color, console_of, say
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.spec import option
from graphdoctor.probe.wire import PROFILE_FILE
from graphdoctor.rules.diagnosed import Needs, diagnose_recording
from graphdoctor.trials.launch.store import made_at, name_of
from graphdoctor.views import parts
from graphdoctor.views.measures import bytes_text
from graphdoctor.views.words import first_sentence
from graphdoctor.wording import join_texts


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


@with_options()
def list(recordings: Path | None = RECORDINGS, color: Color = COLOR) -> None:
    """List the recordings that are kept here, the newest first.

    Those with a name stay. Of the others the newest stay, as many as the setting keep_recordings
    says: single runs, and as many that took many runs.

    Examples:
        graphdoctor list: what ran, when, what came out, and how large it is
        graphdoctor list --recordings runs: those in another folder
    """
    from graphdoctor.views.terminal import write_view

    rows = [
        row
        for path in project_settings(recordings).store.newest()
        if (row := _row(path)) is not None
    ]
    pieces = (parts.Rows(rows, "recording"),) if rows else ("There are no recordings here.",)
    then = "graphdoctor report" if rows else "graphdoctor --help"
    write_view(parts.View(("recordings",), "recordings", pieces, then=then), console_of(color))


def _row(path: Path) -> parts.Row | None:
    """Return when it was made, what ran, its name, its size and what came out; None if it was
    removed meanwhile.
    """
    when = made_at(path)
    try:
        command, target, said = _result(path)
        size = bytes_text(sum(file.lstat().st_size for file in path.rglob("*")))
    except GraphDoctorError as error:
        command, target, said, size = "unreadable", "", error.message, None
    except FileNotFoundError:
        return None
    name = name_of(path)
    title = (
        parts.Span(join_texts(" ", command, target), "strong"),
        f" · {size}" if size else "",
        " · ",
        parts.Span(name or path.name),
    )
    label = "" if when is None else f"{when:%Y-%m-%d %H:%M}"
    return parts.Row(label, (parts.Note(title), parts.Note(first_sentence(said), "dim")))


def _result(path: Path) -> tuple[str, str, str]:
    """Return the command that made it, its target, and the answer."""
    from graphdoctor.views.fixes import outcome
    from graphdoctor.views.words import verdict

    diagnosis = diagnose_recording(path).diagnosis
    recording = diagnosis.recording
    target = recording.target.text or ""
    if (study := kept_study(NamedRun(path, "folder"))) is not None:
        return study.command, target, study.answer or verdict(diagnosis)[0]
    if (path / PROFILE_FILE).is_file():
        regime = kept_profile(NamedRun(path, "folder"), Needs()).report.regime
        return "profile", target, verdict(diagnosis)[0] if regime is None else regime.text
    ended = (recording.exit.message or "Ended early.") if recording.is_partial else None
    if recording.treatment is not None:
        command = "fix" if recording.treatment.patch is None else "try"
        # Of a run that made no call, its end says it all.
        is_tried = ended is None or recording.calls or recording.compiles
        said = outcome(recording.treatment, recording.target) if is_tried else ended
        return command, target, said or ""
    # One that ended before its answer was written is known by the folder of its processes.
    command = "run" if recording.target.runs_itself else "explain"
    folders = {"bench": "bench", "cure": "cure", "fixes": "fix"}
    began = (name for folder, name in folders.items() if (path / folder).is_dir())
    return next(began, command), target, ended or verdict(diagnosis)[0]

"""``graphdoctor list``: the recordings that are kept here, and what each found."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.commands.named import Place, kept_study
from graphdoctor.commands.options import COLOR, RECORDINGS, with_options
from graphdoctor.commands.profile import kept_profile
from graphdoctor.commands.running import project_settings
from graphdoctor.commands.terminal import Color, console_of
from graphdoctor.errors import GraphDoctorError
from graphdoctor.probe.wire import PROFILE_FILE
from graphdoctor.rules.diagnosed import Needs, diagnose_recording
from graphdoctor.trials.launch.store import made_at, name_of
from graphdoctor.views.measures import bytes_text
from graphdoctor.views.parts import Note, Row, Rows, Span, View
from graphdoctor.views.words import first_sentence
from graphdoctor.wording import join_texts


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

    found = [
        row
        for path in project_settings(recordings).store.newest()
        if (row := _row(path)) is not None
    ]
    parts = (Rows(found, "recording"),) if found else ("There are no recordings here.",)
    then = "graphdoctor report" if found else "graphdoctor --help"
    write_view(View(("recordings",), "recordings", parts, then=then), console_of(color))


def _row(path: Path) -> Row | None:
    """When it was made, what ran, its name, its size and what came out; None if it was removed
    meanwhile.
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
        Span(join_texts(" ", command, target), "strong"),
        f" · {size}" if size else "",
        " · ",
        Span(name or path.name),
    )
    label = "" if when is None else f"{when:%Y-%m-%d %H:%M}"
    return Row(label, (Note(title), Note(first_sentence(said), "dim")))


def _result(path: Path) -> tuple[str, str, str]:
    """The command that made it, its target, and the answer."""
    from graphdoctor.views.fixes import outcome
    from graphdoctor.views.words import sentence

    diagnosis = diagnose_recording(path).diagnosis
    recording = diagnosis.recording
    target = recording.target.text or ""
    if (study := kept_study(Place(path, "folder"))) is not None:
        return study.command, target, study.said or sentence(diagnosis)[0]
    if (path / PROFILE_FILE).is_file():
        regime = kept_profile(Place(path, "folder"), Needs()).report.regime
        return "profile", target, sentence(diagnosis)[0] if regime is None else regime.text
    if recording.treatment is not None:
        return (
            "fix" if recording.treatment.patch is None else "try",
            target,
            outcome(recording.treatment, recording.target),
        )
    said = "Ended early." if recording.is_partial else sentence(diagnosis)[0]
    return "run" if recording.target.runs_itself else "explain", target, said

"""Collects a bundle. Comes in: a recording's place on disk and what is wanted. Goes out: the files
by name.
"""

from __future__ import annotations

import io
import itertools
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from graphdoctor import __version__
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.diagnosis import Result
from graphdoctor.facts.picture import Picture
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.wording import counted
from graphdoctor.probe.wire import (
    CRASH_FILE,
    DECLINED_FILE,
    EVENTS_FILE,
    FIXES_FILE,
    META_FILE,
    REQUEST_FILE,
    TRACE_FOLDER,
    WHAT_IF_FILE,
)
from graphdoctor.rules.diagnosed import diagnosis_of
from graphdoctor.studies.bundle.attempt import NOT_TRIED, REFUSED, Attempt, attempt, command_lines
from graphdoctor.studies.bundle.environment_values import EnvironmentValues
from graphdoctor.studies.bundle.logs import LOGS, plain_logs
from graphdoctor.studies.bundle.reproduce import SCRIPT, Script, write_script
from graphdoctor.studies.bundle.texts import environment_text, issue_text, readme_text, title_of
from graphdoctor.trace.folder import read_object
from graphdoctor.trace.logs import find_logs
from graphdoctor.trace.reader import read_recording
from graphdoctor.trace.storage.places import LocalFolder, is_own_file
from graphdoctor.trials.launch.ownership import is_own
from graphdoctor.views.formats import DIAGNOSIS, RenderOptions
from graphdoctor.views.json import json_text

MAX_FILE_BYTES = 256 * 2**20
"""Larger files of the recording are left out."""
_OWN_FILES = (
    REQUEST_FILE,
    META_FILE,
    EVENTS_FILE,
    CRASH_FILE,
    FIXES_FILE,
    DECLINED_FILE,
    WHAT_IF_FILE,
)
_TRIALS = tuple(Path(name).stem for name in (FIXES_FILE, WHAT_IF_FILE))
"""Folders with the recordings of trials; each is named after the file with their results."""
_TENSORS = ".pt"
_LOG = "dedicated_log_torch_trace_"


@dataclass(frozen=True)
class Wanted:
    """What a bundle should hold.

    ``has_environment``: with the values of environment variables that torch guards.
    ``show``: run the script of any recording, after calling this with the interpreter and the code;
    None not to. ``timeout_s``: seconds until the script is stopped; None for a multiple of the
    recorded run's time.
    """

    root: Path
    is_redacted: bool = False
    has_trials: bool = False
    has_environment: bool = False
    is_tried: bool = True
    show: Callable[[str], None] | None = None
    timeout_s: float | None = None


@dataclass
class Bundle:
    """The content of the zip."""

    files: dict[str, bytes]
    attempt: Attempt | None
    interpreter: str | None
    notes: list[str]


def bundle_of(place: Path, wanted: Wanted, on_phase: Callable[[str], None]) -> Bundle:
    """Collect the files of a recording's bundle."""
    on_phase("reading the recording")
    try:
        return _bundle_of(place, read_recording(place, guards=True, picture=True), wanted, on_phase)
    except OSError as error:
        raise GraphDoctorError(
            f"{error.filename or place} can't be used: {error.strerror}."
        ) from error


def _bundle_of(
    place: Path, recording: Recording, wanted: Wanted, on_phase: Callable[[str], None]
) -> Bundle:
    picture = recording.picture
    if picture is None or not (recording.evidence.records or (place / META_FILE).is_file()):
        raise GraphDoctorError(
            f"{place} has no records from torch.",
            hint="Name a folder below .graphdoctor/, or a TORCH_TRACE folder.",
        )
    notes: list[str] = []
    script, tried = Script(None, reason="--redact leaves out source"), None
    if not wanted.is_redacted:
        script = write_script(recording, read_object(LocalFolder(place).read(REQUEST_FILE)))
        tried = _try(place, script, recording, wanted, on_phase)
    on_phase("writing the report")
    found = _recording_files(place, notes, has_trials=wanted.has_trials)
    if wanted.is_redacted:
        from graphdoctor.studies.bundle.redact.redaction import Redaction

        diagnosis = diagnosis_of(recording, root=wanted.root)
        redaction = Redaction(recording.environment, wanted.root)
        diagnosis, picture = redaction.redacted(diagnosis), redaction.redacted(picture)
        kept = dict(redaction.files(found, notes))
    else:
        kept = dict(_contents(found, notes))
        if not wanted.has_environment:
            recording, picture = _without_environment(recording, picture, kept, notes)
        diagnosis = diagnosis_of(recording, root=wanted.root)
        if script.text is None:
            notes.append(f"`{SCRIPT}`: {script.reason}.")
    environment = diagnosis.recording.environment
    shown = RenderOptions(wanted.root, has_source=not wanted.is_redacted)
    texts = {
        "issue.md": issue_text(diagnosis, script, tried),
        "diagnosis.json": json_text(diagnosis),
        "report.html": str(DIAGNOSIS.named("html").render(Result(diagnosis, picture), shown)),
        "environment.txt": environment_text(environment, picture.config, graphdoctor=__version__),
        **script.files,
    }
    readme = readme_text(
        title_of(diagnosis), [*texts, *kept], notes, is_redacted=wanted.is_redacted
    )
    # A program can put halves of surrogate pairs anywhere.
    files = {
        name: text.encode("utf-8", "replace")
        for name, text in {"README.md": readme, **texts}.items()
    } | kept
    return Bundle(files, tried, recording.environment.executable, notes)


def _try(
    place: Path,
    script: Script,
    recording: Recording,
    wanted: Wanted,
    on_phase: Callable[[str], None],
) -> Attempt | None:
    if script.text is None:
        return None
    if not wanted.is_tried:
        return NOT_TRIED
    if wanted.show is not None:
        for line in command_lines(script, recording):
            wanted.show(line)
    elif not is_own(place):
        return REFUSED
    on_phase(f"running {SCRIPT}")
    return attempt(script, recording, timeout_s=wanted.timeout_s)


def _without_environment(
    recording: Recording, picture: Picture, kept: dict[str, bytes], notes: list[str]
) -> tuple[Recording, Picture]:
    """The facts, and in ``kept`` the files, without the values of environment variables that torch
    guards.
    """
    values = EnvironmentValues(kept.values())
    if not values.names:
        return recording, picture
    count = counted(len(values.names), "environment variable")
    notes.append(f"The values of {count} that torch guards; `--with-environment` includes them.")
    kept.update((name, values.left_out_of(content)) for name, content in kept.items())
    return values.left_out_of_fact(recording), values.left_out_of_fact(picture)


def _contents(files: Iterable[tuple[str, Path]], notes: list[str]) -> Iterator[tuple[str, bytes]]:
    """The files, packed logs unpacked; ``notes`` receives the logs that are too large."""
    numbers = itertools.count(1)
    for name, path in files:
        logs = list(plain_logs(path, numbers)) if name.startswith(LOGS) else []
        if all(log.is_seekable for _, log in logs):
            yield name, path.read_bytes()
            continue
        for log_name, log in logs:
            content = log.part(0, MAX_FILE_BYTES + 1)
            if len(content) > MAX_FILE_BYTES:
                notes.append(f"`{log_name}`: too large.")
            else:
                yield log_name, content


def _recording_files(
    place: Path, notes: list[str], *, has_trials: bool
) -> Iterator[tuple[str, Path]]:
    """The files by their names in the bundle; ``notes`` receives what isn't in it."""
    for name, path in _all_files(place, notes, has_trials=has_trials):
        if (size := path.stat().st_size) > MAX_FILE_BYTES:
            notes.append(f"`{name}`: too large ({size / 2**20:.0f} MiB).")
        else:
            yield name, path


def _all_files(place: Path, notes: list[str], *, has_trials: bool) -> Iterator[tuple[str, Path]]:
    if place.is_file():
        is_known = place.name.startswith(_LOG) and place.suffix == ".log"
        yield (
            f"recording/{TRACE_FOLDER}/{place.name if is_known else f'{_LOG}{place.stem}.log'}",
            place,
        )
        return
    folders = (
        place,
        *(place / name for name in (TRACE_FOLDER, *_TRIALS) if not (place / name).is_symlink()),
    )
    if links := sum(
        path.is_symlink() for folder in folders if folder.is_dir() for path in folder.iterdir()
    ):
        notes.append(f"{counted(links, 'symbolic link')} in the recording's folder.")
    for name in _OWN_FILES:
        if is_own_file(place / name) and (place / name).stat().st_size:
            yield f"recording/{name}", place / name
    # Several logs can be in one file.
    for path in dict.fromkeys(Path(log.location) for log in find_logs(place)):
        below = path.relative_to(place.absolute()).as_posix().removeprefix(f"{TRACE_FOLDER}/")
        yield f"recording/{TRACE_FOLDER}/{below}", path
    for folder in _TRIALS:
        trials = sorted(_files_below(place / folder))
        if trials and not has_trials:
            notes.append(
                f"Recordings of trials (`{folder}/`); `--with-trials` includes them, without tensors."
            )
        elif has_trials:
            yield from (
                (f"recording/{path.relative_to(place).as_posix()}", path) for path in trials
            )


def _files_below(folder: Path) -> Iterator[Path]:
    # os.walk enters no links but the first.
    for here, _, names in os.walk(folder) if not folder.is_symlink() else ():
        found = (Path(here, name) for name in names)
        yield from (path for path in found if is_own_file(path) and path.suffix != _TENSORS)


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip of files, given by name and in order. The same files always give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980, the earliest time that a zip can hold
            entry.create_system = 3  # Unix, whatever this system is
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()

"""Collects a bundle. Comes in: a recording's place on disk and what is wanted. Goes out: the files
by name.

A redacted bundle holds facts whose fields are marked as shareable (``redacted.py``), and no file of
the recording.
"""

from __future__ import annotations

import io
import itertools
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.accuracy import AccuracyReport
from graphdoctor.facts.diagnosis import Diagnosis, Result
from graphdoctor.facts.reading import read_json
from graphdoctor.facts.recording import Environment, Recording
from graphdoctor.probe.wire import (
    ACCURACY_FILE,
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
from graphdoctor.studies.bundle.redacted import EnvironmentValues, Redaction
from graphdoctor.studies.bundle.script import (
    NOT_TRIED,
    REFUSED,
    SCRIPT,
    Attempt,
    Script,
    attempt,
    rendered,
    write_script,
)
from graphdoctor.trace.folder import read_object
from graphdoctor.trace.logs import find_logs, named_rank
from graphdoctor.trace.reader import read_recording
from graphdoctor.trace.storage import Folder, is_own_file, local_log
from graphdoctor.trials.launch.ownership import is_own
from graphdoctor.version import __version__
from graphdoctor.views import words
from graphdoctor.views.formats import DIAGNOSIS, RenderOptions
from graphdoctor.views.json import json_text
from graphdoctor.views.printable import printable_lines
from graphdoctor.views.report import count_texts
from graphdoctor.wording import counted

MAX_FILE_BYTES = 256 * 2**20
"""Larger files of the recording are left out."""

_SMALLEST = "smallest.py"
"""The smallest wrong graph of ``accuracy`` as a program."""
_OWN_FILES = (
    REQUEST_FILE,
    ACCURACY_FILE,
    META_FILE,
    EVENTS_FILE,
    ACCURACY_FILE,
    CRASH_FILE,
    FIXES_FILE,
    DECLINED_FILE,
    WHAT_IF_FILE,
)
_LOG = "dedicated_log_torch_trace_"
_LOGS = f"recording/{TRACE_FOLDER}/"
_MAX_TRACEBACK = 6_000


@dataclass
class Bundle:
    """A recording to bundle, and the zip's content.

    Args:
        root: The folder that paths are relative to.
        has_environment: With the values of environment variables that torch guards.
        show: Run the script of any recording, after calling this with each line of the code; None
            not to.
        timeout_s: Seconds until the script is stopped; None for a multiple of the recorded run's
            time.
        notes: Sentences about what was left out.
    """

    place: Path
    root: Path
    on_phase: Callable[[str], None]
    is_redacted: bool = False
    has_environment: bool = False
    is_tried: bool = True
    show: Callable[[str], None] | None = None
    timeout_s: float | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    attempt: Attempt | None = None
    interpreter: str | None = None

    def collect(self) -> None:
        """Fill the files."""
        try:
            self._collect()
        except OSError as error:
            raise GraphDoctorError(
                f"{error.filename or self.place} can't be used: {error.strerror}."
            ) from error

    def _collect(self) -> None:
        self.on_phase("reading the recording")
        recording = read_recording(self.place, guards=True, picture=True)
        picture, self.interpreter = recording.picture, recording.environment.executable
        has_records = recording.evidence.records or (self.place / META_FILE).is_file()
        if picture is None or not has_records:
            raise GraphDoctorError(
                f"{self.place} has no records from torch.",
                hint="Name a folder below .graphdoctor/, or a TORCH_TRACE folder.",
            )
        script, kept = Script(None, reason="--redact leaves out source"), dict[str, bytes]()
        if not self.is_redacted:
            script = write_script(recording, read_object(Folder(self.place).read(REQUEST_FILE)))
            self._try(script, recording)
            if script.text is None:
                self.notes.append(f"`{SCRIPT}`: {script.reason}.")
            kept = dict(self._contents())
        self.on_phase("writing the report")
        if not self.is_redacted and not self.has_environment:
            values = EnvironmentValues(kept.values())
            if values.names:
                count = counted(len(values.names), "environment variable")
                self.notes.append(
                    f"The values of {count} that torch guards; `--with-environment` includes them."
                )
                kept = {name: values.left_out_of(content) for name, content in kept.items()}
                recording, picture = map(values.left_out_of_fact, (recording, picture))
        diagnosis = diagnosis_of(recording, root=self.root)
        if self.is_redacted:
            redaction = Redaction(recording.environment, self.root)
            diagnosis, picture = redaction.redacted(diagnosis), redaction.redacted(picture)
        shown = RenderOptions(self.root, has_source=not self.is_redacted)
        page = DIAGNOSIS.named("html").render(Result(diagnosis, picture), shown)
        environment = diagnosis.recording.environment
        texts = {
            "issue.md": issue_text(diagnosis, script, self.attempt),
            "diagnosis.json": json_text(diagnosis),
            "report.html": str(page),
            "environment.txt": environment_text(
                environment, diagnosis.recording.config, graphdoctor=__version__
            ),
            **script.files,
            **self._smallest(),
        }
        readme = rendered(
            "README.md.jinja",
            title=_title(diagnosis),
            names=[*texts, *kept],
            notes=self.notes,
            logs=_LOGS,
            is_redacted=self.is_redacted,
        )
        # A program can put halves of surrogate pairs anywhere.
        self.files = {
            name: text.encode("utf-8", "replace")
            for name, text in {"README.md": readme, **texts}.items()
        } | kept

    def _try(self, script: Script, recording: Recording) -> None:
        if script.text is None:
            return
        if not self.is_tried or (self.show is None and not is_own(self.place)):
            self.attempt = REFUSED if self.is_tried else NOT_TRIED
            return
        if self.show is not None:
            self.show(f"Running {SCRIPT} with {self.interpreter}")
            for name, text in script.files.items():
                for line in (f"  {name}:", *(f"    | {line}" for line in text.splitlines())):
                    self.show(line)
        self.on_phase(f"running {SCRIPT}")
        self.attempt = attempt(script, recording, timeout_s=self.timeout_s)

    def _smallest(self) -> dict[str, str]:
        """Return the program that ``accuracy`` made and ran, by its name; nothing if there is
        none.
        """
        path = self.place / ACCURACY_FILE
        if self.is_redacted or not is_own_file(path):
            return {}
        text = read_json(AccuracyReport, path.read_bytes()).reproduction
        return {} if text is None else {_SMALLEST: text}

    # Files of the recording.

    def _contents(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files by their names in the bundle, packed logs unpacked, as tlparse reads
        them.
        """
        numbers = itertools.count(1)
        for name, path in self._recording_files():
            if (size := path.stat().st_size) > MAX_FILE_BYTES:
                self.notes.append(f"`{name}`: too large ({size / 2**20:.0f} MiB).")
                continue
            if not name.startswith(_LOGS):
                yield name, path.read_bytes()
                continue
            log = local_log(path)
            if log.is_seekable:
                yield name, path.read_bytes()
                continue
            rank = named_rank(log)
            log_name = f"{_LOGS}{_LOG}{'' if rank is None else f'rank_{rank}_'}{next(numbers)}.log"
            content = log.part(0, MAX_FILE_BYTES + 1)
            if len(content) > MAX_FILE_BYTES:
                self.notes.append(f"`{log_name}`: too large.")
            else:
                yield log_name, content

    def _recording_files(self) -> Iterator[tuple[str, Path]]:
        place = self.place
        if place.is_file():
            is_named_by_torch = place.name.startswith(_LOG) and place.suffix == ".log"
            yield f"{_LOGS}{place.name if is_named_by_torch else f'{_LOG}{place.stem}.log'}", place
            return
        logs = place / TRACE_FOLDER
        folders = [place, *([logs] if logs.is_dir() and not logs.is_symlink() else [])]
        links = sum(path.is_symlink() for folder in folders for path in folder.iterdir())
        if links:
            self.notes.append(f"{counted(links, 'symbolic link')} in the recording's folder.")
        for name in _OWN_FILES:
            if is_own_file(place / name) and (place / name).stat().st_size:
                yield f"recording/{name}", place / name
        for path in (Path(log.location) for log in find_logs(place)):
            relative = path.relative_to(place.absolute()).as_posix()
            yield f"{_LOGS}{relative.removeprefix(f'{TRACE_FOLDER}/')}", path


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Zip files, given by name and in order. The same files always give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980, the earliest time that a zip can hold
            entry.create_system = 3  # Unix, whatever this system is
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


# Texts.


def issue_text(diagnosis: Diagnosis, script: Script, tried: Attempt | None) -> str:
    """Draft a PyTorch issue: what happened, in torch's words, how to reproduce it, and where it
    ran.
    """
    recording = diagnosis.recording
    errors = (call.error.traceback for call in recording.calls if call.error is not None)
    text = rendered(
        "issue.md.jinja",
        title=_title(diagnosis),
        counts=count_texts(diagnosis.summary, None),
        diagnosis=diagnosis,
        error=next(errors, recording.exit.traceback or "")[-_MAX_TRACEBACK:],
        script=script,
        attempt=tried,
        versions=environment_text(recording.environment),
    )
    return printable_lines(text.rstrip("\n")) + "\n"


def _title(diagnosis: Diagnosis) -> str:
    return " · ".join(words.title_parts(diagnosis.recording))


def environment_text(
    environment: Environment,
    config: Mapping[str, str] | None = None,
    *,
    graphdoctor: str | None = None,
) -> str:
    """List the versions that a PyTorch issue asks for, as ``torch.utils.collect_env`` prints them.

    ``graphdoctor``: its version, for the whole file with torch's config values; None for the
    versions alone.
    """
    packages = environment.packages
    if packages is not None:
        packages = {**packages, "torch": environment.torch or "not recorded"}
    return rendered(
        "environment.txt.jinja",
        environment=environment,
        packages=None if packages is None else sorted(packages.items()),
        config=config,
        graphdoctor=graphdoctor,
    )

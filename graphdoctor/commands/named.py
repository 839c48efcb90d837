"""The RECORDING argument of every command: a recording, a trace log, a JSON document.

Goes out: a ``NamedRun``, and what is read from there: diagnoses, or the report that an earlier
command left.
"""

from __future__ import annotations

import importlib.machinery
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from graphdoctor.commands.settings import Settings
from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import Executor
from graphdoctor.facts.accuracy import AccuracyReport
from graphdoctor.facts.base import Fact
from graphdoctor.facts.bench import BenchReport, BenchVerdict, CureReport
from graphdoctor.facts.diagnosis import Diagnosis, Result
from graphdoctor.facts.export import ExportReport
from graphdoctor.facts.profile import ProfileReport
from graphdoctor.probe.wire import ACCURACY_FILE, BENCH_FILE, CURE_FILE, EXPORT_FILE, PROFILE_FILE
from graphdoctor.rules.diagnosed import Needs, chosen_stages, diagnose_on, diagnose_recording
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.gate.documents import (
    BOM,
    file_content,
    parsed_json,
    read_diagnosis,
    read_document,
)
from graphdoctor.studies.documents import ACCURACY, CURE, EXPORT
from graphdoctor.trace.folder import RecordingFolder, open_folder
from graphdoctor.trace.logs import has_record, hindrance
from graphdoctor.trace.storage import (
    CutStreamError,
    Folder,
    Location,
    LogFile,
    Url,
    location_of,
    place_at,
)
from graphdoctor.trials.launch.store import FOLDER
from graphdoctor.views.formats import BENCH, Document

_Report = TypeVar("_Report", bound="Fact")

_TARGET_SUFFIXES = (*importlib.machinery.all_suffixes(), ".ipynb")
"""Of files that are a target, or that the target's own error message is about."""

_START_BYTES = 4096


@dataclass(frozen=True)
class NamedRun:
    """A place to read a run from."""

    location: Location
    kind: Literal["folder", "log", "document"]
    found: LogFile | Folder | None = field(default=None, repr=False, compare=False)

    @cached_property
    def folder(self) -> RecordingFolder:
        """The recording, opened once."""
        return open_folder(self.location, self.found)

    @property
    def path(self) -> Path:
        """The folder or file, for what can only be done with one of this machine."""
        if isinstance(self.location, Url):
            raise GraphDoctorError(
                f"{self.location} isn't on this machine, and only report, diff, recompiles and"
                " guards read what is elsewhere.",
                hint="Copy it to this machine first.",
            )
        return self.location

    @property
    def root(self) -> Path | None:
        """The folder that a recording was made in; None where its own folder doesn't tell."""
        if isinstance(self.location, Url):
            return None
        whole = self.location.resolve()
        return whole.parent.parent if whole.parent.name == FOLDER else None


def last_recording(settings: Settings) -> NamedRun:
    """Return the last recording of the working directory."""
    return NamedRun(settings.store.last(), "folder")


def place_named(text: str | None, settings: Settings) -> NamedRun:
    """Return the place that an argument names; without an argument, the last recording."""
    if text is None:
        return last_recording(settings)
    location = _existing(text, settings)
    if location is None:
        raise GraphDoctorError(
            f"There is no recording, log or JSON document at {text}.",
            hint=(
                f"Name a recording under {FOLDER}/, a TORCH_TRACE folder or log, or a file that"
                " --format json wrote."
            ),
        )
    return _place(location)


def place_or_target(text: str | None, settings: Settings) -> NamedRun | None:
    """As ``place_named``, for commands that take a target too: None where the argument is one."""
    if text is None:
        return last_recording(settings)
    location = _existing(text, settings)
    if location is None or (isinstance(location, Path) and location.suffix in _TARGET_SUFFIXES):
        return None
    return _place(location)


def _place(location: Location) -> NamedRun:
    if (
        isinstance(location, Path)
        and location.is_symlink()
        and location.absolute().parent.name == FOLDER
    ):
        raise GraphDoctorError(
            f"{location} is a symbolic link, and recordings don't go through links."
        )
    place = place_at(location)
    if place is None:
        raise GraphDoctorError(
            f"There is nothing at {location}.", hint="Name a folder or file that is there."
        )
    if not isinstance(place, LogFile):
        return NamedRun(location, "folder", place)
    try:
        # The first record decides: a program's own output can come before it.
        if has_record(place):
            return NamedRun(location, "log", place)
        with place.open() as stream:
            start = stream.read(_START_BYTES).removeprefix(BOM).lstrip()[:1]
    except CutStreamError as error:
        raise GraphDoctorError(f"{location} can't be read: {error.reason}.") from error
    if start in (b"{", b"["):
        return NamedRun(location, "document", place)
    what = (
        "is empty" if not start else "is HTML or XML" if start == b"<" else "holds no trace record"
    )
    raise GraphDoctorError(
        f"{location} {what}: it is neither a torch trace log nor a JSON document that graphdoctor"
        " wrote.",
        hint=(
            f"graphdoctor explain {location} records a run."
            if place.path.suffix == ".py"
            else hindrance(place) or "graphdoctor report --format json writes one."
        ),
    )


def _existing(text: str, settings: Settings) -> Location | None:
    try:
        location = location_of(text)
        if not text or isinstance(location, Url) or location.exists():
            return location if text else None
        return settings.store.find(text)
    except (OSError, ValueError):
        return None  # a name that no file can have


def diagnose_place(
    place: NamedRun, selection: Selection, needs: Needs, *, executor: Executor, rank: int | None
) -> Result:
    """Return the diagnosis of whatever an argument names."""
    if place.kind != "document":
        piece = partial(
            diagnose_recording,
            place.folder,
            selection,
            needs,
            root=place.root or Path.cwd(),
            rank=rank,
        )
        (result,) = diagnose_on(executor, [piece])
        return result
    if rank is not None:
        raise GraphDoctorError(
            f"{place.location} is a JSON document, which has no ranks.", hint="Leave out --rank."
        )
    diagnosis = _read_document(place)
    lacking = {
        "is a JSON document, which holds counts and findings but no pictures": needs.picture,
        "was written without guards": needs.guards and diagnosis.recording.guards is None,
        "was written without stages": needs.stages is not None and diagnosis.stages is None,
    }
    for what, is_lacking in lacking.items():
        if is_lacking:
            raise GraphDoctorError(f"{place.location} {what}.", hint="Name the recording itself.")
    if needs.stages is not None and diagnosis.stages is not None:
        diagnosis = diagnosis.replace(stages=chosen_stages(diagnosis.stages, needs.stages))
    return Result(_selected(diagnosis, selection))


def diagnoses_to_compare(
    places: Sequence[NamedRun], ranks: Sequence[int | None], executor: Executor
) -> list[Diagnosis]:
    """Return the diagnosis of each place, with all of its findings.

    Paths are as seen from where each recording was made, so that two checkouts of one project name
    files alike.
    """
    documents = {place: _read_document(place) for place in places if place.kind == "document"}
    # Rules about guards need guards: they are read on all sides or on none.
    needs = Needs(
        guards=any(document.recording.guards is not None for document in documents.values())
    )
    sides = list(zip(places, ranks, strict=True))
    read = [(place, rank) for place, rank in sides if place not in documents]
    pieces = [
        partial(
            diagnose_recording, place.folder, needs=needs, root=place.root or Path.cwd(), rank=rank
        )
        for place, rank in read
    ]
    results = dict(zip(read, diagnose_on(executor, pieces), strict=True))
    return [
        documents[place] if place in documents else results[place, rank].diagnosis
        for place, rank in sides
    ]


def _selected(diagnosis: Diagnosis, selection: Selection) -> Diagnosis:
    kept = tuple(finding for finding in diagnosis.findings if selection.keeps(finding))
    hidden = diagnosis.summary.hidden_findings + len(diagnosis.findings) - len(kept)
    return diagnosis.replace(
        findings=kept, summary=diagnosis.summary.replace(hidden_findings=hidden)
    )


def _read_document(place: NamedRun) -> Diagnosis:
    assert isinstance(place.found, LogFile)
    try:
        with place.found.open() as stream:
            content = stream.read()
    except CutStreamError as error:
        raise GraphDoctorError(f"{place.location} can't be read: {error.reason}.") from error
    return read_diagnosis(content, str(place.location))


_STUDIES: Mapping[type[Fact], tuple[str, str, Collection[str], Document[Any] | None]] = {
    AccuracyReport: (ACCURACY_FILE, "accuracy", ("verdict", "kinds"), ACCURACY),
    CureReport: (CURE_FILE, "cure", ("steps",), CURE),
    BenchReport: (BENCH_FILE, "bench", ("variants", "verdict"), BENCH),
    ExportReport: (EXPORT_FILE, "export", ("ways",), EXPORT),
    ProfileReport: (PROFILE_FILE, "profile", ("kernels", "lines"), None),
}
"""Of each report, its file in a recording, the command that writes it, fields that it must have,
and the document that ``report`` shows; None where that is the diagnosis."""


@dataclass(frozen=True)
class Study:
    """What a study found, as an earlier command left it."""

    command: str
    document: Document[Any]
    content: Any

    @property
    def answer(self) -> str | None:
        """What was found, in a sentence or two; None for an export."""
        match self.content:
            case AccuracyReport(text=text) | CureReport(text=text):
                return text
            case BenchReport(verdict=BenchVerdict(text=text)):
                return text
        return None


def kept_study(place: NamedRun) -> Study | None:
    """Return the study that a recording was made for; None if there is none."""
    if place.kind != "folder" or isinstance(place.location, Url):
        return None
    for kind, (file, command, _, document) in _STUDIES.items():
        if document is not None and (place.path / file).is_file():
            return Study(command, document, kept_report(place, kind))
    return None


def kept_report(place: NamedRun, kind: type[_Report]) -> _Report:
    """Read the report that an earlier command left."""
    file, command, has, _ = _STUDIES[kind]
    hint = f"graphdoctor {command} model.py makes one."
    path = place.path / file if place.kind == "folder" else place.path
    content = file_content(path, missing=f"{place.path} holds no {command}.", hint=hint)
    document = parsed_json(content, str(path), hint=hint)
    return read_document(kind, document, str(path), what=f"a {command}", has=has, hint=hint)

"""Diagnoses by what people name: a recording, a trace log, a JSON document that graphdoctor wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.errors import GraphDoctorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphdoctor.model.diagnosis import Diagnosis

NAMED_HELP = (
    "a recording or its name below .graphdoctor/, a folder or log file that TORCH_TRACE wrote, or a JSON file that "
    "--format json wrote"
)
_BOM = b"\xef\xbb\xbf"


def place_named(text: str) -> Path:
    """The folder or file that an argument names.

    Raises:
        GraphDoctorError: There is none.
    """
    from graphdoctor.capture.store import FOLDER

    path = Path(text)
    if path.exists():
        return path
    if (Path(FOLDER) / text).is_dir():
        return Path(FOLDER) / text
    raise GraphDoctorError(
        f"There is no recording, log or diagnosis at {text}.",
        hint="Name a recording below .graphdoctor/, a TORCH_TRACE folder or log, or a file of --format json.",
    )


def read_diagnoses(places: Sequence[Path]) -> list[Diagnosis]:
    """The diagnosis of each place, with all of its findings.

    Args:
        places: What ``place_named`` gave.

    Raises:
        GraphDoctorError: One is nothing of the kind.
    """
    documents = {place: _read_document(place) for place in places if _is_document(place)}
    # Rules about guards speak where guards were read: on all sides or on none.
    guards = any(document.guards is not None for document in documents.values())
    return [documents[place] if place in documents else _diagnose(place, guards=guards) for place in places]


def _is_document(path: Path) -> bool:
    """Tell a JSON document from a log.

    Raises:
        GraphDoctorError: It is neither, or cannot be read.
    """
    from graphdoctor.trace.grammar import LogDamage, read_records

    if path.is_dir():
        return False
    try:
        with path.open("rb") as file:
            start = file.read(4096).removeprefix(_BOM).lstrip()[:1]
            file.seek(0)
            if start in (b"{", b"["):
                return True
            # A log is told by its first record: a program's own output can stand before it.
            is_log = next(read_records(file, lambda _kind: True, LogDamage()), None) is not None
    except OSError as error:
        raise GraphDoctorError(f"{path} cannot be read: {error.strerror}.") from error
    if not is_log:
        what = "is empty" if not start else "is HTML or XML" if start == b"<" else "holds no record of torch's"
        is_target = path.suffix == ".py"
        raise GraphDoctorError(
            f"{path} {what}: it is neither a torch trace log nor a JSON document that graphdoctor wrote.",
            hint=f"graphdoctor explain {path} records a run."
            if is_target
            else "graphdoctor report --format json writes one.",
        )
    return False


def _read_document(path: Path) -> Diagnosis:
    from graphdoctor.gate.documents import read_diagnosis

    try:
        content = path.read_bytes()
    except OSError as error:
        raise GraphDoctorError(f"{path} cannot be read: {error.strerror}.") from error
    return read_diagnosis(content, str(path))


def _diagnose(path: Path, *, guards: bool) -> Diagnosis:
    """A recording's diagnosis, its files as seen from where it was made.

    So two checkouts of one project name their files alike.
    """
    from graphdoctor.cli.results import Shown, diagnose_recording

    shown = Shown((), (), is_own_code_only=False)
    return diagnose_recording(path, shown, guards=guards, root=root_of(path)).diagnosis


def root_of(recording: Path) -> Path | None:
    """The folder that a recording was made in; None where its own folder does not tell."""
    from graphdoctor.capture.store import FOLDER

    whole = recording.resolve()
    return whole.parent.parent if whole.parent.name == FOLDER else None

"""What a RECORDING argument names: a recording, a trace log, a JSON document. The same for every command."""

from __future__ import annotations

import importlib.machinery
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from graphdoctor.capture.store import FOLDER, store_of
from graphdoctor.config import Settings
from graphdoctor.errors import GraphDoctorError

Kind = Literal["folder", "log", "document"]

_TARGET_SUFFIXES = (*importlib.machinery.all_suffixes(), ".ipynb")
"""Of files that are a target, or that the target's own error message is about."""

_BOM = b"\xef\xbb\xbf"
_START_BYTES = 4096


@dataclass(frozen=True)
class Place:
    """Where a run can be read from.

    Args:
        path: The folder or file.
        kind: ``folder``: a recording, or a folder that ``TORCH_TRACE`` wrote; ``log``: one file of it; ``document``: a
            diagnosis as JSON.
    """

    path: Path
    kind: Kind

    @property
    def root(self) -> Path | None:
        """The folder that a recording was made in; None where its own folder doesn't tell."""
        whole = self.path.resolve()
        return whole.parent.parent if whole.parent.name == FOLDER else None


def last_recording(settings: Settings) -> Place:
    """The last recording of the working directory.

    Raises:
        GraphDoctorError: There is none.
    """
    return Place(store_of(settings).last(), "folder")


def place_named(text: str | None, settings: Settings) -> Place:
    """The place that an argument names; without an argument, the last recording.

    Args:
        text: The argument.
        settings: The project's settings.

    Raises:
        GraphDoctorError: There is nothing there, or something else.
    """
    if text is None:
        return last_recording(settings)
    path = _existing(text, settings)
    if path is None:
        raise GraphDoctorError(
            f"There is no recording, log or JSON document at {text}.",
            hint=f"Name a recording under {FOLDER}/, a TORCH_TRACE folder or log, or a file that --format json wrote.",
        )
    return _place(path)


def place_or_target(text: str | None, settings: Settings) -> Place | None:
    """As ``place_named``, for commands that take a target too: None where the argument is one.

    Args:
        text: The argument; without one, it is the last recording.
        settings: The project's settings.

    Raises:
        GraphDoctorError: There is no last recording, or a file is neither a target nor any of those.
    """
    if text is None:
        return last_recording(settings)
    path = _existing(text, settings)
    if path is None or path.suffix in _TARGET_SUFFIXES:
        return None
    return _place(path)


def _place(path: Path) -> Place:
    if path.is_symlink() and path.absolute().parent.name == FOLDER:
        raise GraphDoctorError(f"{path} is a symbolic link, and recordings don't go through links.")
    kind, found = _kind_of(path)
    if kind is not None:
        return Place(path, kind)
    raise GraphDoctorError(
        f"{path} {found}: it is neither a torch trace log nor a JSON document that graphdoctor wrote.",
        hint=f"graphdoctor explain {path} records a run."
        if path.suffix == ".py"
        else "graphdoctor report --format json writes one.",
    )


def _existing(text: str, settings: Settings) -> Path | None:
    path = Path(text)
    try:
        if not text or path.exists():
            return path if text else None
        return store_of(settings).find(text)
    except (OSError, ValueError):
        return None  # a name that no file can have


def _kind_of(path: Path) -> tuple[Kind | None, str]:
    """What a path holds; where it is none of the kinds, a clause that says what it is instead."""
    from graphdoctor.storage.compression import CutStreamError
    from graphdoctor.storage.log_file import local_log
    from graphdoctor.trace.grammar import LogDamage, read_records

    if path.is_dir():
        return "folder", ""
    log = local_log(path)
    with log.open() as file:
        # The first record decides: a program's own output, such as "[rank0]: …", can come before it.
        if next(read_records(file, lambda _kind: True, LogDamage()), None) is not None:
            return "log", ""
    try:
        with log.open() as file:
            start = file.read(_START_BYTES).removeprefix(_BOM).lstrip()[:1]
    except CutStreamError as error:
        raise GraphDoctorError(f"{path} can't be read: {error.reason}.") from error
    if start in (b"{", b"["):
        return "document", ""
    return None, "is empty" if not start else "is HTML or XML" if start == b"<" else "holds no trace record"

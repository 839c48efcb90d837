"""What a RECORDING argument names: a recording, a trace log, a JSON document. The same for every command."""

from __future__ import annotations

import importlib.machinery
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from graphdoctor.commands.settings import Settings
from graphdoctor.errors import GraphDoctorError
from graphdoctor.trace.storage.log_file import LogFile
from graphdoctor.trace.storage.places import Location, Url, location_of, place_at
from graphdoctor.trials.launch.store import FOLDER, store_of

Kind = Literal["folder", "log", "document"]

_TARGET_SUFFIXES = (*importlib.machinery.all_suffixes(), ".ipynb")
"""Of files that are a target, or that the target's own error message is about."""

_BOM = b"\xef\xbb\xbf"
_START_BYTES = 4096


@dataclass(frozen=True)
class Place:
    """Where a run can be read from.

    Args:
        location: The folder or file, on this machine or elsewhere.
        kind: ``folder``: a recording, or a folder with trace logs; ``log``: a trace log; ``document``: a diagnosis as
            JSON.
    """

    location: Location
    kind: Kind

    @property
    def path(self) -> Path:
        """The folder or file, for what can only be done with one of this machine.

        Raises:
            GraphDoctorError: It's elsewhere.
        """
        if isinstance(self.location, Url):
            raise GraphDoctorError(
                f"{self.location} isn't on this machine, and only report, diff, recompiles, guards and unpack read "
                "what is elsewhere.",
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
    location = _existing(text, settings)
    if location is None:
        raise GraphDoctorError(
            f"There is no recording, log or JSON document at {text}.",
            hint=f"Name a recording under {FOLDER}/, a TORCH_TRACE folder or log, or a file that --format json wrote.",
        )
    return _place(location)


def location_named(text: str | None, settings: Settings) -> Location:
    """Where something lies that may become a recording or log: as ``place_named``, without a look into it.

    Args:
        text: The argument; without one, it is the last recording.
        settings: The project's settings.

    Raises:
        GraphDoctorError: There is nothing there.
    """
    if text is None:
        return last_recording(settings).location
    location = _existing(text, settings)
    if location is None:
        raise GraphDoctorError(f"There is nothing at {text}.", hint="Name a folder or file that is there.")
    if location.endswith(".json") if isinstance(location, Url) else location.suffix == ".json":
        raise GraphDoctorError(f"{text} is a JSON document, to which nothing is added.", hint="Leave out --follow.")
    return location


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
    location = _existing(text, settings)
    if location is None or (isinstance(location, Path) and location.suffix in _TARGET_SUFFIXES):
        return None
    return _place(location)


def _place(location: Location) -> Place:
    if isinstance(location, Path) and location.is_symlink() and location.absolute().parent.name == FOLDER:
        raise GraphDoctorError(f"{location} is a symbolic link, and recordings don't go through links.")
    found = place_at(location)
    if found is None:
        raise GraphDoctorError(f"There is nothing at {location}.", hint="Name a folder or file that is there.")
    if not isinstance(found, LogFile):
        return Place(location, "folder")
    kind, what = _kind_of(found)
    if kind is not None:
        return Place(location, kind)
    from graphdoctor.trace.logs import hindrance

    raise GraphDoctorError(
        f"{location} {what}: it is neither a torch trace log nor a JSON document that graphdoctor wrote.",
        hint=f"graphdoctor explain {location} records a run."
        if found.path.suffix == ".py"
        else hindrance(found) or "graphdoctor report --format json writes one.",
    )


def _existing(text: str, settings: Settings) -> Location | None:
    try:
        location = location_of(text)
        if not text or isinstance(location, Url) or location.exists():
            return location if text else None
        return store_of(settings).find(text)
    except (OSError, ValueError):
        return None  # a name that no file can have


def _kind_of(file: LogFile) -> tuple[Kind | None, str]:
    """What a file holds; where it is none of the kinds, a clause that says what it is instead."""
    from graphdoctor.trace.logs import logs_of
    from graphdoctor.trace.storage.compression import CutStreamError

    try:
        # The first record decides: a program's own output can come before it.
        if logs_of(file):
            return "log", ""
        with file.open() as stream:
            start = stream.read(_START_BYTES).removeprefix(_BOM).lstrip()[:1]
    except CutStreamError as error:
        raise GraphDoctorError(f"{file.location} can't be read: {error.reason}.") from error
    if start in (b"{", b"["):
        return "document", ""
    return None, "is empty" if not start else "is HTML or XML" if start == b"<" else "holds no trace record"

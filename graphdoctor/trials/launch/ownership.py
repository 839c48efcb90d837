"""Whether a recording was made by this user, on this machine, in the folder where it lies, and is
still as it was.

A recording names an interpreter and holds code, and anybody can write one. So a recording that
graphdoctor made gets a signature, by a key in the user's state folder, where no checkout reaches.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import platform
import stat
import tempfile
from pathlib import Path
from typing import Any

from graphdoctor.facts.reading import write_private
from graphdoctor.probe.wire import EVENTS_FILE, META_FILE, REQUEST_FILE, TRACE_FOLDER
from graphdoctor.trials.launch.store import state_folder

SIGNATURE_FILE = "signature"
_KEY_FILE = "key"
_KEY_BYTES = 32
_MACHINE_ID = Path("/etc/machine-id")


def sign(recording: Path) -> None:
    """Sign a recording that has just been made; without a state folder or on a full disk it stays
    unsigned.
    """
    with contextlib.suppress(OSError):
        if _key() is None:
            _make_key()
        signature = _signed([*_where(recording), _files(recording)])
        if signature is not None:
            write_private(recording / SIGNATURE_FILE, signature + "\n")


def is_own(recording: Path) -> bool:
    """Check the signature of a recording."""
    with contextlib.suppress(OSError):
        written = (recording / SIGNATURE_FILE).read_bytes().strip()
        signature = _signed([*_where(recording), _files(recording)])
        return signature is not None and hmac.compare_digest(written, signature.encode())
    return False


def signature_of(recording: Path, content: str) -> str | None:
    """Sign a text that belongs to a recording; None without a key."""
    with contextlib.suppress(OSError):
        return _signed([*_where(recording), "text", content])
    return None


def keyed_digest(text: str) -> str | None:
    """Digest a text so that nobody can guess it; None without a key."""
    with contextlib.suppress(OSError):
        return _signed(["digest", text])
    return None


def _where(recording: Path) -> list[str]:
    machine = _MACHINE_ID.read_text() if _MACHINE_ID.is_file() else ""
    return [machine.strip(), platform.node(), str(recording.resolve())]


def _signed(content: list[Any]) -> str | None:
    if (key := _key()) is None:
        return None
    return hmac.new(
        key, json.dumps(content).encode("utf-8", "surrogateescape"), hashlib.sha256
    ).hexdigest()


def _files(recording: Path) -> list[list[str]]:
    """Name and digest of what a reader could take for a part of the run: the request, how it went,
    and any log.
    """
    files = [
        recording / name
        for name in (REQUEST_FILE, META_FILE, EVENTS_FILE)
        if (recording / name).exists()
    ]
    for folder in (recording, recording / TRACE_FOLDER):
        files += sorted(folder.glob("*.log"))
    return [[str(path.relative_to(recording)), _digest(path)] for path in files]


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _key() -> bytes | None:
    folder = state_folder()
    if folder is None:
        return None
    try:
        descriptor = os.open(folder / _KEY_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        is_private = (
            stat.S_ISREG(status.st_mode)
            and status.st_uid == os.geteuid()
            and not status.st_mode & 0o077
        )
        key = stream.read(_KEY_BYTES) if is_private else b""
    return key if len(key) == _KEY_BYTES else None


def _make_key() -> None:
    """Make the key, unless another process does so first, or something else has its name."""
    if (folder := state_folder()) is None:
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=folder)  # which only the user may read
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(os.urandom(_KEY_BYTES))
        # In whole or not at all: a link fails where the name is taken.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, folder / _KEY_FILE)
    finally:
        Path(temporary).unlink()

"""Whether a run would find everything as an earlier one did: files, folders with modules,
variables, the interpreter.

Only what can be compared counts as the same: a file is if its times and size are, or its content.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from graphdoctor import version
from graphdoctor.probe.wire import READS_FILE, REQUEST_FILE
from graphdoctor.trials.launch.ownership import keyed_digest

_MAX_HASHED_BYTES = 32 * 2**20
_IMPORTED = (".py", ".pyc", ".so", ".pth", ".egg-link", ".dylib", ".zip")
_SHELL_VARIABLES = frozenset({"_", "OLDPWD", "PWD", "SHLVL", "COLUMNS", "LINES"})
"""What a shell sets by itself, and changes from command to command."""

ChangeKind = Literal[
    "file",
    "modules",
    "variable",
    "interpreter",
    "folder",
    "options",
    "network",
    "processes",
    "reads",
]


@dataclass(frozen=True)
class Change:
    """A reason why a run may differ; ``name``: of the file, folder, variable, or fields of what was
    asked for.
    """

    kind: ChangeKind
    name: str = ""


@dataclass(frozen=True)
class Surroundings:
    """The state of everything that runs read; None by path where nothing is.

    Of files: size, times in ns and, if small and not installed, SHA-256; of folders: a digest of
    modules' names.
    """

    folder: str
    interpreter: str
    files: dict[str, list[Any] | None]
    modules: dict[str, str | None]
    variables: dict[str, str | None]


def surroundings_of(
    recording: Path, replays: Iterable[Path], *, interpreter: str
) -> Surroundings | Change:
    """Collect what a run and its replays found, or say why that can't be known."""
    since_ns = (recording / REQUEST_FILE).stat().st_mtime_ns
    # Our own code makes the verdicts.
    files = {str(path) for path in Path(version.__file__).parent.rglob("*.py")}
    files.add(os.path.realpath(shutil.which(interpreter) or interpreter))
    if (first := reads_of(recording)) is None:
        return Change("reads")
    # Without what it read, a replay ended early, and verified nothing.
    runs = [first, *filter(None, map(reads_of, replays))]
    read = {name: {item for run in runs for item in run[name]} for name in first}
    if unseen := [kind for run in runs for kind in run["unseen"]]:
        return Change(unseen[0])
    missing, folders, installed = read["missing"], read["search_path"], read["prefix"]
    files |= read["files"]
    files.update(str(path) for prefix in installed for path in Path(prefix).glob("pyvenv.cfg"))
    recording_folder = f"{os.path.realpath(recording)}/"
    below = tuple(f"{prefix}/lib/" for prefix in installed)
    files = _outside(files, recording_folder)
    folders.update(
        str(Path(file).parent)
        for file in files
        if file.endswith(".py") and not file.startswith(below)
    )
    for folder in folders:
        with contextlib.suppress(OSError):
            files.update(str(path) for path in Path(folder).glob("*.pth"))
    states: dict[str, list[Any] | None] = dict.fromkeys(
        sorted(_outside(missing - files, recording_folder))
    )
    for file in sorted(files):
        state = _state(file, is_hashed=not file.startswith(below))
        # Not older than the run: some of the replays may have read something else.
        if state is None or max(state[1:3]) >= since_ns:
            return Change("file", file)
        states[file] = state
    return Surroundings(
        folder=str(Path.cwd()),
        interpreter=interpreter,
        files=states,
        modules={folder: _modules(folder) for folder in sorted(folders)},
        variables=_variables(),
    )


def first_change(before: Surroundings, *, interpreter: str) -> Change | None:
    """Find what a run would find otherwise now; None for nothing."""
    if str(Path.cwd()) != before.folder:
        return Change("folder", before.folder)
    if interpreter != before.interpreter:
        return Change("interpreter", before.interpreter)
    for file, state in before.files.items():
        if not _is_same(file, state):
            return Change("file", file)
    for folder, names in before.modules.items():
        if _modules(folder) != names:
            return Change("modules", folder)
    now = _variables()
    for name in sorted({*now, *before.variables}):
        if now.get(name) is None or now.get(name) != before.variables.get(name):
            return Change("variable", name)
    return None


def _outside(files: set[str], folder: str) -> set[str]:
    return {file for file in files if not os.path.realpath(file).startswith(folder)}


def reads_of(run: Path) -> dict[str, Any] | None:
    """Read what a run read, as it wrote it down; None if it ended before that."""
    try:
        reads = json.loads((run / READS_FILE).read_bytes())
    except (OSError, ValueError):
        return None
    return reads if isinstance(reads, dict) else None


def _state(file: str, *, is_hashed: bool) -> list[Any] | None:
    try:
        status = Path(file).stat()
        small = is_hashed and status.st_size <= _MAX_HASHED_BYTES
        digest = hashlib.sha256(Path(file).read_bytes()).hexdigest() if small else None
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, digest]


def _is_same(file: str, before: list[Any] | None) -> bool:
    now = _state(file, is_hashed=False)
    if now is None or before is None:
        return now is before
    if before[3] is None:
        return now[:3] == before[:3]
    # Times don't count: git writes the same content again when it goes to another branch and back,
    # and a file system with coarse times may not tell two contents apart.
    again = _state(file, is_hashed=True)
    return again is not None and again[3] == before[3]


def _modules(folder: str) -> str | None:
    try:
        with os.scandir(folder) as entries:
            modules = (
                entry for entry in entries if entry.name.endswith(_IMPORTED) or entry.is_dir()
            )
            names = sorted(
                entry.name for entry in modules if not entry.name.startswith((".", "__pycache__"))
            )
    except OSError:
        return "file" if Path(folder).is_file() else None
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()


def _variables() -> dict[str, str | None]:
    return {
        name: keyed_digest(value)
        for name, value in os.environ.items()
        if name not in _SHELL_VARIABLES
    }

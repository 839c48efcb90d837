"""Whether a run would find everything as an earlier one did: files, folders with modules,
variables, the interpreter.

Only what can be compared counts as the same: a file is if its content is, or its times and size.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

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


Surroundings = Mapping[str, str | None]
"""The state of everything that runs read, by kind and name, such as ``file /project/model.py``;
None where there was nothing. What can't be known has a state that nothing has again."""

_UNKNOWN = "unknown"


def surroundings_of(
    recording: Path, replays: Iterable[Path], *, interpreter: str
) -> dict[str, str | None]:
    """Collect what a run and its replays found."""
    since_ns = (recording / REQUEST_FILE).stat().st_mtime_ns
    if (first := reads_of(recording)) is None:
        return {"reads ": _UNKNOWN}
    # Without what it read, a replay ended early, and verified nothing.
    runs = [first, *filter(None, map(reads_of, replays))]
    read = {name: {str(item) for run in runs for item in run[name]} for name in first}
    states: dict[str, str | None] = {f"{kind} ": _UNKNOWN for kind in sorted(read["unseen"])}
    states |= {f"folder {Path.cwd()}": "", f"interpreter {interpreter}": ""}
    below = tuple(f"{prefix}/lib/" for prefix in read["prefix"])
    # Our own code makes the verdicts.
    files = read["files"] | {str(path) for path in Path(version.__file__).parent.rglob("*.py")}
    files.add(os.path.realpath(shutil.which(interpreter) or interpreter))
    files.update(str(path) for prefix in read["prefix"] for path in Path(prefix).glob("pyvenv.cfg"))
    files = _outside(files, recording)
    folders = read["search_path"] | {
        str(Path(file).parent)
        for file in files
        if file.endswith(".py") and not file.startswith(below)
    }
    files.update(str(path) for folder in folders for path in _paths_of(folder))
    missing = _outside(read["missing"] - files, recording)
    states |= {f"file {file}": None for file in sorted(missing)}
    for file in sorted(files):
        # Not older than the run: some of the replays may have read something else.
        state = _file_state(file, is_hashed=not file.startswith(below))
        is_sure = state is not None and _is_older(file, since_ns)
        states[f"file {file}"] = state if is_sure else _UNKNOWN
    states |= {f"modules {folder}": _modules(folder) for folder in sorted(folders)}
    return states | {f"variable {name}": keyed_digest(os.environ[name]) for name in _variables()}


def first_change(before: Surroundings, *, interpreter: str) -> Change | None:
    """Find what a run would find otherwise now; None for nothing."""
    new = (f"variable {name}" for name in _variables())
    for item in dict.fromkeys((*before, *new)):
        kind, _, name = item.partition(" ")
        was = before.get(item)
        now: str | None = None
        match kind:
            case "folder":
                now = "" if name == str(Path.cwd()) else None
            case "interpreter":
                now = "" if name == interpreter else None
            case "file":
                now = _file_state(name, is_hashed=was is None or " " not in was)
            case "modules":
                now = _modules(name)
            case "variable" if name in os.environ:
                now = keyed_digest(os.environ[name])
        if now != was or (kind == "variable" and now is None):
            return Change(cast("ChangeKind", kind), name)
    return None


def reads_of(run: Path) -> dict[str, Any] | None:
    """Read what a run read, as it wrote it down; None if it ended before that."""
    try:
        reads = json.loads((run / READS_FILE).read_bytes())
    except (OSError, ValueError):
        return None
    return reads if isinstance(reads, dict) else None


def _outside(files: Iterable[str], folder: Path) -> set[str]:
    inside = f"{os.path.realpath(folder)}/"
    return {file for file in files if not os.path.realpath(file).startswith(inside)}


def _paths_of(folder: str) -> list[Path]:
    """List what adds to the search path of Python there."""
    try:
        return list(Path(folder).glob("*.pth"))
    except OSError:
        return []


def _file_state(file: str, *, is_hashed: bool) -> str | None:
    """Digest a small file, or name its size and times in ns; None if there is none.

    Times don't count where content does: git writes the same content again when it goes to another
    branch and back, and a file system with coarse times may not tell two contents apart.
    """
    try:
        status = Path(file).stat()
        if is_hashed and status.st_size <= _MAX_HASHED_BYTES:
            return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return None
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _is_older(file: str, since_ns: int) -> bool:
    with contextlib.suppress(OSError):
        status = Path(file).stat()
        return max(status.st_mtime_ns, status.st_ctime_ns) < since_ns
    return False


def _modules(folder: str) -> str | None:
    """Digest the names of the modules in a folder."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if (entry.name.endswith(_IMPORTED) or entry.is_dir())
                and not entry.name.startswith((".", "__pycache__"))
            )
    except OSError:
        return "file" if Path(folder).is_file() else None
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()


def _variables() -> Iterator[str]:
    return (name for name in os.environ if name not in _SHELL_VARIABLES)

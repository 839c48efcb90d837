"""Whether a run would find everything as an earlier one did: files, folders with modules,
variables, the interpreter.

Only what can be compared counts as the same: a file is if its content is, or its times and size.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from graphdoctor import version
from graphdoctor.probe.wire import READS_FILE, REQUEST_FILE
from graphdoctor.trials.launch.ownership import keyed_digest

_OURS = Path(version.__file__).parent
_MAX_HASHED_BYTES = 32 * 2**20
_MAX_READ_BYTES = 2**20
"""Of one file that could name a module."""

_IMPORTED = (".py", ".pyc", ".so", ".pth", ".egg-link", ".dylib", ".zip")
_WORD = re.compile(r"[^\W\d]\w*")
_LISTING = {
    *("find_spec", "import_module", "iter_modules", "run_module", "run_path", "walk_packages"),
    *("__import__", "fwalk", "glob", "iglob", "iterdir", "listdir", "rglob", "scandir", "walk"),
}
"""Words of programs that may use a file whose name nothing says."""

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
    below = tuple(f"{prefix}/lib/" for prefix in sorted(read["prefix"]))
    states |= {f"below {folder}": "" for folder in below}
    # Our own code makes the verdicts.
    files = read["files"] | {str(path) for path in _OURS.rglob("*.py")}
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
    names = _NamesInUse(files | missing, folders, below)
    states |= {f"modules {folder}": _modules(folder, names) for folder in sorted(folders)}
    return states | {f"variable {name}": keyed_digest(os.environ[name]) for name in _variables()}


def first_change(before: Surroundings, *, interpreter: str) -> Change | None:
    """Find what a run would find otherwise now; None for nothing."""
    new = (f"variable {name}" for name in _variables())
    names = _NamesInUse(*(_named(before, kind) for kind in ("file", "modules", "below")))
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
                now = _modules(name, names)
            case "below":
                now = ""
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


class _NamesInUse:
    """Tells what the name of a new module can mean to a program.

    Args:
        files: What it read.
        folders: Where it looks for modules.
        below: What paths of installed files begin with.
    """

    def __init__(self, files: Iterable[str], folders: Iterable[str], below: Iterable[str]) -> None:
        self._files, self._folders, self._below = files, folders, tuple(below)

    def is_installed(self, folder: str) -> bool:
        """Tell if a folder is the environment's: packages look there for each other."""
        return f"{folder}/".startswith(self._below)

    @cached_property
    def _names(self) -> set[str] | None:
        """Collect the names of modules that the program may look for; None if it may be any: words
        of its own files, and what a new module would hide.
        """
        names = set[str]()
        for file in self._files:
            if file.startswith((*self._below, f"{_OURS}{os.sep}")):
                continue
            names.add(_stem(Path(file).name))
            with contextlib.suppress(OSError), Path(file).open("rb") as content:
                text = content.read(_MAX_READ_BYTES)
                if b"\0" not in text:  # else the modules that it names were imported
                    if content.read(1):
                        return None
                    names.update(_WORD.findall(text.decode("utf-8", "replace")))
        if names & _LISTING:
            return None
        names |= {*sys.stdlib_module_names, "sitecustomize", "usercustomize"}
        for folder in filter(self.is_installed, self._folders):
            names.update(map(_stem, _entries(folder) or ()))
        return names

    def has(self, entry: str) -> bool:
        """Tell if the program may look for an entry of a folder of its own."""
        is_module = entry.endswith((".py", ".pyc", ".so")) or "." not in entry
        return not is_module or self._names is None or _stem(entry) in self._names


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _named(surroundings: Surroundings, kind: str) -> list[str]:
    return [item.partition(" ")[2] for item in surroundings if item.startswith(f"{kind} ")]


def _entries(folder: str) -> list[str] | None:
    """List what Python could import from a folder; None if there is none."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if (entry.name.endswith(_IMPORTED) or entry.is_dir())
                and not entry.name.startswith((".", "__pycache__"))
            )
    except OSError:
        return None


def _modules(folder: str, names: _NamesInUse) -> str | None:
    """Digest the names of the modules in a folder that the program may look for."""
    if (entries := _entries(folder)) is None:
        return "file" if Path(folder).is_file() else None
    if not names.is_installed(folder):
        entries = list(filter(names.has, entries))
    return hashlib.sha256("\0".join(entries).encode("utf-8", "surrogateescape")).hexdigest()


def _variables() -> Iterator[str]:
    return (name for name in os.environ if name not in _SHELL_VARIABLES)

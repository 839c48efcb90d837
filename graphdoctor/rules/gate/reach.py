"""Which configured targets can reach given files through imports. Nothing is imported or run.

When in doubt, a target runs: if its imports can't be determined, it reaches every file, and every target reaches a
file that isn't Python, because any of them could read it.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_FILE = re.compile(r"(?P<file>.+\.py)(?::[^/\\]*)?")
_BY_NAME = frozenset(("import_module", "__import__"))
_AT_RUN_TIME = frozenset(
    (
        "exec", "execfile", "spec_from_file_location", "run_path", "run_module", "iter_modules", "walk_packages",
        "entry_points", "iter_entry_points", "instantiate", "import_string", "locate", "resolve_name",
        "SourceFileLoader",
    )
)  # fmt: skip
"""Functions that load code without an import statement that names it."""


@dataclass(frozen=True)
class Reach:
    """What a target can import.

    Args:
        files: Python files that its imports lead to, as absolute paths.
        unresolved: Top-level names that it imports and that weren't found in any of the usual places.
        is_open: It loads code in a way that can't be followed, or couldn't be read, so it reaches everything.
    """

    files: frozenset[Path]
    unresolved: frozenset[str] = frozenset()
    is_open: bool = False

    def reaches(self, path: Path) -> bool:
        """Whether a change to a file can affect the target."""
        if self.is_open or path.suffix != ".py" or path.resolve() in self.files:
            return True
        # A package installed from somewhere in the repository is matched by its folder's name.
        return not self.unresolved.isdisjoint((*path.parts[:-1], path.stem))


@dataclass(frozen=True)
class Selected:
    """Names of configured targets, in order, split by whether a set of files can affect them.

    Args:
        to_run: Targets that one of the files can affect.
        skipped: The others.
    """

    to_run: tuple[str, ...]
    skipped: tuple[str, ...]


def select_targets(targets: Mapping[str, Iterable[str]], files: Iterable[Path], root: Path) -> Selected:
    """Split targets into those to run and those to skip.

    Args:
        targets: By name, the code that each target uses, as ``file.py:name`` or ``package.module:name``: the target
            itself, and the source of its inputs if that's somewhere else.
        files: The files that changed.
        root: The directory that these are relative to.
    """
    given = [root / path for path in files]
    to_run = [
        name
        for name, texts in targets.items()
        if any(reach.reaches(path) for reach in (reached_by(text, root) for text in texts) for path in given)
    ]
    return Selected(tuple(to_run), tuple(name for name in targets if name not in to_run))


def reached_by(target: str, root: Path) -> Reach:
    """What a target can import, directly or not, whatever the condition.

    Args:
        target: ``file.py``, ``file.py:name``, ``package.module`` or ``package.module:name``.
        root: The directory that it's relative to.
    """
    match = _FILE.fullmatch(target)
    if match:
        file = (root / match["file"]).resolve()
        # As in the probe: the file's folder, or the folder of its outermost package, comes first on sys.path.
        folders = [file.parent, *(init.parent.parent for init in _packages_around(file))]
        return _Walk((*folders, root, root / "src")).run([file])
    module = target.partition(":")[0]
    walk = _Walk((root, root / "src"))
    return walk.run(list(walk.files_of(module)))


class _Walk:
    """Follows imports from file to file.

    Args:
        places: Folders to look for modules in; a module found in several of them counts in each.
    """

    def __init__(self, places: Iterable[Path]) -> None:
        self._places = tuple(dict.fromkeys(place.resolve() for place in places))

    def run(self, starts: list[Path]) -> Reach:
        found: set[Path] = set()
        unresolved: set[str] = set()
        waiting = [*starts, *(init for start in starts for init in _packages_around(start))]
        if not starts:
            return Reach(frozenset(), is_open=True)
        while waiting:
            path = waiting.pop()
            if path in found:
                continue
            found.add(path)
            imports = _Imports.read(path)
            if imports is None or imports.is_open:
                return Reach(frozenset(found), is_open=True)
            for name in imports.absolute:
                files = list(self.files_of(name))
                waiting += files
                top = name.partition(".")[0]
                if not files and top not in sys.stdlib_module_names and not any(self.files_of(top)):
                    unresolved.add(top)
            waiting += imports.relative
        return Reach(frozenset(found), frozenset(unresolved))

    def files_of(self, module: str) -> Iterator[Path]:
        """Files that run when a module is imported: its packages' and its own; for ``a.*``, all modules of ``a``."""
        for place in self._places:
            folder = place
            for part in module.split("."):
                yield from _module_files(folder, part)
                folder = folder / part


@dataclass(frozen=True)
class _Imports:
    """What one file imports.

    Args:
        absolute: Dotted names; the last part may be a name inside the module.
        relative: Files.
        is_open: It also loads code that can't be determined.
    """

    absolute: frozenset[str]
    relative: frozenset[Path]
    is_open: bool

    @classmethod
    def read(cls, path: Path) -> _Imports | None:
        """Read a file; None if it can't be read or parsed."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        reader = _Reader(path, tree)
        return cls(frozenset(reader.absolute), frozenset(reader.relative), reader.is_open)


class _Reader:
    """Reads imports from a file's syntax tree."""

    def __init__(self, path: Path, tree: ast.Module) -> None:
        self._path = path
        self._tree = tree

    @cached_property
    def absolute(self) -> set[str]:
        """Names of absolute imports, including literal ones through ``importlib``."""
        found: set[str] = set()
        for node in ast.walk(self._tree):
            match node:
                case ast.Import(names=names):
                    found |= {alias.name for alias in names}
                case ast.ImportFrom(level=0, module=str(module), names=names):
                    found |= {f"{module}.{alias.name}" for alias in names}
                case ast.Call(args=[ast.Constant(value=str(name))]) if _called(node) in _BY_NAME:
                    found.add(name)
                case _:
                    pass
        return found

    @cached_property
    def relative(self) -> set[Path]:
        """Files of relative imports."""
        found: set[Path] = set()
        for node in ast.walk(self._tree):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            folder = self._path.parent
            for _ in range(node.level - 1):
                folder = folder.parent
            found |= set(_module_files(folder.parent, folder.name))
            for part in node.module.split(".") if node.module else ():
                found |= set(_module_files(folder, part))
                folder = folder / part
            for alias in node.names:
                found |= set(_module_files(folder, alias.name))
        return found

    @cached_property
    def is_open(self) -> bool:
        """Whether it imports a computed name, or loads code in other ways."""
        for node in ast.walk(self._tree):
            if not isinstance(node, ast.Call):
                continue
            name = _called(node)
            is_literal = len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and not node.keywords
            if name in _AT_RUN_TIME or (name in _BY_NAME and not is_literal):
                return True
        return False


def _packages_around(file: Path) -> Iterator[Path]:
    """The ``__init__`` files above a file, innermost first: importing the file by its full name runs them."""
    folder = file.parent
    while (folder / "__init__.py").is_file():
        yield folder / "__init__.py"
        folder = folder.parent


def _called(node: ast.Call) -> str | None:
    func = node.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else None


def _module_files(folder: Path, name: str) -> Iterator[Path]:
    """The files of one module in a folder; ``*`` means every module."""
    if name == "*":
        yield from (path.resolve() for path in folder.glob("*.py"))
        yield from (path.resolve() for path in folder.glob("*/__init__.py"))
        return
    for path in (folder / f"{name}.py", folder / name / "__init__.py"):
        if path.is_file():
            yield path.resolve()

"""Configured targets that reach given files through imports. Nothing is imported or run.

When in doubt, a target runs: if its imports can't be determined, it reaches every file, and every
target reaches a file that isn't Python, because any of them could read it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.facts.stack import parsed

_FILE = re.compile(r"(?P<file>.+\.py)(?::[^/\\]*)?")
_BY_NAME = frozenset(("import_module", "__import__"))
_AT_RUN_TIME = frozenset(
    (
        "exec", "execfile", "spec_from_file_location", "run_path", "run_module", "iter_modules",
        "walk_packages",
        "entry_points", "iter_entry_points", "instantiate", "import_string", "locate",
        "resolve_name", "SourceFileLoader",
    )
)  # fmt: skip
"""Functions that load code without an import statement that names it."""


@dataclass(frozen=True)
class Reach:
    """Modules that a target can import.

    Args:
        files: Python files that its imports lead to, as absolute paths.
        unresolved: Top-level names that it imports and that weren't found in any of the usual
            places.
        is_open: It loads code in a way that can't be followed, or couldn't be read, so it reaches
            everything.
    """

    files: frozenset[Path]
    unresolved: frozenset[str] = frozenset()
    is_open: bool = False

    def reaches(self, path: Path) -> bool:
        """Return whether a change to a file can affect the target."""
        if self.is_open or path.suffix != ".py" or path.resolve() in self.files:
            return True
        # A package installed from somewhere in the repository is matched by its folder's name.
        return not self.unresolved.isdisjoint((*path.parts[:-1], path.stem))


def select_targets(
    targets: Mapping[str, Iterable[str]], files: Iterable[Path], root: Path
) -> tuple[str, ...]:
    """Return the names of the targets that one of the files can affect, in order.

    Args:
        targets: By name, the code that each target uses, as ``file.py:name`` or
            ``package.module:name``: the target itself, and the source of its inputs if that's
            somewhere else.
        files: The files that changed.
        root: The directory that these are relative to.
    """
    paths = [root / path for path in files]
    return tuple(
        name
        for name, texts in targets.items()
        if any(any(map(reached_by(text, root).reaches, paths)) for text in texts)
    )


def reached_by(target: str, root: Path) -> Reach:
    """Return what a target can import, directly or not, whatever the condition.

    Args:
        target: ``file.py``, ``file.py:name``, ``package.module`` or ``package.module:name``.
        root: The directory that it's relative to.
    """
    match = _FILE.fullmatch(target)
    if match:
        file = (root / match["file"]).resolve()
        # As in the probe: the file's folder, or the folder of its outermost package, comes first on
        # sys.path.
        folders = [file.parent, *(init.parent.parent for init in _packages_around(file))]
        return _followed([file], (*folders, root, root / "src"))
    places = (root, root / "src")
    return _followed(list(_files_of(target.partition(":")[0], places)), places)


def _followed(starts: Iterable[Path], places: Iterable[Path]) -> Reach:
    """Follow imports from file to file; a module found in several folders counts in each."""
    places = tuple(dict.fromkeys(place.resolve() for place in places))
    files_reached: set[Path] = set()
    unresolved: set[str] = set()
    waiting = [*starts, *(init for start in starts for init in _packages_around(start))]
    is_open = not waiting
    while waiting and not is_open:
        path = waiting.pop()
        if path in files_reached:
            continue
        files_reached.add(path)
        imports = _imports(path)
        is_open = imports is None
        for name in imports or ():
            if isinstance(name, Path):
                waiting.append(name)
                continue
            files = list(_files_of(name, places))
            waiting += files
            top = name.partition(".")[0]
            if not files and top not in sys.stdlib_module_names and not any(_files_of(top, places)):
                unresolved.add(top)
    return Reach(frozenset(files_reached), frozenset(unresolved), is_open=is_open)


def _files_of(module: str, places: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that run when a module is imported: its packages' and its own; for ``a.*``,
    all modules of ``a``.
    """
    for folder in places:
        for part in module.split("."):
            yield from _module_files(folder, part)
            folder = folder / part  # noqa: PLW2901


def _imports(path: Path) -> set[str | Path] | None:
    """Return what a file imports: files, and dotted names, whose last part may be a name inside the
    module.

    None if it can't be read or parsed, imports a computed name, or loads code in other ways.
    """
    try:
        tree = parsed(path.read_bytes())
    except OSError:
        return None
    if tree is None:
        return None
    imported: set[str | Path] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                imported |= {alias.name for alias in names}
            case ast.ImportFrom(level=0, module=str(module), names=names):
                imported |= {f"{module}.{alias.name}" for alias in names}
            case ast.ImportFrom():
                imported |= set(_relative(path, node))
            case ast.Call(
                func=ast.Name(id=called) | ast.Attribute(attr=called),
                args=[ast.Constant(value=str(name))],
                keywords=[],
            ) if called in _BY_NAME:
                imported.add(name)
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if (
                called in _AT_RUN_TIME | _BY_NAME
            ):
                return None
    return imported


def _relative(path: Path, node: ast.ImportFrom) -> Iterator[Path]:
    """Yield the files of a relative import."""
    folder = path.parents[node.level - 1]
    yield from _module_files(folder.parent, folder.name)
    for part in node.module.split(".") if node.module else ():
        yield from _module_files(folder, part)
        folder = folder / part
    for alias in node.names:
        yield from _module_files(folder, alias.name)


def _packages_around(file: Path) -> Iterator[Path]:
    """Yield the ``__init__`` files above a file, innermost first: importing the file by its full
    name runs them.
    """
    folder = file.parent
    while (folder / "__init__.py").is_file():
        yield folder / "__init__.py"
        folder = folder.parent


def _module_files(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files of one module in a folder; ``*`` means every module."""
    if name == "*":
        yield from (path.resolve() for path in folder.glob("*.py"))
        yield from (path.resolve() for path in folder.glob("*/__init__.py"))
        return
    for path in (folder / f"{name}.py", folder / name / "__init__.py"):
        if path.is_file():
            yield path.resolve()

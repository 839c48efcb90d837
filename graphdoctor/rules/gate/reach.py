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
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

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

    files: frozenset[Path] = frozenset()
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
    places, name = [root.resolve(), (root / "src").resolve()], target.partition(":")[0]
    if match := _FILE.fullmatch(target):
        file = (root / match["file"]).resolve()
        folder, name = file.parent, file.stem
        # As in the probe: the file's folder, or the folder of its outermost package, comes first on
        # sys.path.
        while (folder / "__init__.py").is_file():
            folder, name = folder.parent, f"{folder.name}.{name}"
        places = [folder, file.parent, *places]
    finder = _Finder([*map(str, places)])
    try:
        finder.import_hook(name)
        files = _files(finder)
        for file in files:
            for named in _named_imports(file):
                # A name without a module ends up with what isn't found.
                finder.import_hook(named.partition(".")[0])
                finder.import_hook(named)
            files += _files(finder, files)
    except (ImportError, SyntaxError, ValueError, OSError):
        return Reach(is_open=True)
    unresolved = {name.partition(".")[0] for name in finder.badmodules} - finder.modules.keys()
    # What is there and can't be read leads anywhere.
    is_open = any((place / f"{name}.py").is_file() for name in unresolved for place in places)
    unresolved -= sys.stdlib_module_names
    return Reach(frozenset(files), frozenset(unresolved), is_open=is_open)


class _Finder(ModuleFinder):
    def find_module(self, name: str, path: Any, parent: Any = None) -> Any:  # noqa: ANN401
        try:
            return super().find_module(name, path, parent)
        except (AttributeError, TypeError):
            raise ImportError(name) from None  # of a folder without an __init__.py


def _files(finder: ModuleFinder, known: Iterable[Path] = ()) -> list[Path]:
    files: Iterable[str | None] = (
        getattr(module, "__file__", None) for module in finder.modules.values()
    )
    paths = dict.fromkeys(Path(file).resolve() for file in files if file is not None)
    return [path for path in paths if path not in known]


def _named_imports(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports by a constant name.

    Raises:
        ImportError: It imports a computed name, or loads code in other ways.
    """
    for node in ast.walk(parsed(file.read_bytes()) or ast.Module([], [])):
        match node:
            case ast.Call(
                func=ast.Name(id=called) | ast.Attribute(attr=called),
                args=[ast.Constant(value=str(name))],
                keywords=[],
            ) if called in _BY_NAME:
                yield name
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if (
                called in _AT_RUN_TIME | _BY_NAME
            ):
                raise ImportError(called)

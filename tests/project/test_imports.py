"""Modules import each other in one direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

ROOT = Path(__file__).parents[2]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in (ROOT / "graphdoctor").rglob("*.py")}


def imported(name: str, path: Path) -> Iterator[str]:
    """The modules that one names, for types and inside functions too."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            whole = [f"{module}.{alias.name}" for alias in node.names]
            names = [each if each in MODULES else module for each in whole]
        else:
            continue
        yield from (each for each in names if each in MODULES and each != name)


def test_no_modules_import_each_other_in_a_circle():
    graph = {name: {*imported(name, path)} for name, path in MODULES.items()}
    circles = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = error.args[1]
            circles.append(" <- ".join(circle))
            graph[circle[1]].discard(circle[0])
        else:
            break
    assert circles == []


def private_names(path: Path) -> Iterator[str]:
    """The private modules and names of torch that a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name for name in names if name.startswith("torch.") and "._" in name)


def test_private_names_of_torch_are_imported_in_one_place():
    private = {name: {*private_names(path)} for name, path in MODULES.items()}
    named = {name for name, names in private.items() if names}
    assert any(name.startswith("graphdoctor.probe.torch_private.") for name in named)
    assert not [name for name in named if ".torch_private." not in name]

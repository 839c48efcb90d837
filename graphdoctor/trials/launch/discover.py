"""Finds what in a project could be a target, from its source alone: nothing is imported.

Conservative: a file is ready only if ``graphdoctor explain FILE`` would find the target and its
    inputs by itself.
"""

from __future__ import annotations

import ast
import os
import shlex
import tokenize
import warnings
from collections.abc import Collection, Iterator
from contextlib import suppress
from io import BytesIO
from itertools import islice
from pathlib import Path
from traceback import format_exception_only
from typing import NamedTuple

from graphdoctor.errors import GraphDoctorError, os_errors
from graphdoctor.probe.wire import INPUT_ATTRIBUTES, INPUT_FUNCTIONS

_SKIPPED_FOLDERS = frozenset(
    {
        "node_modules",
        "__pycache__",
        "site-packages",
        "build",
        "dist",
        "venv",
        "env",
        "tests",
        "test",
        "docs",
    }
)
_MAX_FILES = 5000
_MAX_BYTES = 1 << 20


class PossibleTarget(NamedTuple):
    """A possible target."""

    target: str
    why: str


class Discovered(NamedTuple):
    """Targets found in a folder."""

    ready: tuple[PossibleTarget, ...]
    without_inputs: tuple[PossibleTarget, ...]


def discover(root: Path, *, limit: int) -> Discovered:
    """Look for targets."""
    ready: list[PossibleTarget] = []
    without_inputs: list[PossibleTarget] = []
    sources = (
        folder / name
        for folder, names in project_folders(root, _SKIPPED_FOLDERS)
        for name in names
        if name.endswith(".py") and not name.startswith("test_")
        if name not in ("conftest.py", "setup.py")
    )
    for path in islice(sources, _MAX_FILES):
        if len(ready) >= limit:
            break
        tree, text = _parsed(path), path.relative_to(root).as_posix()
        if (why := _why_ready(tree)) is not None:
            ready.append(PossibleTarget(text, why))
            continue
        named = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
        line = min((it.lineno for it in named if ast.unparse(it) == "torch.compile"), default=None)
        model = _model_in(tree)
        if (line or model) and len(without_inputs) < limit:
            without = f"defines {model}, without {INPUT_FUNCTIONS[0]}()"
            why = f"calls torch.compile in line {line}" if line else without
            without_inputs.append(PossibleTarget(text, why))
    return Discovered(tuple(ready), tuple(without_inputs))


def ready_target(path: Path) -> str | None:
    """Say why a file is a target as it is, a clause; None if it isn't one."""
    return _why_ready(_parsed(path))


def model_in(path: Path) -> str | None:
    """Name the model that a file defines: ``model``, or the last of its module classes."""
    return _model_in(_parsed(path))


def _model_in(tree: ast.Module) -> str | None:
    public = [name for name in _module_classes(tree) if not name.startswith("_")]
    return _only_target(tree, {})[0] or (public[-1] if public else None)


def is_script(path: Path) -> bool:
    """Tell if a file does its work as ``__main__`` or while it is read, and names no target.

    Uncertain for what isn't seen in its source; False for what can't be read.
    """
    tree = _parsed(path)
    is_run = _runs(tree) or not _may_hold_target(tree)
    return bool(tree.body) and _why_ready(tree) is None and is_run


def script_hint(file: str) -> str:
    """Say how to record a file that is no target."""
    return f"To record all of it as a script: {shlex.join(('graphdoctor', 'run', file))}"


def check_source(file: str, name: str) -> None:
    """Refuse a file that this Python can't read, without torch, which takes seconds to import.

    Python itself doesn't decode the comments of a module, but torch.compile does.
    """
    with os_errors(name, "read"):
        source = Path(file).read_bytes()
    encoding, error = "utf-8", None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, file, "exec", dont_inherit=True)
    except (RecursionError, MemoryError):
        return  # the program's own Python says so
    except (SyntaxError, ValueError) as refused:
        error = refused
    with suppress(SyntaxError):
        encoding = tokenize.detect_encoding(BytesIO(source).readline)[0]
    try:
        source.decode(encoding)
    except UnicodeDecodeError as wrong:
        line = source.count(b"\n", 0, wrong.start) + 1
        raise GraphDoctorError(
            f"{name} isn't {encoding.upper()}: byte {source[wrong.start]:#x} in line {line}.",
            hint="Save it as UTF-8, or name its encoding in line 1: # -*- coding: latin-1 -*-",
        ) from None
    if isinstance(error, SyntaxError):
        shown = "".join(format_exception_only(error)).splitlines()[1:-1]
        hint = "\n".join((f"{name}:{error.lineno}:", *shown)) if error.lineno else None
        raise GraphDoctorError(f"{name} isn't valid Python: {error.msg}.", hint=hint)
    if error is not None:
        raise GraphDoctorError(f"{name} isn't valid Python: {error}.")


def holds_no_target(path: Path) -> bool:
    """Tell if it is certain that nothing in a file could be the target."""
    tree = _parsed(path)
    return bool(tree.body) and not _may_hold_target(tree)


def _runs(tree: ast.Module) -> bool:
    for node in tree.body:
        match node:
            case ast.For() | ast.While() | ast.With():
                return True
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                return True
            case ast.Expr(value=ast.Call(func=function)):
                if not ast.unparse(function).startswith(("torch.", "sys.")):
                    return True
    return False


def _may_hold_target(tree: ast.Module) -> bool:
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    for node in ast.walk(tree):
        match node:
            case ast.alias(name=name, asname=alias) if (alias or name) in ("build", "model", "*"):
                return True
            case (
                ast.Lambda()
                | ast.Name(id="build" | "model" | "globals" | "exec" | "setattr" | "type")
            ):
                return True
        if isinstance(node, definitions) and _is_public(node.name):
            return True
    return False


def project_folders(root: Path, left_out: Collection[str] = ()) -> Iterator[tuple[Path, list[str]]]:
    """Walk a folder and those below it, without environments, hidden folders and links; yields the
    names of their files.
    """
    for place, names, files in os.walk(root):
        kept = sorted(name for name in names if not name.startswith(".") and name not in left_out)
        names[:] = [name for name in kept if not os.path.exists(f"{place}/{name}/pyvenv.cfg")]  # noqa: PTH110 - a folder that can't be read has none
        yield Path(place), sorted(files)


def _parsed(path: Path) -> ast.Module:
    """Parse a file; empty if it can't be read, is large, or says nothing of torch."""
    with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        content = path.read_bytes() if path.stat().st_size <= _MAX_BYTES else b""
        if b"torch" in content:
            return ast.parse(content)
    return ast.Module([], [])


def _why_ready(tree: ast.Module) -> str | None:
    """Say what makes a file a target as it is; None if it isn't one. The order is the probe's."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    callable_ = [name for name, node in functions.items() if not _needs_arguments(node)]
    inputs = next((name for name in INPUT_FUNCTIONS if name in callable_), None)
    build = functions.get("build")
    if build is not None and inputs and "build" in callable_:
        return f"build() and {inputs}()"
    if build is not None:
        returned = [node.value for node in ast.walk(build) if isinstance(node, ast.Return)]
        is_pair = returned and all(
            isinstance(value, ast.Tuple) and 2 <= len(value.elts) <= 3 for value in returned
        )
        return "build() returns the inputs too" if "build" in callable_ and is_pair else None
    name, node = _only_target(tree, functions)
    if name is not None and inputs:
        return f"{name} and {inputs}()"
    for item in ast.walk(node) if node is not None else ():
        match item:
            case (
                ast.FunctionDef(name=attribute)
                | ast.Attribute(attr=attribute, ctx=ast.Store())
                | ast.Name(id=attribute, ctx=ast.Store())
            ) if attribute in INPUT_ATTRIBUTES:
                return f"{name}.{attribute}"
    return None


def _only_target(
    tree: ast.Module, functions: dict[str, ast.FunctionDef]
) -> tuple[str | None, ast.ClassDef | None]:
    """Find what the probe takes if no name is given, and its class."""
    classes = _module_classes(tree)
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="model")], value=ast.Call(func=made))
                | ast.AnnAssign(target=ast.Name(id="model"), value=ast.Call(func=made))
            ):
                return "model", classes.get(ast.unparse(made))
    ready = [
        node
        for name, node in classes.items()
        if not name.startswith("_") and not _constructor_needs_arguments(node, classes)
    ]
    if len(ready) == 1:
        return ready[0].name, ready[0]
    public = [name for name in functions if _is_public(name)]
    return f"{public[0]}()" if not ready and len(public) == 1 else None, None


def _module_classes(tree: ast.Module) -> dict[str, ast.ClassDef]:
    classes: dict[str, ast.ClassDef] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            if any(base in ("Module", "LightningModule") or base in classes for base in bases):
                classes[node.name] = node
    return classes


def _is_public(name: str) -> bool:
    return name not in (*INPUT_FUNCTIONS, "main") and not name.startswith("_")


def _constructor_needs_arguments(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            return _needs_arguments(item, bound=1)
    bases = [ast.unparse(base) for base in node.bases]
    return any(
        base in classes and _constructor_needs_arguments(classes[base], classes) for base in bases
    )


def _needs_arguments(function: ast.FunctionDef, *, bound: int = 0) -> bool:
    """``bound`` arguments come with a method's object."""
    arguments = function.args
    positional = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    return positional > bound or any(default is None for default in arguments.kw_defaults)

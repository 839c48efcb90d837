"""Torch settings that prevent a cause from breaking. If the project changes one, its findings aren't certain."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

_BY_CODE: dict[str, tuple[str, ...]] = {
    "GD101": ("reorderable_logging_functions", "ignore_logging_functions"),
    "GD103": ("capture_scalar_outputs",),
    "GD104": ("capture_dynamic_output_shape_ops",),
    "GD112": ("trace_autograd_ops",),
    "GD115": ("graph_break_on_nn_param_ctor",),
    "GD116": ("allow_rnn",),
    "GD205": ("allow_unspec_int_on_nn_module",),
}
"""Names in ``torch/_dynamo/config.py``, 2.13, by the rule code whose cause they can prevent."""
_MAX_FILES = 20_000
_LEFT_OUT = frozenset(("node_modules", "site-packages", "build", "dist", "__pycache__"))
_PREFIX = "torch._dynamo.config."
_SETTERS = ("patch", "setattr", "_patch")


def switches_of(code: str) -> tuple[str, ...]:
    """The settings that can prevent the cause of a rule's findings."""
    return _BY_CODE.get(code, ())


def switches_in(root: Path, wanted: Iterable[str]) -> dict[str, Path]:
    """Which settings the Python files below a folder change, each with the first file that does.

    Hidden folders and environments are left out. Values aren't considered: a setting that is assigned may be on.
    """
    found: dict[str, Path] = {}
    missing = set(wanted)
    for count, path in enumerate(_python_files(root)):
        if count >= _MAX_FILES or not missing:
            break
        try:
            content = path.read_bytes()
        except OSError:
            continue
        named = {name for name in missing if name.encode() in content}
        if named:
            named &= _set_in(content)
            found.update(dict.fromkeys(named, path))
            missing -= named
    return found


def _set_in(content: bytes) -> set[str]:
    """Every attribute that a file assigns or changes through a method, and every name in a string or a ``patch``."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
            case ast.Constant(value=str(text)) if text.startswith(_PREFIX):
                found.add(text.removeprefix(_PREFIX))
            case ast.Call(func=ast.Attribute(attr="add" | "update", value=ast.Attribute(attr=name))):
                found.add(name)
            case ast.Call(func=ast.Attribute(attr=setter) | ast.Name(id=setter)) if setter in _SETTERS:
                found |= {keyword.arg for keyword in node.keywords if keyword.arg}
                texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
                found |= {text.rpartition(".")[2] for text in texts if isinstance(text, str)}
            case _:
                pass
    return found


def _python_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _LEFT_OUT)
        for name in sorted(files):
            if name.endswith(".py"):
                yield Path(folder, name)

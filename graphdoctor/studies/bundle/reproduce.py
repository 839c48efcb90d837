"""Writes a script that makes the recorded calls with only torch and what the target's file imports.

Comes in: a recording and the request that it was made from. Goes out: the script's text and the modules next to the
target that it imports, or why there is no script. Uses the recorded files only: those on disk may have changed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphdoctor.facts.picture import SourceText
from graphdoctor.facts.recording import Recording
from graphdoctor.studies.bundle.calls import call_lines, seed_lines

MODULES = "modules"
"""The folder next to the script for the modules that it imports."""


@dataclass(frozen=True)
class Script:
    """The script, or why there is none.

    Args:
        text: The script; None if there is none.
        modules: Texts of the target's own modules by their path below ``MODULES``.
        reason: Why there is none, as a clause.
    """

    text: str | None
    modules: Mapping[str, str] = field(default_factory=dict)
    reason: str | None = None


class _ImpossibleError(Exception):
    """Why there can't be a script, as a clause."""


def write_script(recording: Recording, request: Mapping[str, Any]) -> Script:
    """Write the script.

    Args:
        recording: A recording with its picture.
        request: What the probe was asked to do; empty if unknown.
    """
    try:
        return _script(recording, request)
    except _ImpossibleError as impossible:
        return Script(None, reason=str(impossible))


def _script(recording: Recording, request: Mapping[str, Any]) -> Script:
    target = recording.target
    if target.kind == "script":
        raise _ImpossibleError(
            "the recording is of a whole program; graphdoctor explain records a single function or module"
        )
    if not request or recording.picture is None:
        raise _ImpossibleError("the log was not recorded by graphdoctor explain, so the calls are unknown")
    if target.name is None or target.file is None:
        raise _ImpossibleError("the run ended before the target was created")
    if request.get("file") is None and "." in str(request.get("module")):
        raise _ImpossibleError("the target is a module in a package; name its file to get a script")
    texts = {file.file: file for file in recording.picture.files}
    text = _text_of(target.file, texts)
    modules = dict(_modules(Path(target.file), text, texts))
    return Script(_put_together(text, recording, request, has_modules=bool(modules)), modules)


def _text_of(file: str, texts: Mapping[str, SourceText]) -> str:
    found = texts.get(file)
    if found is None or found.text is None:
        raise _ImpossibleError(f"the recording doesn't have the text of {Path(file).name}")
    return found.text


def _parsed(text: str, name: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        raise _ImpossibleError(f"Python {sys.version_info[0]}.{sys.version_info[1]} can't parse {name}") from None


def _modules(file: Path, text: str, texts: Mapping[str, SourceText]) -> Iterator[tuple[str, str]]:
    """The modules next to the target that it imports, and those that they import.

    Raises:
        _ImpossibleError: One isn't in the recording, or is a package.
    """
    seen: set[str] = set()
    waiting = [(file.name, text)]
    while waiting:
        name, content = waiting.pop()
        for imported in _imported(_parsed(content, name), name):
            if imported in seen or imported in sys.stdlib_module_names or imported == file.stem:
                continue
            seen.add(imported)
            if (found := _recorded_module(file, imported, texts)) is not None:
                content = _text_of(found, texts)
                waiting.append((f"{imported}.py", content))
                yield f"{imported}.py", content
            elif _is_beside(file, imported, texts):
                raise _ImpossibleError(f"{name} imports the project's {imported}, which isn't in the recording")


def _recorded_module(file: Path, name: str, texts: Mapping[str, SourceText]) -> str | None:
    """The project's file with this name: next to the target, or the only one elsewhere."""
    beside = str(file.parent / f"{name}.py")
    if beside in texts:
        return beside
    known = [found.file for found in texts.values() if found.origin == "user" and Path(found.file).name == f"{name}.py"]
    return known[0] if len(known) == 1 else None


def _imported(tree: ast.Module, name: str) -> Iterator[str]:
    """Top-level names of everything that is imported, anywhere in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise _ImpossibleError(f"{name} imports from its own package")
            yield (node.module or "").split(".")[0]


def _is_beside(file: Path, name: str, texts: Mapping[str, SourceText]) -> bool:
    """Whether the name is a file or folder of the project, as far as the disk and the recording show."""
    folders = [file.parent]
    while (folders[-1] / "__init__.py").is_file() and folders[-1] != folders[-1].parent:
        folders.append(folders[-1].parent)
    if any((folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file() for folder in folders):
        return True
    # An editable installation can be anywhere.
    return any(known.origin == "user" and name in Path(known.file).parts[:-1] for known in texts.values())


def _put_together(text: str, recording: Recording, request: Mapping[str, Any], *, has_modules: bool) -> str:
    lines = text.splitlines()
    tree = _parsed(text, Path(recording.target.file or "").name)
    start = _start(tree)
    # From the end, so that earlier line numbers stay valid.
    for first, last in reversed(_main_blocks(tree)):
        del lines[first - 1 : last]
    body = "\n".join(lines[start:]).strip("\n")
    head = "\n".join(lines[:start])
    setup = "\n".join(_setup_lines(request, has_modules=has_modules))
    calls = "\n".join(call_lines(recording, request))
    parts = [head, setup, f"# --- {Path(recording.target.file or '').name}, as recorded ---", body, "", calls]
    return "\n".join(part for index, part in enumerate(parts) if part or index > 3) + "\n"


def _start(tree: ast.Module) -> int:
    """How many lines must stay at the top: the docstring and ``__future__`` imports."""
    count = 0
    for index, node in enumerate(tree.body):
        is_docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        count = node.end_lineno or count
    return count


def _main_blocks(tree: ast.Module) -> list[tuple[int, int]]:
    """The lines that run only when the file itself is run. The probe imported it."""
    return [
        (node.lineno, node.end_lineno or node.lineno)
        for node in tree.body
        if isinstance(node, ast.If)
        and not node.orelse
        and any(isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test))
    ]


def _setup_lines(request: Mapping[str, Any], *, has_modules: bool) -> Iterator[str]:
    yield "# Written by graphdoctor bundle: a recorded target and the calls that were made."
    yield from seed_lines(request)
    if has_modules:
        yield ""
        yield "import sys as _sys"
        yield ""
        yield f"_sys.path.insert(1, _sys.path[0] + '/{MODULES}')"
    config: Mapping[str, object] = request.get("config") or {}
    for module in dict.fromkeys(name.rpartition(".")[0] for name in config):
        yield f"import {module}"
    yield from (f"{name} = {value!r}" for name, value in config.items())
    yield ""

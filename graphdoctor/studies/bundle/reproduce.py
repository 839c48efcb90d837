"""Writes a script that makes the recorded calls with only torch and what the target's file imports.

Uses the recorded files only: those on disk may have changed.
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
from graphdoctor.probe.wire import INPUTS_FROM_OPTIONS, INPUTS_NOT_NEEDED
from graphdoctor.studies.bundle.texts import rendered
from graphdoctor.trials.launch.request import DTYPES

SCRIPT = "reproduce.py"
MODULES = "modules"
"""The folder next to the script for the modules that it imports."""

_DEFAULTS: Mapping[str, Any] = {
    **{"seed": 0, "calls": 1, "config": {}, "inputs": {}},
    **dict.fromkeys(("device", "dtype", "batch", "train", "no_grad", "backward", "regional")),
}
_COMPILED: Mapping[str, object] = {
    "backend": None,
    "mode": None,
    "options": {},
    "dynamic": None,
    "fullgraph": False,
}
"""Arguments of ``torch.compile``, with what needn't be written."""
_METHODS = {"float32": "float", "float64": "double", "float16": "half", "bfloat16": "bfloat16"}


@dataclass(frozen=True)
class Script:
    """The script, or why there is none.

    ``text``: the script; None if there is none.
    ``modules``: texts of the target's own modules by their path below ``MODULES``.
    """

    text: str | None
    modules: Mapping[str, str] = field(default_factory=dict)
    reason: str | None = None

    @property
    def files(self) -> Mapping[str, str]:
        """The script and its modules by their paths in a bundle; empty if there is none."""
        modules = {f"{MODULES}/{name}": text for name, text in self.modules.items()}
        return {} if self.text is None else {SCRIPT: self.text, **modules}


class _ImpossibleError(Exception):
    """Why there can't be a script, as a clause."""


def write_script(recording: Recording, request: Mapping[str, Any]) -> Script:
    """Write the script."""
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
        raise _ImpossibleError(
            "the log was not recorded by graphdoctor explain, so the calls are unknown"
        )
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
        raise _ImpossibleError(
            f"Python {sys.version_info[0]}.{sys.version_info[1]} can't parse {name}"
        ) from None


def _modules(file: Path, text: str, texts: Mapping[str, SourceText]) -> Iterator[tuple[str, str]]:
    seen = {file.stem, *sys.stdlib_module_names}
    waiting = [(file.name, text)]
    while waiting:
        name, content = waiting.pop()
        for imported in _imported(_parsed(content, name), name):
            if imported in seen:
                continue
            seen.add(imported)
            if (found := _recorded_module(file, imported, texts)) is not None:
                waiting.append((f"{imported}.py", _text_of(found, texts)))
                yield waiting[-1]
            elif _is_beside(file, imported, texts):
                raise _ImpossibleError(
                    f"{name} imports the project's {imported}, which isn't in the recording"
                )


def _recorded_module(file: Path, name: str, texts: Mapping[str, SourceText]) -> str | None:
    beside = str(file.parent / f"{name}.py")
    known = [
        found.file
        for found in texts.values()
        if found.origin == "user" and Path(found.file).name == f"{name}.py"
    ]
    return beside if beside in texts else known[0] if len(known) == 1 else None


def _imported(tree: ast.Module, name: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            raise _ImpossibleError(f"{name} imports from its own package")
        if isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)


def _is_beside(file: Path, name: str, texts: Mapping[str, SourceText]) -> bool:
    """Whether the name is a file or folder of the project, as far as the disk and the recording
    show.
    """
    for folder in file.parents:
        if (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file():
            return True
        if not (folder / "__init__.py").is_file():
            break
    # An editable installation can be anywhere.
    return any(
        known.origin == "user" and name in Path(known.file).parts[:-1] for known in texts.values()
    )


def _put_together(
    text: str, recording: Recording, request: Mapping[str, Any], *, has_modules: bool
) -> str:
    """The script. ``probe/steps/workload.py``, ``probe/target/`` and ``probe/replay/arguments.py``
    do what it does.
    """
    target, lines = recording.target, text.splitlines()
    file = Path(target.file or "").name
    tree = _parsed(text, file)
    start = _start(tree)
    # From the end, so that earlier line numbers stay valid.
    for node in filter(_is_main_block, reversed(tree.body)):
        del lines[node.lineno - 1 : node.end_lineno]
    # The factory returned the arguments with the target.
    is_own = target.kind == "factory" and target.inputs_from == f"{target.name}()"
    spec = {**_DEFAULTS, **{name: value for name, value in request.items() if value is not None}}
    return rendered(
        "reproduce.py.jinja",
        head="\n".join(lines[:start]),
        body="\n".join(lines[start:]).strip("\n"),
        file=file,
        target=target,
        spec=spec,
        is_own=is_own,
        origins={"options": INPUTS_FROM_OPTIONS, "none": INPUTS_NOT_NEEDED},
        # A list of bare tensors can be the arguments of one call.
        is_one_round=recording.exit.reason == "finished" and len(recording.calls) == spec["calls"],
        dtypes=DTYPES,
        method=_METHODS.get(spec["dtype"]),
        has_modules=has_modules,
        folder=MODULES,
        config_modules=tuple(dict.fromkeys(name.rpartition(".")[0] for name in spec["config"])),
        compile_arguments=[
            f"{name}={value!r}"
            for name, default in _COMPILED.items()
            if (value := request.get(name)) not in (None, default)
        ],
    )


def _start(tree: ast.Module) -> int:
    count = 0
    for index, node in enumerate(tree.body):
        is_docstring = (
            index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        )
        if not is_docstring and not (
            isinstance(node, ast.ImportFrom) and node.module == "__future__"
        ):
            break
        count = node.end_lineno or count
    return count


def _is_main_block(node: ast.stmt) -> bool:
    """Whether it runs only when the file itself is run. The probe imported it."""
    names = ast.walk(node.test) if isinstance(node, ast.If) and not node.orelse else ()
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in names)

"""Collects what the author of an edit for a finding needs; ``try_patch`` takes the answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from graphdoctor.facts.diagnosis import Diagnosis, EditRequest, Finding, SentFunction
from graphdoctor.facts.stack import StackEntry, parsed, relative
from graphdoctor.fixes.patch import encoding_of
from graphdoctor.rules.catalog import PAGES
from graphdoctor.version import __version__

_MOST_CALLS = 5


def edit_request(diagnosis: Diagnosis, finding: Finding, root: Path) -> EditRequest:
    """Collect what the author of an edit for a finding needs."""
    recording = diagnosis.recording
    graphs = (
        recording.graphs[graph.index]
        for graph in diagnosis.graphs
        if graph.ended_by_fingerprint == finding.fingerprint
    )
    inputs = (item for graph in graphs for item in graph.inputs or () if not item.is_parameter)
    calls = dict.fromkeys(call.inputs for call in recording.calls if call.inputs is not None)
    return EditRequest(
        graphdoctor_version=__version__,
        finding=finding,
        advice=PAGES[finding.code].documentation(),
        functions=tuple(_functions(finding, root)),
        tensors=tuple({(item.source, item.dtype, item.shape): item for item in inputs}.values()),
        calls=tuple(calls)[:_MOST_CALLS],
    )


def _functions(finding: Finding, root: Path) -> Iterator[SentFunction]:
    seen = set()
    places: list[StackEntry] = [*finding.user_stack, finding.location]
    for place in places:
        path = root / place.file
        if place.origin != "user" or not path.is_file():
            continue
        content = path.read_bytes()
        text = content.decode(encoding_of(content), "replace")
        function = _function_around(text, place.line)
        if function is None or (path, function[1]) in seen:
            continue
        name, line, end = function
        seen.add((path, line))
        lines = text.split("\n")[line - 1 : end]
        yield SentFunction(
            file=relative(str(path), root), name=name, line=line, text="\n".join(lines)
        )


def _function_around(text: str, line: int) -> tuple[str, int, int] | None:
    """Find the outermost function around a line: its name, first line with decorators, and last."""
    if (tree := parsed(text)) is None:
        return None
    waiting: list[ast.AST] = [tree]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop(0)):
            # A decorator's line isn't the function's.
            if not isinstance(child, ast.stmt) or not (
                child.lineno <= line <= (child.end_lineno or 0)
            ):
                continue
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([child.lineno, *(node.lineno for node in child.decorator_list)])
                return child.name, first, child.end_lineno or line
            waiting.append(child)
    return None

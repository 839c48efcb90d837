"""Which functions of which files the last recording saw torch trace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from graphdoctor.model.recording import Recording


def traced_functions(recording: Recording) -> Mapping[Path, frozenset[str]]:
    """Qualified names of the user's functions that torch traced, by file.

    Names and no lines: a file may have changed since. A function that was inlined is known by the line of a graph's
    node or of a break in it, where the recording has that line's source.
    """
    names: dict[Path, set[str]] = {}
    for frame in recording.frames:
        if frame.origin == "user" and frame.qualname:
            names.setdefault(Path(frame.file), set()).add(frame.qualname)
    traced = {(node.file, node.line) for graph in recording.graphs for node in graph.nodes or ()}
    traced |= {(entry.file, entry.line) for one in recording.breaks for entry in one.stack if entry.origin == "user"}
    for context in recording.sources:
        if (context.file, context.line) in traced:
            names.setdefault(Path(context.file), set()).add(context.qualname)
    return {file: frozenset(found) for file, found in names.items()}

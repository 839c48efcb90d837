"""What lint takes from a recording: which functions torch traced, and under which settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graphdoctor.facts.recording import Recording


@dataclass(frozen=True)
class Recorded:
    """What lint takes from a recording.

    Args:
        functions: Qualified names of the functions that torch traced, by file.
        settings: Names of the torch settings that the run changed.
    """

    functions: Mapping[Path, frozenset[str]] = field(default_factory=dict)
    settings: frozenset[str] = frozenset()


def recorded_in(recording: Recording) -> Recorded:
    """What a recording knows about the user's files.

    Names only, because lines may have moved since. An inlined function is known by the line of a graph's node, or of a
    break in it, if the recording has that line's source.
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
    return Recorded(
        functions={file: frozenset(found) for file, found in names.items()},
        settings=frozenset(name.rpartition(".")[2] for name in recording.target.config),
    )

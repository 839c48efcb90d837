"""Finds out whether a graph that was reused is stale: a fresh compile agrees with eager mode, and
it doesn't. Names the value that no guard held, where only one can be it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from graphdoctor.facts.accuracy import StaleValue
from graphdoctor.facts.recording import Compile, Graph, GraphNode, Recording
from graphdoctor.facts.stack import StackEntry
from graphdoctor.facts.trials import Difference

_Part = tuple[GraphNode, str | None, str | None]
"""A node of the fresh graph, and what the reused graph and it have there; None if that is more than
one word."""


def stale_value(
    reused: Recording, fresh: Recording, difference: Difference, call: int
) -> StaleValue:
    """Name what changed since a graph was compiled.

    Args:
        reused: The calls with torch's own guards, which are wrong in ``call``.
        fresh: The same calls, each compiled anew, which are right.
        difference: How the results of ``reused`` differ.
        call: The first wrong call, from 1.
    """
    compile_, part = next(_parting(reused, fresh, call), (None, None))
    first = 1 if compile_ is None else compile_.call_index or 1
    values = {} if fresh.replay is None else fresh.replay.changing
    changed = {
        name: (before, after)
        for name, of_calls in values.items()
        if (before := of_calls[first - 1]) != (after := of_calls[call - 1])
    }
    if part is not None:
        changed = {name: pair for name, pair in changed.items() if pair == part[1:]} or changed
    name = next(iter(changed)) if len(changed) == 1 else None
    before, after = changed[name] if name else (None, None) if part is None else part[1:]
    node = None if part is None else part[0]
    location = None
    if node is not None and node.file is not None and node.line is not None:
        location = StackEntry(file=node.file, line=node.line, function="").located(Path.cwd())
    return StaleValue(
        expression=name,
        before=before,
        after=after,
        call=call,
        compile_id=None if compile_ is None else compile_.compile_id,
        location=location,
        difference=difference,
    )


def _parting(
    reused: Recording, fresh: Recording, call: int
) -> Iterator[tuple[Compile, _Part | None]]:
    """Yield the reused compiles whose graphs are others than the fresh ones of a call."""
    anew = {graph.function: graph for _, graph in _compiled(fresh, call, call)}
    latest = {graph.function: (of, graph) for of, graph in _compiled(reused, 1, call)}
    for function, (compile_, graph) in latest.items():
        if function in anew and (part := _differing(graph, anew[function])) is not None:
            yield compile_, part


def _compiled(recording: Recording, first: int, last: int) -> Iterator[tuple[Compile, Graph]]:
    compiles = {compile_.compile_id: compile_ for compile_ in recording.compiles}
    for graph in recording.graphs:
        compile_ = compiles.get(graph.compile_id)
        if compile_ is not None and first <= (compile_.call_index or 0) <= last:
            yield compile_, graph


def _differing(graph: Graph, anew: Graph) -> _Part | None:
    for old, new in zip_longest(graph.nodes or (), anew.nodes or ()):
        if old is None or new is None:
            node = new or old
            return (node, None, None) if node is not None else None
        if (old.target, old.args, old.kwargs) != (new.target, new.args, new.kwargs):
            pairs = zip(_words(old), _words(new), strict=False)
            return new, *next((pair for pair in pairs if pair[0] != pair[1]), (None, None))
    return None


def _words(node: GraphNode) -> list[str]:
    return [node.target, *f"{node.args}, {node.kwargs}".split(", ")]

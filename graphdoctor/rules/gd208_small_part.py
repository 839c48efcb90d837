"""GD208: a large graph that recompiles for a value that only a small part of it uses."""

from __future__ import annotations

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.facts.recording import Graph
from graphdoctor.facts.stack import StackEntry
from graphdoctor.facts.wording import quoted
from graphdoctor.rules.diagnosis.recompile_wording import GUIDE
from graphdoctor.rules.diagnosis.recompiles import RecompileEvent, distinct_values
from graphdoctor.rules.diagnosis.rule import RecordingRule, RecordingView, RuleMatch

_LARGE = 50
"""Number of operations from which a graph is worth splitting."""

_SMALL_SHARE = 0.1
"""Largest share of the graph's operations that counts as a small part."""

_CONSTANTS = frozenset({"number", "module_number", "flag", "text", "none", "value"})


class SmallPart(RecordingRule, code="GD208", name="small-part-of-large-graph", severity="info"):
    """A large graph that recompiles for a value that only a small part of it uses.

    ## What it finds
    A function with 50 or more operations that recompiled because a constant changed, if the line that made torch guard
    on the constant has at most a tenth of the operations.

    ## Why it costs
    torch compiles all operations again because of a few.

    ## Example
    ```python
    import torch

    def forward(x, mode):
        for _ in range(40):
            x = x.sin().cos()
        return x + len(mode)

    def inputs():
        return [(torch.ones(4), "a"), (torch.ones(4), "ab")]
    ```

    ## Use instead
    ```python
    import torch

    def forward(x, length):
        for _ in range(40):
            x = x.sin().cos()
        return x + length

    def inputs():
        return [(torch.ones(4), torch.tensor(1)), (torch.ones(4), torch.tensor(2))]
    ```
    If the value must stay a constant, split the function: compile the large part and the part that uses the value
    separately.

    ## Fix safety
    A split keeps results the same. It costs the time of a graph break in each call.

    ## Source
    PyTorch user guide, "Recompilation": an explicit graph break around the part that changes.
    """

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        graphs = {graph.compile_id: graph for graph in view.recording.graphs}
        found: dict[tuple[str, int], list[RecompileEvent]] = {}
        for event in view.events:
            line = _line(event)
            graph = graphs.get(event.compiles[0].compile_id)
            if line is not None and graph is not None and _is_small_part(line, graph):
                found.setdefault((line.file, line.line), []).append(event)
        return tuple(_match(events, graphs) for events in found.values())


def _line(event: RecompileEvent) -> StackEntry | None:
    """The line that made torch guard on all changed values, if they are constants; otherwise None."""
    lines = {change.guard_location for change in event.changes}
    if len(lines) != 1 or not all(change.kind in _CONSTANTS for change in event.changes):
        return None
    line = lines.pop()
    return line if line is not None and line.origin == "user" else None


def _counts(line: StackEntry, graph: Graph) -> tuple[int, int] | None:
    if graph.nodes is None:
        return None
    calls = [node for node in graph.nodes if node.opcode.startswith("call_")]
    return sum((node.file, node.line) == (line.file, line.line) for node in calls), len(calls)


def _is_small_part(line: StackEntry, graph: Graph) -> bool:
    counts = _counts(line, graph)
    return counts is not None and counts[1] >= _LARGE and 0 < counts[0] <= _SMALL_SHARE * counts[1]


def _match(events: list[RecompileEvent], graphs: dict[str, Graph]) -> RuleMatch:
    first = events[0]
    line = _line(first)
    assert line is not None  # events without one are not collected
    counts = _counts(line, graphs[first.compiles[0].compile_id]) or (0, 0)
    value = quoted(first.changes[0].expression)
    return RuleMatch(
        entry=line,
        message=f"`{first.frame.described}` recompiles all of its {counts[1]} operations for {value}, which only "
        f"{counts[0]} of them use, on this line",
        count=len(events),
        changes=distinct_values(change for event in events for change in event.changes),
        compile_ids=tuple(event.compiles[0].compile_id for event in events),
        fixes=(
            Fix(
                title=f"Compile the part that uses {value} separately",
                kind="code",
                is_safe=True,
                source=GUIDE,
            ),
        ),
    )

"""GD208: a large graph that recompiles for a value that only a small part of it uses."""

from __future__ import annotations

from graphdoctor.facts.recording import Graph
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.toolkit import (
    Matches,
    RecompileEvent,
    RecordingRule,
    RecordingView,
    RuleMatch,
    code_fix,
    distinct_values,
    quoted,
)

_LARGE = 50
"""Number of operations from which a graph is worth splitting."""
_SMALL_SHARE = 0.1
"""Largest share of the graph's operations that counts as a small part."""
_CONSTANTS = frozenset({"number", "module_number", "flag", "text", "none", "value"})


class SmallPart(RecordingRule, severity="info"):
    """A large graph that recompiles for a value that only a small part of it uses.

    ## What it finds
    A function with 50 or more operations that recompiled because a constant changed, if the line
    that made torch guard on the constant has at most a tenth of the operations.

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
    def forward(x, length):
        for _ in range(40):
            x = x.sin().cos()
        return x + length

    def inputs():
        return [(torch.ones(4), torch.tensor(1)), (torch.ones(4), torch.tensor(2))]
    ```
    If the value must stay a constant, split the function: compile the large part and the part that
    uses the value separately.

    ## Fix safety
    A split keeps results the same. It costs the time of a graph break in each call.

    ## Source
    PyTorch user guide, "Recompilation": an explicit graph break around the part that changes.
    """

    def findings(self, view: RecordingView) -> Matches:
        found: dict[tuple[str, int], list[tuple[RecompileEvent, StackEntry, int, int]]] = {}
        for event in view.events:
            line, graph = _line(event), view.graphs.get(event.compiles[0].compile_id)
            if line is not None and graph is not None:
                part, whole = _counts(line, graph)
                if whole >= _LARGE and 0 < part <= _SMALL_SHARE * whole:
                    found.setdefault(line.at, []).append((event, line, part, whole))
        for alike in found.values():
            first, line, part, whole = alike[0]
            value = quoted(first.changes[0].expression)
            yield RuleMatch(
                entry=line,
                message=f"`{first.frame.described}` recompiles all of its {whole} operations for {value}, which only "
                f"{part} of them use, on this line",
                changes=distinct_values(change for event, *_ in alike for change in event.changes),
                of=[event.compiles[0] for event, *_ in alike],
                fixes=(code_fix(f"Compile the part that uses {value} separately", is_safe=True),),
            )


def _line(event: RecompileEvent) -> StackEntry | None:
    """The line that made torch guard on all changed values, if they are constants; otherwise
    None.
    """
    lines = {change.guard_location for change in event.changes}
    if len(lines) != 1 or not all(change.kind in _CONSTANTS for change in event.changes):
        return None
    line = lines.pop()
    return line if line is not None and line.origin == "user" else None


def _counts(line: StackEntry, graph: Graph) -> tuple[int, int]:
    """The graph's operations at the line, and all of them."""
    calls = [node for node in graph.nodes or () if node.opcode.startswith("call_")]
    return sum((node.file, node.line) == line.at for node in calls), len(calls)

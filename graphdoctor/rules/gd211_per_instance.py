"""GD211: a function that recompiles for each instance of its module."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.diagnosis.frames import described, frame_entry
from graphdoctor.diagnosis.recompile_wording import GUIDE
from graphdoctor.diagnosis.recompiles import RecompileEvent, distinct_values, hidden_change_count
from graphdoctor.diagnosis.rule import RecordingRule, RecordingView, RuleMatch
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.wording import names

_FEWEST = 2
"""Number of recompiles of one function from one line in one call that make a pattern."""


class PerInstance(RecordingRule):
    """A function that recompiles for each instance of its module.

    ## What it finds
    Within one call, a line calls a method on one module instance after another, and the method recompiles for several
    of them because an attribute differs from instance to instance.

    ## Why it costs
    torch compiles once for each layer instead of once for all of them. After the recompile limit, the remaining layers
    run eagerly.

    ## Example
    ```python
    import torch

    class Layer(torch.nn.Module):
        def __init__(self, index):
            super().__init__()
            self.index = index

        def forward(self, x):
            return x + self.index

    layers = [Layer(index) for index in range(4)]

    def forward(x):
        for layer in layers:
            torch._dynamo.graph_break()
            x = layer(x)
        return x

    def inputs():
        return (torch.ones(4),)
    ```

    ## Use instead
    ```python
    import torch

    class Layer(torch.nn.Module):
        def __init__(self, index):
            super().__init__()
            self.register_buffer("index", torch.tensor(index))

        def forward(self, x):
            return x + self.index

    layers = [Layer(index) for index in range(4)]

    def forward(x):
        for layer in layers:
            x = layer(x)
        return x

    def inputs():
        return (torch.ones(4),)
    ```
    Compile each layer separately (regional compilation: `for layer in layers: layer.compile()`) and keep what differs
    between layers in buffers. Or mark the layer with `torch.compiler.nested_compile_region`.

    ## Fix safety
    Regional compilation keeps results the same. A buffer can replace a number in arithmetic.

    ## Source
    PyTorch user guide, "Compile time": regional compilation; `torch/compiler/__init__.py`, 2.13
    (`nested_compile_region`).
    """

    code: ClassVar = "GD211"
    name: ClassVar = "per-instance-recompile"
    severity: ClassVar = "warning"

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        """One for each function."""
        groups: dict[tuple[int, int | None, tuple[str, int] | None], list[RecompileEvent]] = {}
        for event in view.events:
            site = event.call_site
            if site is not None and event.call_index is not None and _is_of_instance(event):
                key = (event.frame.frame_id, event.call_index, (site.file, site.line))
                groups.setdefault(key, []).append(event)
        found: dict[int, RuleMatch] = {}
        for (frame_id, _, _), events in groups.items():
            if len(events) >= _FEWEST and frame_id not in found:
                found[frame_id] = _match(events)
        return tuple(found.values())


def _is_of_instance(event: RecompileEvent) -> bool:
    """Whether everything that differs belongs to ``self``, so the method was called on a different instance."""
    return all((change.source or "").startswith("L['self']") for change in event.changes)


def _match(events: list[RecompileEvent]) -> RuleMatch:
    frame, site = events[0].frame, events[0].call_site
    changes = distinct_values(change for event in events for change in event.changes)
    values = names(tuple(dict.fromkeys(change.expression for change in changes)))
    related = ((site, "called here, one instance after another"),) if site is not None else ()
    return RuleMatch(
        entry=frame_entry(frame),
        message=f"`{described(frame)}` recompiles for each instance, because {values} "
        f"{'differs' if len(changes) == 1 else 'differ'}",
        count=len(events),
        compile_ids=tuple(event.compiles[0].compile_id for event in events),
        related=related,
        changes=changes,
        hidden_change_count=hidden_change_count(events),
        fixes=(
            Fix(title="Keep what differs between the instances in buffers", kind="code", source=GUIDE),
            Fix(
                title="Compile the repeated layer separately, once for all instances",
                kind="code",
                snippet="for layer in model.layers:\n    layer.compile()",
                is_safe=True,
                source="PyTorch user guide: regional compilation",
            ),
        ),
    )

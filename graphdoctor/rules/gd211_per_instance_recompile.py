"""GD211: a function that recompiles for each instance of its module."""

from __future__ import annotations

from collections.abc import Iterable

from graphdoctor.facts.guards import GuardChange
from graphdoctor.rules.toolkit import (
    REGIONAL,
    Matches,
    RecompileEvent,
    RecordingRule,
    RecordingView,
    RuleMatch,
    code_fix,
    distinct_values,
    grouped,
    hidden_change_count,
    names,
)

_FEWEST = 2
"""Number of recompiles of one function from one line in one call that make a pattern."""


class PerInstance(RecordingRule):
    """A function that recompiles for each instance of its module.

    ## What it finds
    Within one call, a line calls a method on one module instance after another, and the method
    recompiles for several of them because an attribute or the size of a parameter differs from
    instance to instance. What it is called with may differ too, such as the output of a layer of
    another width.

    ## Why it costs
    torch compiles once for each layer instead of once for all of them. After the recompile limit,
    the remaining layers run eagerly.

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
    ```
    Fix the break in the caller first: a method that torch inlines doesn't recompile. If the break
    must stay, keep numbers that differ between layers in buffers. Sizes of parameters can't be
    equal; if there are more kinds of layers than `recompile_limit`, raise it, or compile each layer
    separately (regional compilation: `layer.compile()`). Or mark the layer with
    `torch.compiler.nested_compile_region`.

    ## Fix safety
    Regional compilation keeps results the same. A buffer can replace a number in arithmetic.

    ## Source
    PyTorch user guide, "Compile time": regional compilation; `torch/compiler/__init__.py`, 2.13
    (`nested_compile_region`).
    """

    def findings(self, view: RecordingView) -> Matches:
        groups = grouped(
            ((event.frame.frame_id, event.call_index, site.file, site.line), event)
            for event in view.events
            if (site := event.call_site) is not None
            and event.call_index is not None
            and _is_of_instance(event)
        )
        found: dict[int, RuleMatch] = {}
        for (frame_id, *_), events in groups.items():
            if len(events) >= _FEWEST and frame_id not in found:
                found[frame_id] = _match(events, is_regional=view.recording.target.is_regional)
        yield from found.values()


def _is_of_instance(event: RecompileEvent) -> bool:
    """Whether the method was called on a different instance.

    Either everything that differs belongs to ``self``, or the size of one of its parameters does,
    which doesn't change from call to call.
    """
    own = _own(event.changes)
    is_certain = any(change.kind == "size" and change.is_parameter for change in own)
    return is_certain or len(own) == len(event.changes)


def _own(changes: Iterable[GuardChange]) -> tuple[GuardChange, ...]:
    """The changes that belong to ``self``."""
    return tuple(change for change in changes if (change.source or "").startswith("L['self']"))


def _match(events: list[RecompileEvent], *, is_regional: bool) -> RuleMatch:
    frame, site = events[0].frame, events[0].call_site
    own = _own(change for event in events for change in event.changes)
    # Attributes come first: they have names that a person gave them.
    changes = distinct_values(sorted(own, key=lambda change: change.is_parameter))
    values = names(change.expression for change in changes)
    is_sized = any(change.is_parameter for change in changes)
    return RuleMatch(
        entry=frame.entry,
        message=f"`{frame.described}` recompiles for each instance, because {values} "
        f"{'differs' if len(changes) == 1 else 'differ'}",
        of=[event.compiles[0] for event in events],
        related=((site, "called here, one instance after another"),) if site is not None else (),
        changes=changes,
        hidden_change_count=hidden_change_count(events),
        fixes=(
            *(() if is_regional else (_INLINE,)),
            *(() if is_sized else (_BUFFERS,)),
            _WHOLE if is_regional else REGIONAL,
        ),
    )


_INLINE = code_fix(
    "Fix the graph break in the caller: torch then traces all instances into the caller's graph"
)
_WHOLE = code_fix(
    "Compile the whole module, not each of its blocks: torch then traces all instances into one graph",
    is_safe=True,
)
_BUFFERS = code_fix("Keep what differs between the instances in buffers")

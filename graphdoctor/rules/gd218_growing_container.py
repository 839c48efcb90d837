"""GD218: a list, deque or dict that grows in each call."""

from __future__ import annotations

import re

from graphdoctor.facts.guards import GuardChange
from graphdoctor.rules.toolkit import (
    Fixes,
    RecompileGroup,
    RecompileRule,
    code_fix,
    quoted,
    shortened,
)

_GROWS = r"\b{}(?:\.(?:append|appendleft|extend|insert|add|update|setdefault)\(|\s*\+=|\[(?!['\d])[^]]*\]\s*=(?!=))"
"""What makes a container longer; a key that stays the same does so once."""


class GrowingContainer(RecompileRule):
    """A list, deque or dict that the compiled function itself fills: it is longer in each call.

    ## What it finds
    Recompiles because of the length of a container that outlives the call, such as a log of losses
    on a module, where the line that torch guards it for adds to it.

    ## Why it costs
    Code that changes a container is compiled for one length, so no call can use the code of
    another: each call recompiles, and after `recompile_limit` (8) of them the function runs
        eagerly. Tensors in it also keep what their
    backward pass needs.

    ## Example
    ```python
    import torch

    history = []

    def forward(x):
        loss = x.sum()
        history.append(loss)
        return loss

    def inputs():
        return [(torch.ones(4),), (torch.ones(4),)]
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        return x.sum()

    def inputs():
        return [(torch.ones(4),), (torch.ones(4),)]

    # Where it is called: history.append(forward(x).detach())
    ```

    ## Fix safety
    What the caller adds is the same. If other code reads the container during the call, it sees it
    one item shorter. `detach()` keeps the value and drops its gradient. A
    `collections.deque(maxlen=…)` that is full of values of the same kind from the first call on
    keeps its length, but forgets old items.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13 (`SEQUENCE_LENGTH`).
    """

    def matches(self, change: GuardChange) -> bool:
        before, now = change.previous or change.old or "", change.new or ""
        if change.kind != "length" or not (
            before.isdecimal() and now.isdecimal() and _adds(change)
        ):
            return False
        source = change.source or ""
        # What the caller passes can be another container each time.
        is_kept = "." in source or source.startswith("G[")
        return int(before) < int(now) if is_kept else int(before) + 1 == int(now)

    def because(self, group: RecompileGroup) -> str:
        grown = [
            f"{quoted(_container(name))} ({group.steps(name)} items)" for name in group.expressions
        ]
        line = group.first.guard_location
        by = f"`{shortened(line.text)}`" if line is not None and line.text else "it"
        return f"{by} adds to {' and '.join(grown)} in each call"

    def fixes(self, group: RecompileGroup) -> Fixes:
        container = _container(group.first.expression)
        last_few = (
            "Keep the last few in a `deque(maxlen=…)` that such values fill before the first call"
        )
        where = "where the function is called, with `.detach()` if it is a tensor whose gradient isn't needed there"
        kept = code_fix(f"Return the value, and add it to `{container}` {where}")
        line = group.first.guard_location
        is_list = (
            line is not None and re.search(r"append|extend|insert|\+=", line.text or "") is not None
        )
        return (kept, code_fix(last_few)) if is_list else (kept,)


def _adds(change: GuardChange) -> bool:
    """Whether the line that torch guards the length for makes the container longer."""
    container = _container(change.expression)
    if change.guard_location is None or not change.guard_location.text:
        return False
    text = change.guard_location.text.replace('"', "'")  # as torch writes keys
    if container.endswith(".__self__"):  # of a bound method, such as `history.append`
        return f"{container.removesuffix('.__self__')}(" in text
    if re.search(_GROWS.format(re.escape(container.rpartition(".")[2])), text):
        return True
    # Under another name: what the line reads of the container itself would stand there.
    return container not in text and re.match(_GROWS.format(r"\w+"), text) is not None


def _container(length: str) -> str:
    return length.removeprefix("len(").removesuffix(")")

"""GD218: a list, deque or dict that grows in each call."""

from __future__ import annotations

import re

from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.rules.toolkit import Fixes, RecompileGroup, RecompileRule, code_fix, quoted

_GROWS = r"\b{}(?:\.(?:append|appendleft|extend|insert|add|update|setdefault)\(|\s*\+=|\[[^]]*\]\s*=(?!=))"


class GrowingContainer(RecompileRule):
    """A list, deque or dict that the compiled function itself fills: it is longer in each call.

    ## What it finds
    Recompiles because of the length of a container that outlives the call, such as a log of losses on a module, where
    the line that torch guards it for adds to it.

    ## Why it costs
    Code that changes a container is compiled for one length, so no call can use the code of another: each call
    recompiles, and after `recompile_limit` (8) of them the function runs eagerly. Tensors in it also keep what their
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
    What the caller adds is the same. If other code reads the container during the call, it sees it one item shorter.
    `detach()` keeps the value and drops its gradient. A `collections.deque(maxlen=…)` that is full of values of the
    same kind from the first call on keeps its length, but forgets old items.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13 (`SEQUENCE_LENGTH`).
    """

    def matches(self, change: GuardChange) -> bool:
        source = change.source or ""
        # What the caller passes can be another container each time.
        if change.kind != "length" or not ("." in source or source.startswith("G[")):
            return False
        line, name = change.guard_location, re.search(r"(\w+)\W*$", change.expression)
        if line is None or name is None or not re.search(_GROWS.format(name[1]), line.text or ""):
            return False
        before, now = change.previous or change.old or "", change.new or ""
        return before.isdecimal() and now.isdecimal() and int(before) < int(now)

    def because(self, group: RecompileGroup) -> str:
        grown = [f"{quoted(_container(name))} ({group.steps(name)} items)" for name in group.expressions]
        return f"it adds to {' and '.join(grown)} in each call"

    def fixes(self, group: RecompileGroup) -> Fixes:
        container = _container(group.first.expression)
        last_few = "Keep the last few in a `deque(maxlen=…)` that such values fill before the first call"
        return (
            code_fix(f"Return the value, and add it to `{container}` where the function is called"),
            code_fix(last_few),
        )


def _container(length: str) -> str:
    return length.removeprefix("len(").removesuffix(")")

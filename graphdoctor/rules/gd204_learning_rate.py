"""GD204: a number of an optimizer that changes."""

from __future__ import annotations

import re
from typing import ClassVar

from graphdoctor.diagnosis.recompile_wording import GUIDE, changed, recompiled
from graphdoctor.diagnosis.recompiles import RecompileEvent, RecompileGroup
from graphdoctor.diagnosis.rule import RecompileRule
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.recompiles import GuardChange


class LearningRate(RecompileRule):
    """A learning rate, or another number of an optimizer, that changes under a compiled step.

    ## What it finds
    Compiles because a float in an optimizer's `param_groups` has another value, most often the learning rate that a
    scheduler moves.

    ## Why it costs
    Each compile takes as long as the first one, in the middle of a call; after `recompile_limit` of them (8) the
    function runs eagerly. A scheduler that moves the rate at each step gets there in eight steps, unless torch makes
    the float dynamic.

    ## Example
    ```python
    import torch

    weight = torch.nn.Parameter(torch.ones(4))
    weight.grad = torch.ones(4)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    forward = optimizer.step

    def inputs():
        for rate in (0.5, 0.25):
            optimizer.param_groups[0]["lr"] = rate
            yield ()
    ```

    ## Use instead
    ```python
    import torch

    weight = torch.nn.Parameter(torch.ones(4))
    weight.grad = torch.ones(4)
    optimizer = torch.optim.SGD([weight], lr=torch.tensor(0.5))
    forward = optimizer.step

    def inputs():
        for rate in (0.5, 0.25):
            optimizer.param_groups[0]["lr"].fill_(rate)
            yield ()
    ```

    ## Fix safety
    A rate in a tensor gives the same steps; schedulers write into such a tensor. Some optimizers want
    `capturable=True` with it on a GPU.

    ## Source
    PyTorch user guide, "Recompilation": wrap the learning rate in a tensor; `torch/optim/optimizer.py`, 2.13.
    """

    code: ClassVar = "GD204"
    name: ClassVar = "learning-rate"
    severity: ClassVar = "warning"

    def matches(self, change: GuardChange, event: RecompileEvent) -> bool:
        """A number below an optimizer's groups."""
        return change.kind in ("number", "module_number") and "param_groups" in change.expression

    def message(self, group: RecompileGroup) -> str:
        """Which setting changed from what to what."""
        return recompiled(group, changed(group))

    def fixes(self, group: RecompileGroup) -> tuple[Fix, ...]:
        """A tensor in the number's place."""
        key = re.search(r"\['(\w+)'\]$", group.first.expression)
        name = key[1] if key else "lr"
        old = group.first.old or "…"
        return (
            Fix(
                title=f"Make the optimizer with `{name}` in a tensor",
                kind="code",
                snippet=f"torch.optim.…(parameters, {name}=torch.tensor({old}))",
                is_safe=True,
                source=GUIDE,
            ),
        )

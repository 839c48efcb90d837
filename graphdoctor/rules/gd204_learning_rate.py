"""GD204: a learning rate, or another number of an optimizer, that changes."""

from __future__ import annotations

import re

from graphdoctor.facts.guards import GuardChange
from graphdoctor.rules.toolkit import Fixes, RecompileGroup, RecompileRule, call_fix, code_fix


class LearningRate(RecompileRule):
    """A learning rate, or another number of an optimizer, that changes in a compiled step.

    ## What it finds
    Recompiles because a float in an optimizer's `param_groups` has a different value, most often
    the learning rate that a scheduler changes.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly. A scheduler that changes the rate in
    each step reaches that limit after eight steps, unless torch makes the float dynamic.

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
    A learning rate in a tensor gives the same steps, and schedulers update the tensor in place. On
    a GPU, some optimizers need `capturable=True` with it. A tensor as another number, such as
    `momentum` or `weight_decay`, breaks the graph, because the optimizer compares it with 0.

    ## Source
    PyTorch user guide, "Recompilation": wrap the learning rate in a tensor;
    `torch/optim/optimizer.py`, 2.13.
    """

    def matches(self, change: GuardChange) -> bool:
        return change.kind in ("number", "module_number") and "param_groups" in change.expression

    def fixes(self, group: RecompileGroup) -> Fixes:
        key = re.search(r"param_groups\[\d+\]\['(\w+)'\]", group.first.expression)
        if key and key[1] != "lr":
            title = f"Take steps with a few values of `{key[1]}` during warm-up: then torch makes the float dynamic"
            return (call_fix(title, is_safe=True),)
        # A schedule computes numbers such as 0.00039999999999999996.
        value = f": `lr=torch.tensor({float(group.first.old):.6g})`" if group.first.old else ""
        title = f"Create the optimizer with `lr` as a tensor{value}, and change that in place, with `fill_`"
        return (code_fix(f"{title}: a float assigned to `lr` replaces it", is_safe=True),)

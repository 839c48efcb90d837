"""GD203: a Python number that changes from call to call."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.diagnosis.recompile_wording import GUIDE, argument, changed, recompiled
from graphdoctor.diagnosis.recompiles import RecompileGroup
from graphdoctor.diagnosis.rule import RecompileRule
from graphdoctor.diagnosis.suggestions import setting
from graphdoctor.model.diagnosis import Fix


class NumberArgument(RecompileRule):
    """A Python number that changes from call to call.

    ## What it finds
    Compiles because an int or float that the compiled code was specialised on has another value: an argument, a
    variable that a function captured, a number that an earlier part of the function read from a tensor. An int becomes
    dynamic at the second value, a float does not unless nothing but arithmetic on tensors uses it.

    ## Why it costs
    Each compile takes as long as the first one, in the middle of a call; after `recompile_limit` of them (8) the
    function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x, scale):
        return x.sin() * scale if scale > 0 else x.cos()

    def inputs():
        return [(torch.ones(4, 8), 2), (torch.ones(4, 8), -2)]
    ```

    ## Use instead
    ```python
    import torch

    def forward(x, scale):
        return torch.where(scale > 0, x.sin() * scale, x.cos())

    def inputs():
        return [(torch.ones(4, 8), torch.tensor(2)), (torch.ones(4, 8), torch.tensor(-2))]
    ```

    ## Fix safety
    A tensor of no dims takes the number's place in arithmetic; its dtype can promote otherwise than a Python number's,
    and a branch on it needs `torch.where`. Capturing scalar outputs keeps results.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/config.py`, 2.13 (`specialize_int`, `capture_scalar_outputs`).
    """

    code: ClassVar = "GD203"
    name: ClassVar = "number-argument"
    severity: ClassVar = "warning"
    kinds: ClassVar = frozenset({"number"})

    def message(self, group: RecompileGroup) -> str:
        """Which number changed from what to what."""
        return recompiled(group, changed(group))

    def fixes(self, group: RecompileGroup) -> tuple[Fix, ...]:
        """A tensor in the number's place; for one read from a tensor, keep it there."""
        change = group.first
        if "___stack" in (change.source or ""):
            return (
                setting("capture_scalar_outputs", "Let torch keep the number in the graph", is_safe=True, source=GUIDE),
                Fix(title="Keep the tensor: leave `.item()` out", kind="code", source=GUIDE),
            )
        name = argument(change)
        if name is None:
            return (Fix(title="Keep the value in a tensor, or the same from call to call", kind="code", source=GUIDE),)
        return (
            Fix(
                title=f"Pass `{name}` as a tensor", kind="call", snippet=f"{name} = torch.tensor({name})", source=GUIDE
            ),
        )

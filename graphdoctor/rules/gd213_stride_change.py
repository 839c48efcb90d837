"""GD213: a tensor whose strides change from call to call."""

from __future__ import annotations

from graphdoctor.rules.toolkit import Fixes, RecompileGroup, RecompileRule, call_fix, quoted


class StrideChange(RecompileRule):
    """A tensor whose strides differ between calls: transposed, sliced, or another memory format.

    ## What it finds
    Recompiles because a tensor of the same sizes has a different memory layout.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.sin() + 1

    def inputs():
        return [(torch.ones(4, 4),), (torch.ones(4, 4).t(),)]
    ```

    ## Use instead
    ```python
    def inputs():
        return [(torch.ones(4, 4).contiguous(),), (torch.ones(4, 4).t().contiguous(),)]
    ```

    ## Fix safety
    `.contiguous()` keeps the values, and copies the tensor if it isn't contiguous.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/csrc/dynamo/guards.cpp`, 2.13 (`TENSOR_MATCH`).
    """

    kinds = ("stride",)

    def fixes(self, group: RecompileGroup) -> Fixes:
        name = group.passed(group.first)
        shown = name or group.first.expression.partition(".stride(")[0]
        snippet, place = (
            (f"{name} = {name}.contiguous()", group.at_call("each_call", name))
            if name
            else (None, None)
        )
        title = f"Make {quoted(shown)} contiguous before the call"
        return (call_fix(title, snippet=snippet, place=place, is_safe=True),)

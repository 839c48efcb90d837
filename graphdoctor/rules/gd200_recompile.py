"""GD200: a recompile for a reason without a rule of its own."""

from __future__ import annotations

from typing import get_args

from graphdoctor.facts.guards import ChangeKind
from graphdoctor.rules.toolkit import RecompileRule, call_fix


class Recompile(RecompileRule):
    """A function that torch recompiled because a guard failed.

    ## What it finds
    Recompiles of a function because of a change that no other rule describes. The message names the
    value or shows torch's own words.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly, without a warning.

    ## Example
    ```python
    import torch

    def forward(x, names):
        return x.sin() if "a" in names else x.cos()

    def inputs():
        return [(torch.ones(4), {"a"}), (torch.ones(4), {"b"})]
    ```
    In a `TORCH_TRACE` log, a recompile like this one has only torch's words, here
    `set.__contains__(names, 'a')`. graphdoctor can read these and reports GD215. It reports GD200
    for words that it can't read, which can come from a newer torch.

    ## Use instead
    ```python
    def forward(x, has_a):
        return torch.where(has_a, x.sin(), x.cos())

    def inputs():
        return [(torch.ones(4), torch.tensor(True)), (torch.ones(4), torch.tensor(False))]
    ```

    ## Fix safety
    Dynamic shapes and tensors instead of numbers keep results the same. Code specialized on a value
    can be faster than general code.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13 (`recompile_reasons`).
    """

    kinds = get_args(ChangeKind)
    remedies = (
        call_fix(
            "Keep the value the same from call to call, or in a tensor if only tensor arithmetic uses it"
        ),
    )

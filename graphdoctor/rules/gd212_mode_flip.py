"""GD212: a mode, dtype or device that changes from call to call."""

from __future__ import annotations

from graphdoctor.facts.guards import ChangeKind
from graphdoctor.rules.toolkit import Fixes, RecompileGroup, RecompileRule, call_fix

_EACH = "in each of these states"
_HOW: dict[ChangeKind, tuple[str, str]] = {
    "training": (
        "in train and once in eval mode",
        "Compile one function for training and one for evaluation",
    ),
    "grad_mode": (
        "with and once without `torch.no_grad()`",
        "Compile one function for each grad mode",
    ),
    "inference_mode": (
        "with and once without `torch.inference_mode()`",
        "Use `torch.no_grad()` in both places, or `torch.inference_mode()` in both",
    ),
    "autocast": (
        "with and once without autocast",
        "Use autocast around the same calls each time, or inside the compiled function",
    ),
    "dtype": ("with each dtype", "Convert the tensor before the call"),
    "device": ("on each device", "Move the tensor before the call"),
    "requires_grad": (
        "with and once without `requires_grad`",
        "Detach the tensor in each call, or let it require a gradient in each call",
    ),
    "default_dtype": (_EACH, "Set the default dtype once, before the first call"),
    "default_device": (_EACH, "Set the default device once, before the first call"),
    "threads": (_EACH, "Set the number of threads once, before the first call"),
    "determinism": (_EACH, "Choose deterministic algorithms once, before the first call"),
    "global_state": (_EACH, "Set it once, before the first call"),
    "function_mode": (_EACH, "Enter the same torch function modes around each call"),
    "tensor_class": (_EACH, "Pass a tensor of the same class each time"),
    "dispatch_keys": (_EACH, "Pass a tensor of the same kind each time"),
}
"""Which calls warm it up, and what keeps it the same."""


class ModeFlip(RecompileRule):
    """A mode, dtype or device that differs in some calls.

    ## What it finds
    Recompiles because of a different train or eval mode, grad mode, inference mode or autocast, a
    different dtype, device or `requires_grad` of a tensor, or a different setting of the process:
    default dtype, number of threads, deterministic algorithms.

    ## Why it costs
    torch compiles once for each combination. There are only a few, but they come in the middle of a
    run, most often in the first validation step.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.sin() + 1

    def inputs():
        return [(torch.ones(4, 8),), (torch.ones(4, 8, dtype=torch.float64),)]
    ```

    ## Use instead
    ```python
    def inputs():
        return [(torch.ones(4, 8),), (torch.ones(4, 8, dtype=torch.float64).float(),)]
    ```

    ## Fix safety
    Calling both versions during warm-up keeps results the same and only moves the compile. So does
    using two compiled functions.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13 (`GLOBAL_STATE`,
    `TENSOR_MATCH`).
    """

    kinds = tuple(_HOW)
    is_about_calls = True

    def fixes(self, group: RecompileGroup) -> Fixes:
        both, same = _HOW[group.first.kind]
        warm_up = call_fix(f"Call it once {both} during warm-up", is_safe=True)
        return (warm_up, call_fix(same))

"""GD108: copy.deepcopy inside the compiled region."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BreakRule, BreakSite, code_fix


class Deepcopy(BreakRule):
    """`copy.deepcopy` of a tensor or of an object that contains one.

    ## What it finds
    `copy.deepcopy`, or `copy.copy` of a tensor, in code that torch.compile traces. torch can trace
    copies of containers without tensors, but not copies of tensors, modules or containers with
    tensors.

    ## Why it costs
    Dynamo ends the graph, makes the copy in Python, and starts a new graph after it.

    ## Example
    ```python
    import copy

    import torch

    def forward(x):
        y = x.sin()
        kept = copy.deepcopy(y.detach())
        return y.cos() + kept

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin()
        kept = y.detach().clone()
        return y.cos() + kept
    ```
    Copy modules and configurations once, outside the compiled function.

    ## Fix safety
    `clone()` is safe for a single tensor. (`deepcopy` of a tensor that isn't a leaf fails in eager
    mode too.) In a container, clone each shared tensor only once, so that it stays shared.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own messages for GB4198 and GB0179.
    """

    torch_ids = ("GB4198", "GB0179")
    gb_type = ".*deepcopy"
    says = "`{site.named}` copies a tensor in Python"
    remedies = (
        code_fix("Clone the tensors that you need, with `.detach().clone()`"),
        code_fix("Copy modules and configurations once, outside the compiled function"),
    )

    def matches(self, site: BreakSite) -> bool:
        # Whoever owns it: a log of others may not say where Python is, and a copy.py of torch
        # copies nothing.
        is_inside = any(
            entry.function in ("copy", "deepcopy")
            and entry.file.replace("\\", "/").endswith("/copy.py")
            for entry in site.stack
        )
        return is_inside or super().matches(site)

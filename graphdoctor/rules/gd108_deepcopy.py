"""GD108: copy.deepcopy inside the compiled region."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.rules.diagnosis.lines import called_name
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"


class Deepcopy(BreakRule, code="GD108", name="deepcopy", severity="warning"):
    """`copy.deepcopy` of a tensor or of an object that contains one.

    ## What it finds
    `copy.deepcopy`, or `copy.copy` of a tensor, in code that torch.compile traces. torch can trace copies of containers
    without tensors, but not copies of tensors, modules or containers with tensors.

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
    import torch

    def forward(x):
        y = x.sin()
        kept = y.detach().clone()
        return y.cos() + kept

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```
    Copy modules and configurations once, outside the compiled function.

    ## Fix safety
    `clone()` is safe for a single tensor. (`deepcopy` of a tensor that isn't a leaf fails in eager mode too.) In a
    container, clone each shared tensor only once, so that it stays shared.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own messages for GB4198 and GB0179.
    """

    torch_ids: ClassVar = frozenset({"GB4198", "GB0179"})

    def matches(self, site: BreakSite) -> bool:
        is_inside = any(
            entry.function in ("copy", "deepcopy") and entry.file.replace("\\", "/").endswith("/copy.py")
            for entry in site.records[0].stack
        )
        return super().matches(site) or "deepcopy" in site.cause.gb_type or is_inside

    def message(self, site: BreakSite) -> str:
        return f"`{called_name(site) or 'copy.deepcopy'}` copies a tensor in Python"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        if not site.is_own_code:
            return ()
        return (
            Fix(title="Clone the tensors that you need, with `.detach().clone()`", kind="code", source=_GUIDE),
            Fix(
                title="Copy modules and configurations once, outside the compiled function", kind="code", source=_GUIDE
            ),
        )

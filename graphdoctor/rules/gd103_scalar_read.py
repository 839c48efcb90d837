"""GD103: a tensor's value read into Python."""

from __future__ import annotations

import re
from typing import ClassVar

from graphdoctor.model.diagnosis import Fix
from graphdoctor.rules.base import BreakRule, BreakSite
from graphdoctor.rules.wording import setting, shortened

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"
_READS = re.compile(r"\.(item|tolist|numpy)\(|\b(int|float|bool)\(")


class ScalarRead(BreakRule):
    """A tensor's value read into a Python number.

    ## What it finds
    `.item()`, `int(t)`, `float(t)`, `bool(t)` and `.tolist()` on a tensor in code that torch.compile traces.

    ## Why it costs
    The number is known only when the tensor has been computed: Dynamo ends the graph, reads the value (which waits
    for a GPU) and goes on in another graph. That graph is guarded on the very number it saw, so the next value
    compiles it once more before torch makes it dynamic.

    ## Example
    ```python
    import torch

    def forward(x):
        scale = x.abs().max().item()
        return x / scale

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        scale = x.abs().max()
        return x / scale

    def inputs():
        return (torch.randn(4, 8),)
    ```
    Where the number itself is needed, `torch._dynamo.config.capture_scalar_outputs = True` captures the read.

    ## Fix safety
    Unsafe: keeping the tensor lets gradients flow through the value, which `.item()` had cut; add `.detach()` where
    they must not. Results can differ in the last bits where Python computed in double precision.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0124 and GB0109.
    """

    code: ClassVar = "GD103"
    name: ClassVar = "scalar-read"
    severity: ClassVar = "warning"
    torch_ids: ClassVar = frozenset({"GB0124", "GB0109"})

    def matches(self, site: BreakSite) -> bool:
        """By id, by the name that other versions give it, or by the operator that reads a scalar."""
        is_read = "_local_scalar_dense" in (site.cause.context or "")
        return super().matches(site) or "Tensor.item()" in site.cause.gb_type or is_read

    def message(self, site: BreakSite) -> str:
        """What is read."""
        return f"`{shortened(site.expression)}` reads a tensor's value into Python"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """The tensor instead of the number; the setting."""
        capture = setting(
            "capture_scalar_outputs", "Let torch capture the read as a dynamic number", source="torch's hint for GB0124"
        )
        if "tolist()" in site.cause.gb_type:
            integer = Fix(title="Call `.tolist()` on an integer tensor", kind="code", source="torch's hint for GB0109")
            return (integer,) if site.is_own_code else ()
        if not site.is_own_code:
            return (capture,)
        read = _READS.search(site.expression)
        name = f"`.{read[1]}()`" if read and read[1] else f"`{read[2]}(…)`" if read and read[2] else "the read"
        keep = Fix(title=f"Keep the tensor: drop {name} and compute with it", kind="code", source=_GUIDE)
        return (keep, capture)

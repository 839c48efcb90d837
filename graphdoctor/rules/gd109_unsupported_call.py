"""GD109: a builtin, method or library function that Dynamo has no rule for."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.model.diagnosis import Fix
from graphdoctor.rules.base import BreakRule, BreakSite
from graphdoctor.rules.wording import called_name, own_function, shortened

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"
_TYPES = (
    "Failed to trace builtin operator",
    "Unsupported method call",
    "Unsupported function call",
    "attempted to trace numpy function unsupported by PyTorch",
    "C-implemented special method",
)


class UnsupportedCall(BreakRule):
    """A call that Dynamo has no rule for.

    ## What it finds
    Builtins such as `open` and `exec`, methods of objects written in C, NumPy functions that torch has no version of.

    ## Why it costs
    Dynamo ends the graph, makes the call in Python and starts another graph behind it; inside a loop, a `try` or a
    `with` it gives up the whole function.

    ## Example
    ```python
    import numpy as np
    import torch

    def forward(x):
        y = x.sin()
        table = np.interp(np.arange(8.0), [0.0, 7.0], [0.0, 1.0])
        return y * torch.from_numpy(table).float()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        y = x.sin()
        return y * (torch.arange(8.0) / 7.0)

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```
    Or make the call outside the compiled function and pass its result in.

    ## Fix safety
    Unsafe: another function can differ in dtype and in the last bits.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0059, GB0156 and GB0294.
    """

    code: ClassVar = "GD109"
    name: ClassVar = "unsupported-call"
    severity: ClassVar = "warning"
    torch_ids: ClassVar = frozenset({"GB0059", "GB0156", "GB0294", "GB0148", "GB9493"})

    def matches(self, site: BreakSite) -> bool:
        """By id, or by the name that other versions give it."""
        return super().matches(site) or site.cause.gb_type.startswith(_TYPES)

    def message(self, site: BreakSite) -> str:
        """Which call."""
        name = called_name(site)
        what = f"`{name}`" if name else f"`{shortened(site.expression)}`"
        if "numpy function" in site.cause.gb_type:
            return f"{what} is a NumPy function that torch cannot trace"
        return f"{what} is a call that torch has no rule for"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """Outside, or by itself."""
        if not site.is_own_code:
            return ()
        name = called_name(site) or "it"
        if "numpy function" in site.cause.gb_type:
            first = Fix(title=f"Write `{name}` with torch operations", kind="code", source=_GUIDE)
        else:
            first = Fix(
                title=f"Call `{name}` outside the compiled function and pass its result in", kind="code", source=_GUIDE
            )
        return (first, own_function("the call"))

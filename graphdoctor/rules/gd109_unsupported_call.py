"""GD109: a call to a builtin, method or library function that Dynamo doesn't support."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.rules.diagnosis.lines import bare_call, called_name, shortened
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.rules.diagnosis.suggestions import own_function

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"
_TYPES = (
    "Failed to trace builtin operator",
    "Unsupported method call",
    "Unsupported function call",
    "attempted to trace numpy function unsupported by PyTorch",
    "C-implemented special method",
    "call to a callable object with no traceable __call__",
    "repr() on tensor",
    "invalid call to builtin op handler",
    "Unhandled args for method",
    "Attempted to a str() method implemented in C/C++",
)


class UnsupportedCall(BreakRule, code="GD109", name="unsupported-call", severity="warning"):
    """A call that Dynamo doesn't support.

    ## What it finds
    A call to a builtin such as `exec`, a method of an object written in C, or a NumPy function without a torch version.

    ## Why it costs
    Dynamo ends the graph, makes the call in Python, and starts a new graph after it. In a loop, a `try` or a `with`, it
    skips the whole function.

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
    Or make the call outside the compiled function and pass the result in.

    ## Fix safety
    Unsafe: a different function can return another dtype or differ in the last bits.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0059, GB0156, GB0147 and GB0294.
    """

    torch_ids: ClassVar = frozenset(
        {"GB0059", "GB0156", "GB0294", "GB0147", "GB0148", "GB9493", "GB4818", "GB0569", "GB0193"}
    )

    def matches(self, site: BreakSite) -> bool:
        return super().matches(site) or site.cause.gb_type.startswith(_TYPES)

    def message(self, site: BreakSite) -> str:
        what = f"`{called_name(site) or shortened(site.expression)}`"
        if "numpy function" in site.cause.gb_type:
            return f"{what} is a NumPy function that torch can't trace"
        if _is_text(site):
            return f"{what} turns a tensor's values into text, so torch can't put it in a graph"
        return f"torch doesn't support the call {what}"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        if not site.is_own_code:
            return ()
        name = called_name(site) or shortened(site.expression)
        if "numpy function" in site.cause.gb_type:
            title = f"Replace `{name}` with torch operations"
        elif bare_call(site) is not None:
            title = f"Move `{shortened(site.statement)}` out of the compiled function"
        elif _is_text(site):
            title = "Return the tensor and make the text outside the compiled function"
        else:
            title = f"Call `{name}` before the compiled function and pass its result in"
        return (Fix(title=title, kind="code", source=_GUIDE), own_function("the call"))


def _is_text(site: BreakSite) -> bool:
    is_str = (site.cause.context or "").startswith(("builtin str ", "builtin repr ", "builtin format "))
    return site.cause.gb_type == "repr() on tensor" or (is_str and "TensorVariable" in (site.cause.context or ""))

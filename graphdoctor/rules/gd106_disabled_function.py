"""GD106: a call to a function under torch.compiler.disable."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.rules.diagnosis.lines import called_name, shortened
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite


class DisabledFunction(BreakRule, code="GD106", name="disabled-function", severity="warning"):
    """A call to a function that is excluded from torch.compile.

    ## What it finds
    A call to a function under `torch.compiler.disable` from code that torch.compile traces.

    ## Why it costs
    The graph ends before the call, and a new one starts after it. The function and everything it calls run eagerly.

    ## Example
    ```python
    import torch

    @torch.compiler.disable
    def scaled(x):
        return x * 2

    def forward(x):
        return scaled(x.sin()).cos()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    import torch

    def scaled(x):
        return x * 2

    def forward(x):
        return scaled(x.sin()).cos()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Fix safety
    Unsafe: someone disabled it for a reason. Remove it and check that the function compiles and gives the same results.
    Keep it around code with many graph breaks.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0098.
    """

    torch_ids: ClassVar = frozenset({"GB0098"})

    def matches(self, site: BreakSite) -> bool:
        return super().matches(site) or "torch.compiler.disable()`d function" in site.cause.gb_type

    def message(self, site: BreakSite) -> str:
        name = called_name(site) or shortened(site.expression)
        return f"`{name}` is under `torch.compiler.disable`, so it runs eagerly"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        if not site.is_own_code:
            return ()
        name = called_name(site) or "the function"
        return (
            Fix(
                title=f"Remove `torch.compiler.disable` from `{name}` if torch can trace it now",
                kind="code",
                source="torch's hint for GB0098",
            ),
        )

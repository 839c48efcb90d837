"""GD114: requires_grad changed inside the compiled region."""

from __future__ import annotations

import ast

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, call_fix, code_fix, shortened


class RequiresGradChange(BreakRule):
    """A change of a tensor's `requires_grad` inside the compiled region.

    ## What it finds
    `x.requires_grad = …`, or `x.requires_grad_()` on a tensor that the function returns.

    ## Why it costs
    It can create a new autograd leaf in the middle of the graph, which AOTAutograd can't handle, so
    Dynamo ends the graph there.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        x.requires_grad = True
        return y.cos()

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin()
        return y.cos()
    ```
    Set it before you call the compiled function.

    ## Fix safety
    Unsafe: autograd also records the operations between the new position and the old one.

    ## Source
    torch's own hints for GB0206 and GB8985.
    """

    torch_ids = ("GB0206", "GB8985")
    gb_type = ".*requires_grad"

    def message(self, site: BreakSite) -> str:
        return f"`{shortened(site.text)}` changes whether a tensor requires a gradient"

    def suggested(self, site: BreakSite) -> Fixes:
        if site.is_own_code:
            if site.cause.torch_id == "GB8985" and not isinstance(site.statement_node, ast.Return):
                yield code_fix(
                    "If a later break makes the tensor leave the graph, fix that break first"
                )
            title = "Set it outside the compiled function: before the call, or on what it returns"
            yield call_fix(title, "torch's hint")

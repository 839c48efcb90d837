"""GD122: a set of tensors."""

from __future__ import annotations

import ast

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix


class SetOfTensors(BreakRule):
    """A set of tensors.

    ## What it finds
    A `set` of tensors that is used in code that torch.compile traces.

    ## Why it costs
    Dynamo needs a fixed order for the values that it guards on, and a set has none. The line, or
    the whole function, runs eagerly.

    ## Example
    ```python
    import torch

    parts = {torch.ones(8), torch.zeros(8)}

    def forward(x):
        for part in parts:
            x = x + part
        return x.sin()

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    parts = [torch.ones(8), torch.zeros(8)]
    ```
    A dictionary with the tensors as keys works too, and still removes duplicates.


    ## Fix safety
    Safe if no code relies on the set to remove duplicates. A sum in another order can differ in its
    last bits.

    ## Source
    torch's own hints for GB0222.
    """

    torch_ids = ("GB0222",)
    gb_type = "Attempted to wrap a set with tensors"
    says = "`{site.looped_over}` uses a set of tensors, which has no fixed order"

    def suggested(self, site: BreakSite) -> Fixes:
        # A list compares the tensors' values.
        either = "" if isinstance(site.node, ast.Compare) else "in a list, or "
        yield code_fix(
            f"Keep the tensors {either}as the keys of a dictionary", "torch's hint for GB0222"
        )

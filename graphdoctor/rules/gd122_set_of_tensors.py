"""GD122: a set of tensors."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.rules.diagnosis.lines import looped_over
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite


class SetOfTensors(BreakRule, code="GD122", name="set-of-tensors", severity="warning"):
    """A set of tensors.

    ## What it finds
    A `set` of tensors that is used in code that torch.compile traces.

    ## Why it costs
    Dynamo needs a fixed order for the values that it guards on, and a set has none. The line, or the whole function,
    runs eagerly.

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
    import torch

    parts = [torch.ones(8), torch.zeros(8)]

    def forward(x):
        for part in parts:
            x = x + part
        return x.sin()

    def inputs():
        return (torch.randn(4, 8),)
    ```
    A dictionary with the tensors as keys works too, and still removes duplicates.


    ## Fix safety
    Safe if no code relies on the set to remove duplicates. A sum in another order can differ in its last bits.

    ## Source
    torch's own hints for GB0222.
    """

    torch_ids: ClassVar = frozenset({"GB0222"})

    def matches(self, site: BreakSite) -> bool:
        return super().matches(site) or site.cause.gb_type.startswith("Attempted to wrap a set with tensors")

    def message(self, site: BreakSite) -> str:
        return f"`{looped_over(site)}` uses a set of tensors, which has no fixed order"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        if not site.is_own_code:
            return ()
        return (
            Fix(
                title="Keep the tensors in a list, or as the keys of a dictionary",
                kind="code",
                source="torch's hint for GB0222",
            ),
        )

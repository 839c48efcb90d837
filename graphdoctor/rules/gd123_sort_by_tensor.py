"""GD123: sorting by tensors in Python."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.diagnosis.lines import shortened
from graphdoctor.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.model.diagnosis import Fix

_TYPES = ("sort with non-constant key", "min/max with non-constant key")


class SortByTensor(BreakRule):
    """`sorted` or `list.sort` with tensors as keys.

    ## What it finds
    `sorted(...)`, `list.sort(...)`, `min` and `max` with a key, in code that torch.compile traces, where tensors are
    compared.

    ## Why it costs
    The order depends on the tensors' values: Dynamo ends the graph, reads every key (each one waits for a GPU), and
    goes on in another graph that is compiled for that order.

    ## Example
    ```python
    import torch

    def forward(x):
        low, high = sorted([x.sum(), x.mean()])
        return low - high

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        low, high = torch.stack([x.sum(), x.mean()]).sort().values
        return low - high

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Fix safety
    Unsafe: tensors must have one shape to be stacked, and NaN sorts to the end.

    ## Source
    torch's own hints for GB0207; `torch.sort` in the API reference.
    """

    code: ClassVar = "GD123"
    name: ClassVar = "sort-by-tensor"
    severity: ClassVar = "warning"
    torch_ids: ClassVar = frozenset({"GB0207", "GB5687"})

    def matches(self, site: BreakSite) -> bool:
        """By id, or by the name that other versions give it."""
        return super().matches(site) or site.cause.gb_type.startswith(_TYPES)

    def message(self, site: BreakSite) -> str:
        """What is sorted."""
        return f"`{shortened(site.expression)}` sorts by tensors' values in Python"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """Sort in the graph, or by something else."""
        if not site.is_own_code:
            return ()
        return (
            Fix(
                title="Sort in the graph: `torch.stack([…]).sort()`, or `argsort` for the order",
                kind="code",
                source="torch's hint for GB0207",
            ),
        )

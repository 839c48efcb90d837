"""GD123: sorting by tensors in Python."""

from __future__ import annotations

from graphdoctor.rules.toolkit import SORT_IN_GRAPH, BreakRule


class SortByTensor(BreakRule):
    """`sorted` or `list.sort` with tensors as keys.

    ## What it finds
    `sorted`, `list.sort`, or `min` and `max` with a key, that compare tensors in code that
    torch.compile traces.

    ## Why it costs
    The order depends on the tensors' values. Dynamo ends the graph, reads every key, each of which
    synchronizes with a GPU, and continues in a new graph that is compiled for that order.

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
    def forward(x):
        low, high = torch.stack([x.sum(), x.mean()]).sort().values
        return low - high
    ```

    ## Fix safety
    Unsafe: only tensors of the same shape can be stacked, and NaN sorts to the end.

    ## Source
    torch's own hints for GB0207; `torch.sort` in the API reference.
    """

    torch_ids = ("GB0207", "GB5687")
    gb_type = "(?:sort|min/max) with non-constant key"
    context = r"_call_min_max .*'key'"
    says = "`{site.shown}` compares tensors' values in Python"
    remedies = (SORT_IN_GRAPH,)

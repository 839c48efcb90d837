"""GD117: a sparse tensor."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.rules.diagnosis.lines import in_context, shortened
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite


class SparseTensor(BreakRule, code="GD117", name="sparse-tensor", severity="warning"):
    """A sparse tensor inside the compiled region.

    ## What it finds
    A tensor with a sparse layout that is created in, or passed to, code that torch.compile traces.

    ## Why it costs
    Dynamo can't make a fake version of a sparse tensor. It ends the graph, or skips a function that has one as an
    argument.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        return y.to_sparse().to_dense() * 2

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        y = x.sin()
        return y * 2

    def inputs():
        return (torch.randn(4, 8),)
    ```
    Work with sparse tensors outside the compiled function, and pass the dense result in.

    ## Fix safety
    Unsafe: dense tensors take more memory.

    ## Source
    torch's own hints for GB0015 and GB0277.
    """

    torch_ids: ClassVar = frozenset({"GB0015", "GB0277"})

    def matches(self, site: BreakSite) -> bool:
        return super().matches(site) or "sparse Tensor" in site.cause.gb_type or _is_constructor(site)

    def message(self, site: BreakSite) -> str:
        return f"`{shortened(site.expression)}` is a sparse tensor, which torch can't trace"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        return (Fix(title="Keep sparse tensors outside the compiled function", kind="call", source="torch's hint"),)


def _is_constructor(site: BreakSite) -> bool:
    return in_context(site, r"qualname: [\w.]*\b(sparse_\w+_tensor)\b") is not None

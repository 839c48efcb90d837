"""GD117: a sparse tensor."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BreakRule, call_fix


class SparseTensor(BreakRule):
    """A sparse tensor inside the compiled region.

    ## What it finds
    A tensor with a sparse layout that is created in, or passed to, code that torch.compile traces.

    ## Why it costs
    Dynamo can't make a fake version of a sparse tensor. It ends the graph, or skips a function that
    has one as an argument.

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
    def forward(x):
        y = x.sin()
        return y * 2
    ```
    Work with sparse tensors outside the compiled function, and pass the dense result in.

    ## Fix safety
    Unsafe: dense tensors take more memory.

    ## Source
    torch's own hints for GB0015 and GB0277.
    """

    torch_ids = ("GB0015", "GB0277")
    gb_type = ".*sparse Tensor"
    context = r"qualname: [\w.]*\bsparse_\w+_tensor\b"
    says = "`{site.shown}` uses a sparse tensor, which torch can't trace"
    remedies = (call_fix("Keep sparse tensors outside the compiled function", "torch's hint"),)

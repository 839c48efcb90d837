"""GD128: activation checkpointing of a function that torch can't put in one graph."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, call_fix

_SIDE_EFFECT = "side effect"


class Checkpoint(BreakRule):
    """Activation checkpointing breaks the graph.

    ## What it finds
    `torch.utils.checkpoint.checkpoint` around a function that changes something outside it, such as
    an attribute or a list, in itself or in a hook of a module that it calls; around a module with a
    hook that torch doesn't trace; and `checkpoint_sequential`, which torch doesn't trace.

    ## Why it costs
    A checkpointed function is one operation in the graph, computed again in the backward pass, so
    nothing in it can break the graph: if something does, the whole call of `checkpoint` runs
    eagerly. Computed again, a side effect would happen twice.

    ## Example
    ```python
    import torch
    from torch.utils.checkpoint import checkpoint

    seen = {}

    def block(x):
        seen["mean"] = x.mean()
        return x.sin().cos()

    def forward(x):
        return checkpoint(block, x, use_reentrant=False) * 2

    def inputs():
        return (torch.ones(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def block(x):
        return x.sin().cos(), x.mean()

    def forward(x):
        y, seen["mean"] = checkpoint(block, x, use_reentrant=False)
        return y * 2
    ```
    In place of `checkpoint_sequential`, call `checkpoint` for each segment.

    ## Fix safety
    Safe for the results: the value is computed once, in the forward pass, and no longer again in
    the backward pass.

    ## Source
    torch's hint for GB0067; `torch/_dynamo/variables/higher_order_ops.py`, 2.13.
    """

    mechanism = "checkpoint"

    def matches(self, site: BreakSite) -> bool:
        return super().matches(site) or (
            site.cause.torch_id == "GB4413" and "checkpoint" in site.named
        )

    def message(self, site: BreakSite) -> str:
        if _SIDE_EFFECT in site.gb_type:
            return "what is checkpointed changes something outside it here"
        return f"torch can't put what `{site.called or 'checkpoint'}` checkpoints in the graph"

    def suggested(self, site: BreakSite) -> Fixes:
        title = "Keep what breaks the graph out of the function that is checkpointed"
        if _SIDE_EFFECT in site.gb_type:
            title = "Return the value from the checkpointed function, and keep it outside"
        elif "checkpoint_sequential" in site.torch_context:
            title = "Call `torch.utils.checkpoint.checkpoint(segment, x, use_reentrant=False)` for each segment"
        yield call_fix(title, "torch's hint for GB0067")

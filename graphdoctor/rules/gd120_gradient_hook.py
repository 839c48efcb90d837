"""GD120: a hook on gradients."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix, setting


class GradientHook(BreakRule):
    """A hook on gradients in the compiled region.

    ## What it finds
    A module with a backward hook (`register_full_backward_hook`), or a hook on a tensor's gradient
    whose handle the function returns, in code that torch.compile traces.

    ## Why it costs
    The backward pass is traced ahead of time, before any hook runs, so Dynamo ends the graph around
    such a module.

    ## Example
    ```python
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 8)
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: None)

    def forward(x):
        return layer(x.sin()).cos()

    def inputs():
        return (torch.ones(4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 8)

    CONFIG = {"torch._dynamo.config.compiled_autograd": True}

    layer.register_full_backward_hook(lambda module, grad_input, grad_output: None)

    def forward(x):
        return layer(x.sin()).cos()

    def inputs():
        return (torch.ones(4, 8),)
    ```
    For a hook that changes the gradient of one tensor, write a `torch.autograd.Function` with that
    backward.


    ## Fix safety
    Unsafe: compiled autograd changes how the whole backward pass runs.

    ## Source
    torch's own hints for GB0083 and GB0029; `torch/_dynamo/config.py`, 2.13 (`compiled_autograd`).
    """

    torch_ids = ("GB0083", "GB0029", "GB0013", "GB0100", "GB0101", "GB7444")
    gb_type = (
        "Module-level backwards hooks|Compilation of intermediate hooks|Storing Tensor hook handle"
        "|register_hook with stride-dependent code"
    )
    context = r"\ARemovableHandleVariable"

    def message(self, site: BreakSite) -> str:
        if "RemovableHandle" in site.torch_context:
            return "the compiled function keeps the handle of a gradient's hook, which torch can't reconstruct"
        is_module = "Module-level" in site.gb_type
        return f"`{site.named}` {'is a module with a backward hook' if is_module else 'uses a hook on a gradient'}"

    def suggested(self, site: BreakSite) -> Fixes:
        if "compiled autograd" in site.gb_type:
            yield setting(
                "compiled_autograd",
                "Compile the backward pass with its hooks",
                "torch's hint for GB0083",
            )
        elif "RemovableHandle" in site.torch_context:
            yield code_fix(
                "Keep no handle of the hook, or register the hook outside the compiled function"
            )
        else:
            yield code_fix("Write the change of the gradient as a `torch.autograd.Function`")

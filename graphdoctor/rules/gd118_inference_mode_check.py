"""GD118: a check for inference tensors."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BreakRule, call_fix


class InferenceModeCheck(BreakRule):
    """`tensor.is_inference()` inside the compiled region.

    ## What it finds
    A check whether a tensor was created under `torch.inference_mode()`, in code that torch.compile
    traces.

    ## Why it costs
    Dynamo ends the graph there. torch calls this break fundamental, so no setting removes it.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        if y.is_inference():
            y = y.clone()
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
    Call the function under `torch.no_grad()` instead of `torch.inference_mode()`, and remove the
    check.

    ## Fix safety
    Unsafe: tensors created under `inference_mode` differ from others in more than gradients.

    ## Source
    torch's own hints for GB0045 and GB0046.
    """

    torch_ids = ("GB0045", "GB0046")
    gb_type = ".*is_inference"
    context = "method is_inference of"
    says = "`{site.shown}` checks for inference mode, which torch can't trace"
    remedies = (
        call_fix(
            "Use `torch.no_grad()` around the call instead of `inference_mode`, and remove the check",
            "torch's hint for GB0045",
        ),
    )

"""GD112: a backward pass or an optimizer inside the compiled region."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix, setting


class BackwardOrOptimizer(BreakRule):
    """`backward()`, `torch.autograd.grad` or an optimizer's method inside the compiled region.

    ## What it finds
    A call to `loss.backward()`, `torch.autograd.grad`, `optimizer.step()` or `optimizer.zero_grad()` in code that
    torch.compile traces.

    ## Why it costs
    Dynamo ends the graph at each of these calls, so the training step becomes several graphs. AOTAutograd compiles the
    backward pass of the forward graphs anyway.

    ## Example
    ```python
    import torch

    weight = torch.nn.Parameter(torch.ones(8))

    def forward(x):
        loss = (x * weight).sum()
        loss.backward()
        return loss.detach()

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    def forward(x):
        return (x * weight).sum().detach()
    ```
    Compile the forward pass and the loss, and call `backward()` on the result outside. Compile the optimizer step
    separately with `torch.compile(optimizer.step)`.

    ## Fix safety
    Unsafe: the caller must make these calls itself, in the same order.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0123; `torch/optim/optimizer.py`, 2.13.
    """

    torch_ids = ("GB0123", "GB9186")
    context = r"qualname: (?:Optimizer|LRScheduler)\."
    inside = "/torch/optim/"
    says = "`{site.named}` belongs outside the compiled function, in the training step"

    def suggested(self, site: BreakSite) -> Fixes:
        yield code_fix("Compile only the forward pass and the loss, and call this outside")
        name = site.called or ""
        if site.cause.torch_id in self.torch_ids:
            yield setting("trace_autograd_ops", "Let torch trace the backward pass", "torch's hint")
        elif name.endswith("step") and not site.in_context(r"qualname: (LRScheduler)\."):
            title = f"Compile the optimizer's step on its own: give `{name}` to `torch.compile`"
            yield code_fix(title, "PyTorch tutorial: compiling the optimizer")

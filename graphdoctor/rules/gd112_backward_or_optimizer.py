"""GD112: a backward pass or an optimizer inside the compiled region."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix, setting


class BackwardOrOptimizer(BreakRule):
    """`backward()`, `torch.autograd.grad` or an optimizer's method inside the compiled region.

    ## What it finds
    A call to `loss.backward()`, `torch.autograd.grad`, `optimizer.step()` or
    `optimizer.zero_grad()` in code that torch.compile traces.

    ## Why it costs
    Dynamo ends the graph at each of these calls, so the training step becomes several graphs.
    AOTAutograd compiles the backward pass of the forward graphs anyway.

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
    Compile the forward pass and the loss, and call `backward()` on the result outside. Compile the
    optimizer step separately with `torch.compile(optimizer.step)`. The whole step in parts can be
    as fast: measure both with `graphdoctor bench`.

    ## Fix safety
    Unsafe: the caller must make these calls itself, in the same order.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0123;
    `torch/optim/optimizer.py`, 2.13.
    """

    torch_ids = ("GB0123", "GB9186")
    context = r"qualname: (?:Optimizer|LRScheduler|GradScaler)\."
    inside = "/torch/optim/"
    says = "torch doesn't put `{site.named}` in a graph, so the code around it is compiled in parts"

    def message(self, site: BreakSite) -> str:
        if site.cause.torch_id == "GB0025" and (
            site.entry.origin == "torch" or site.entry not in site.stack
        ):
            return "torch breaks the graph on purpose before an optimizer's step, whose code it compiles on its own"
        return super().message(site)

    def suggested(self, site: BreakSite) -> Fixes:
        name, is_traceable = site.called or "", site.cause.torch_id in self.torch_ids
        if site.cause.torch_id == "GB0123":
            # torch breaks with GB4927 where what it differentiated is returned, or used after a
            # later break.
            title = "Let torch trace the backward pass (`torch._dynamo.config.trace_autograd_ops = True`), and detach "
            yield code_fix(f"{title}the loss right after it if it is used later", "torch's hints")
        if is_traceable:
            yield setting("trace_autograd_ops", "Let torch trace the backward pass", "torch's hint")
        # The parts of a step can be faster than its forward pass alone: it isn't known before it is
        # measured.
        yield code_fix(
            "Compile only the forward pass and the loss, and call this outside",
            condition="if that measures faster",
        )
        is_optimizer = not (
            site.in_context(r"qualname: (LRScheduler|GradScaler)\.") or site.entry not in site.stack
        )
        if not is_traceable and name.endswith("step") and is_optimizer:
            title = f"Compile the optimizer's step on its own: give `{name}` to `torch.compile`"
            yield code_fix(title, "PyTorch tutorial: compiling the optimizer")

"""GD112: a backward pass or an optimizer inside the compiled region."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.rules.diagnosis.lines import called_name, in_context
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.rules.diagnosis.suggestions import setting

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"
_OPTIMIZER = "/torch/optim/"


class BackwardOrOptimizer(BreakRule, code="GD112", name="backward-or-optimizer", severity="warning"):
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
    import torch

    weight = torch.nn.Parameter(torch.ones(8))

    def forward(x):
        return (x * weight).sum().detach()

    def inputs():
        return (torch.randn(4, 8),)
    ```
    Compile the forward pass and the loss, and call `backward()` on the result outside. Compile the optimizer step
    separately with `torch.compile(optimizer.step)`.

    ## Fix safety
    Unsafe: the caller must make these calls itself, in the same order.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0123; `torch/optim/optimizer.py`, 2.13.
    """

    torch_ids: ClassVar = frozenset({"GB0123", "GB9186"})

    def matches(self, site: BreakSite) -> bool:
        is_optimizer = (in_context(site, r"qualname: (Optimizer|LRScheduler)\.") is not None) or any(
            entry.origin == "torch" and _OPTIMIZER in entry.file.replace("\\", "/") for entry in site.records[0].stack
        )
        return super().matches(site) or is_optimizer

    def message(self, site: BreakSite) -> str:
        name = called_name(site)
        what = f"`{name}`" if name else f"`{site.text}`"
        return f"{what} belongs outside the compiled function, in the training step"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        outside = _fix("Compile only the forward pass and the loss, and call this outside", source=_GUIDE)
        own = (outside,) if site.is_own_code else ()
        if super().matches(site):
            return (*own, setting("trace_autograd_ops", "Let torch trace the backward pass", source="torch's hint"))
        name = called_name(site) or ""
        if not site.is_own_code or in_context(site, r"qualname: (LRScheduler)\.") or not name.endswith("step"):
            return own
        compiled_step = _fix(
            f"Compile the optimizer's step on its own: give `{name}` to `torch.compile`",
            source="PyTorch tutorial: compiling the optimizer",
        )
        return (*own, compiled_step)


def _fix(title: str, *, source: str) -> Fix:
    return Fix(title=title, kind="code", source=source)

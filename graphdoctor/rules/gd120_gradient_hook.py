"""GD120: a hook on gradients."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.rules.diagnosis.lines import called_name, shortened
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.rules.diagnosis.suggestions import setting

_TYPES = (
    "Module-level backwards hooks",
    "Compilation of intermediate hooks",
    "Storing Tensor hook handle",
    "register_hook with stride-dependent code",
)


class GradientHook(BreakRule, code="GD120", name="gradient-hook", severity="warning"):
    """A hook on gradients in the compiled region.

    ## What it finds
    A module with a backward hook (`register_full_backward_hook`), or a hook on a tensor's gradient whose handle the
    function returns, in code that torch.compile traces.

    ## Why it costs
    The backward pass is traced ahead of time, before any hook runs, so Dynamo ends the graph around such a module.

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
    For a hook that changes the gradient of one tensor, write a `torch.autograd.Function` with that backward.


    ## Fix safety
    Unsafe: compiled autograd changes how the whole backward pass runs.

    ## Source
    torch's own hints for GB0083 and GB0029; `torch/_dynamo/config.py`, 2.13 (`compiled_autograd`).
    """

    torch_ids: ClassVar = frozenset({"GB0083", "GB0029", "GB0013", "GB0100", "GB0101", "GB7444"})

    def matches(self, site: BreakSite) -> bool:
        return super().matches(site) or site.cause.gb_type.startswith(_TYPES)

    def message(self, site: BreakSite) -> str:
        what = called_name(site) or shortened(site.expression)
        if "Module-level" in site.cause.gb_type:
            return f"`{what}` is a module with a backward hook"
        return f"`{what}` uses a hook on a gradient"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        if "compiled autograd" in site.cause.gb_type:
            return (
                setting(
                    "compiled_autograd", "Compile the backward pass with its hooks", source="torch's hint for GB0083"
                ),
            )
        if not site.is_own_code:
            return ()
        return (
            Fix(
                title="Write the change of the gradient as a `torch.autograd.Function`",
                kind="code",
                source="PyTorch user guide: torch.compile, common graph breaks",
            ),
        )

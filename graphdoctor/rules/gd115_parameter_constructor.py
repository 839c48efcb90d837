"""GD115: a parameter constructed inside the compiled region."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.rules.diagnosis.suggestions import setting


class ParameterConstructor(BreakRule, code="GD115", name="parameter-constructor", severity="warning"):
    """`torch.nn.Parameter(...)` inside the compiled region.

    ## What it finds
    A call to `torch.nn.Parameter` in code that torch.compile traces.

    ## Why it costs
    A new parameter is a new autograd leaf in the middle of the graph, so Dynamo ends the graph there.

    ## Example
    ```python
    import torch

    def forward(x):
        scale = torch.nn.Parameter(torch.ones(8))
        return x.sin() * scale

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    scale = torch.nn.Parameter(torch.ones(8))

    def forward(x):
        return x.sin() * scale

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Fix safety
    Unsafe: a parameter that is constructed once keeps its value and its gradient from call to call.

    ## Source
    torch's own hints for GB0264.
    """

    torch_ids: ClassVar = frozenset({"GB0264"})

    def matches(self, site: BreakSite) -> bool:
        return super().matches(site) or "torch.nn.Parameter()` constructor" in site.cause.gb_type

    def message(self, site: BreakSite) -> str:
        return "a parameter is constructed inside the compiled function"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        outside = Fix(title="Construct it once, outside the compiled function", kind="code", source="torch's hint")
        trace = setting(
            "graph_break_on_nn_param_ctor",
            "Let torch trace the constructor",
            value=False,
            source="torch's hint for GB0264",
        )
        return (outside, trace) if site.is_own_code else (trace,)

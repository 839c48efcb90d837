"""GD115: a parameter constructed inside the compiled region."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix, setting


class ParameterConstructor(BreakRule):
    """`torch.nn.Parameter(...)` inside the compiled region.

    ## What it finds
    A call to `torch.nn.Parameter` in code that torch.compile traces.

    ## Why it costs
    A new parameter is a new autograd leaf in the middle of the graph, so Dynamo ends the graph
    there.

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
    scale = torch.nn.Parameter(torch.ones(8))

    def forward(x):
        return x.sin() * scale
    ```

    ## Fix safety
    Unsafe: a parameter that is constructed once keeps its value and its gradient from call to call.

    ## Source
    torch's own hints for GB0264.
    """

    torch_ids = ("GB0264",)
    gb_type = r".*torch\.nn\.Parameter\(\)` constructor"
    says = "a parameter is constructed inside the compiled function"

    def suggested(self, site: BreakSite) -> Fixes:
        yield code_fix("Construct it once, outside the compiled function", "torch's hint")
        # torch can't keep a parameter of a module that is constructed inside.
        if not any(entry.function == "__init__" for entry in site.stack):
            title, name = "Let torch trace the constructor", "graph_break_on_nn_param_ctor"
            yield setting(name, title, "torch's hint for GB0264", value=False)

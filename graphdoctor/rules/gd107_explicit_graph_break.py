"""GD107: a graph break that somebody asked for."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.model.diagnosis import Fix
from graphdoctor.rules.base import BreakRule, BreakSite


class ExplicitGraphBreak(BreakRule):
    """A call of `torch._dynamo.graph_break()`.

    ## What it finds
    An explicit graph break in code that torch.compile traces.

    ## Why it costs
    It splits the graph where it stands: each part is compiled, guarded and launched by itself.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        y = x.sin()
        return y.cos()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```
    Keep it where it saves more than it costs: around a small part that recompiles often, so that the large part does
    not.

    ## Fix safety
    Results stay the same; marked unsafe because somebody put the break there on purpose.

    ## Source
    `torch/_dynamo/decorators.py`, 2.13; torch's own hints for GB0025.
    """

    code: ClassVar = "GD107"
    name: ClassVar = "explicit-graph-break"
    severity: ClassVar = "warning"
    torch_ids: ClassVar = frozenset({"GB0025"})

    def matches(self, site: BreakSite) -> bool:
        """By id, or by the name that other versions give it."""
        return super().matches(site) or site.cause.gb_type.startswith("Call to `torch._dynamo.graph_break()`")

    def message(self, site: BreakSite) -> str:
        """Where it stands: in the line, or in torch's own code below it."""
        if "graph_break" in site.text:
            return "`torch._dynamo.graph_break()` breaks the graph on purpose"
        return "a library breaks the graph on purpose below this line"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """Remove it."""
        if not site.is_own_code or "graph_break" not in site.text:
            return ()
        return (
            Fix(
                title="Remove the call of `torch._dynamo.graph_break()`", kind="code", source="torch's hint for GB0025"
            ),
        )

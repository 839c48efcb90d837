"""GD107: an explicit graph break."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.diagnosis.lines import called_name
from graphdoctor.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.model.diagnosis import Fix

_CALLS = ("graph_break", "skip_frame", "step_unsupported")


class ExplicitGraphBreak(BreakRule):
    """A call that breaks the graph or skips the function on purpose.

    ## What it finds
    `torch._dynamo.graph_break()`, `skip_frame()` and `step_unsupported()` in code that torch.compile traces.

    ## Why it costs
    It splits the graph at that line. Each part has its own guards and is compiled and launched separately.

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
    Keep it if it saves more than it costs: around a small part that recompiles often, it keeps the large part from
    recompiling.

    ## Fix safety
    Results stay the same. It is marked unsafe because someone put the break there on purpose.

    ## Source
    `torch/_dynamo/decorators.py`, 2.13; torch's own hints for GB0025 and GB4297.
    """

    code: ClassVar = "GD107"
    name: ClassVar = "explicit-graph-break"
    severity: ClassVar = "warning"
    torch_ids: ClassVar = frozenset({"GB0025", "GB4297", "GB0275"})

    def matches(self, site: BreakSite) -> bool:
        """By id, or by the name in other torch versions."""
        return super().matches(site) or site.cause.gb_type.startswith("Call to `torch._dynamo.")

    def message(self, site: BreakSite) -> str:
        """Whether the call is on the line or in a library that it calls."""
        name = called_name(site)
        if not _is_in_line(site):
            return f"`{name}` breaks the graph on purpose" if name else "a library breaks the graph on purpose here"
        effect = "breaks the graph" if site.cause.torch_id == "GB0025" else "skips the function"
        return f"`{name}()` {effect} on purpose"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """Remove it."""
        if not site.is_own_code or not _is_in_line(site):
            return ()
        return (Fix(title=f"Remove the call to `{called_name(site)}`", kind="code", source="torch's hint for GB0025"),)


def _is_in_line(site: BreakSite) -> bool:
    return (called_name(site) or "").endswith(_CALLS)

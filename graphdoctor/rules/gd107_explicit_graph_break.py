"""GD107: an explicit graph break."""

from __future__ import annotations

from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix

_CALLS = ("graph_break", "skip_frame", "step_unsupported")


class ExplicitGraphBreak(BreakRule):
    """A call that breaks the graph or skips the function on purpose.

    ## What it finds
    `torch._dynamo.graph_break()`, `skip_frame()` and `step_unsupported()` in code that
    torch.compile traces: your own call, or that of a library, which is then named.

    ## Why it costs
    It splits the graph at that line. Each part has its own guards and is compiled and launched
    separately.

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
    def forward(x):
        y = x.sin()
        return y.cos()
    ```
    Keep it if it saves more than it costs: around a small part that recompiles often, it keeps the
    large part from recompiling.

    ## Fix safety
    Results stay the same. It is marked unsafe because someone put the break there on purpose.

    ## Source
    `torch/_dynamo/decorators.py`, 2.13; torch's own hints for GB0025 and GB4297.
    """

    torch_ids = ("GB0025", "GB4297", "GB0275")
    gb_type = r"Call to `torch\._dynamo\."

    def message(self, site: BreakSite) -> str:
        call = f"`{site.called}()`" if site.called else "a call here"
        effect = "breaks the graph" if site.cause.torch_id == "GB0025" else "skips the function"
        caller = site.entry if _is_in_line(site) else site.stack[-1]
        return f"{call} {effect} on purpose{'' if caller.origin == 'user' else f', in {_named(caller)}'}"

    def suggested(self, site: BreakSite) -> Fixes:
        if _is_in_line(site):
            yield code_fix(f"Remove the call to `{site.called}`", "torch's hint for GB0025")


def _is_in_line(site: BreakSite) -> bool:
    """The line itself makes the call, perhaps under a name of its own; torch traces no function of
    its decorators.
    """
    return (site.called or "").endswith(_CALLS) or not site.is_deeper


def _named(entry: StackEntry) -> str:
    if entry.origin == "torch":
        return "torch"
    return f"`{entry.package}`" if entry.package else "a library"

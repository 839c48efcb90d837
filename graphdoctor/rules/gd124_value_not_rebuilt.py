"""GD124: a value that torch can't reconstruct after a break."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix


class ValueNotRebuilt(BreakRule):
    """A value that torch can't reconstruct after a graph break.

    ## What it finds
    A graph break while the function holds a value that exists only in Dynamo's trace: a bound
    method of an object created in the function, a generator that has started, or the exit of a
    `with`. The call, or the same line, has another break.

    ## Why it costs
    To continue in Python, Dynamo must reconstruct every live value. If it can't reconstruct one,
    the rest of the function runs eagerly.

    ## Example
    ```python
    import torch

    class Scale:
        def apply(self, x):
            print("scaling")
            return x * 2

    def forward(x):
        return Scale().apply(x.sin())

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    class Scale:
        def apply(self, x):
            return x * 2
    ```
    Fix the other break first; then this one is gone. Otherwise create the object outside the
    compiled function.


    ## Fix safety
    Creating the object outside is safe if it doesn't keep state from the call.

    ## Source
    torch's own messages for GB0092, GB8335 and GB2533.
    """

    torch_ids = ("GB0092", "GB0093", "GB1297", "GB2533", "GB8335")
    gb_type = "Reconstruction failure|Generator reconstruction with mutations|reconstructing @contextmanager object"

    def is_consequence(self, site: BreakSite) -> bool:
        return not (site.called or "").endswith("graph_break")

    def message(self, site: BreakSite) -> str:
        where = f" in `{site.called}`" if site.called else ""
        return f"a break{where} leaves a value that torch can't reconstruct"

    def suggested(self, site: BreakSite) -> Fixes:
        title = f"Remove the call to `{site.called}`, or make the value after it"
        if self.is_consequence(site):
            where = f"inside `{site.called}`" if site.called else f"on line {site.entry.line}"
            title = f"Fix the other break {where} first: it causes this one"
        yield code_fix(title, "torch's message for GB0092")

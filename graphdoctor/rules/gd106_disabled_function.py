"""GD106: a call to a function under torch.compiler.disable."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix


class DisabledFunction(BreakRule):
    """A call to a function that is excluded from torch.compile.

    ## What it finds
    A call to a function under `torch.compiler.disable` from code that torch.compile traces.

    ## Why it costs
    The graph ends before the call, and a new one starts after it. The function and everything it
    calls run eagerly.

    ## Example
    ```python
    import torch

    @torch.compiler.disable
    def scaled(x):
        return x * 2

    def forward(x):
        return scaled(x.sin()).cos()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def scaled(x):
        return x * 2
    ```

    ## Fix safety
    Unsafe: someone disabled it for a reason. Remove it and check that the function compiles and
        gives the same results.
    Keep it around code with many graph breaks.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0098.
    """

    torch_ids = ("GB0098",)
    gb_type = r".*torch\.compiler\.disable\(\)`d function"
    says = "`{site.named}` is under `torch.compiler.disable`, so it runs eagerly"

    def matches(self, site: BreakSite) -> bool:
        # Of a module, torch says so in its explanation only.
        is_module = "wrapped with `torch.compiler.disable`" in (site.cause.explanation or "")
        return is_module or super().matches(site)

    def suggested(self, site: BreakSite) -> Fixes:
        title = f"Remove `torch.compiler.disable` from `{site.called or 'the function'}` if torch can trace it now"
        yield code_fix(title, "torch's hint for GB0098")

    def fixes(self, site: BreakSite) -> Fixes:
        # The target itself can be disabled: then torch traces no line of it, and the edit is the
        # same.
        return tuple(self.suggested(site)) if site.entry.origin == "user" else ()

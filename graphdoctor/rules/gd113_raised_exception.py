"""GD113: an exception that isn't handled in the compiled function."""

from __future__ import annotations

import ast

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix, shortened


class RaisedException(BreakRule, severity="error"):
    """An exception that the compiled function raises while torch traces it, and doesn't handle.

    ## What it finds
    A `raise`, or an operation that raises, in code that torch.compile traces, without a handler in
    the function.

    ## Why it costs
    Dynamo skips the whole function so that Python can raise the exception. If the call works in
    eager mode, Dynamo doesn't support a Python operation in it and treats it as one that raises.
    Then the function always runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x):
        if torch.compiler.is_compiling():
            raise NotImplementedError("no compiled path")
        return x.sin()

    def inputs():
        return (torch.zeros(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def forward(x):
        return x.sin()
    ```
    Check arguments before you call the compiled function, or in the graph with `torch._check`.

    ## Fix safety
    Unsafe: the exception is raised somewhere else, or has another type.

    ## Source
    torch's own hints for GB0088; `torch/_dynamo/exc.py`, 2.13 (`ObservedException`).
    """

    torch_ids = ("GB0088",)
    gb_type = "Observed exception$"
    context = "attempted to jump with ConstantVariable"

    def message(self, site: BreakSite) -> str:
        raised = site.in_context(r"raised exception (.+)")
        if isinstance(site.statement_node, ast.Assert):
            return f"while tracing, the assertion `{site.shown}` fails"
        return f"while tracing, `{site.shown}` raises {f'`{shortened(raised)}`' if raised else 'an exception'}"

    def suggested(self, site: BreakSite) -> Fixes:
        title = "Check whether it works without torch.compile; if it does, move it out of the compiled function"
        if "raise" in site.statement or isinstance(site.statement_node, ast.Assert):
            title = (
                "Check before calling the compiled function, or in the graph with `torch._check`"
            )
        yield code_fix(title, "torch's hints for GB0088")

"""GD110: a context manager that Dynamo can't enter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, call_fix, code_fix, setting, shortened

_OF_GENERATOR = "attempted to trace contextlib.contextmanager"
_MAKING = (
    "Attempted to call function marked as skipped",
    "Attempted to inline function marked as skipped",
    "Unsupported method call",
    "attempted to trace numpy function unsupported by PyTorch",
    "torch.* op returned non-Tensor",
)
"""Breaks in a context manager's constructor or ``__enter__``, before torch reaches the ``with``."""


class UnsupportedContextManager(BreakRule):
    """A `with` statement that Dynamo doesn't support.

    ## What it finds
    A `with` statement on a lock, a file, `torch.device`, `torch.autograd.detect_anomaly` or another object that Dynamo
    can't create or enter, in code that torch.compile traces.

    ## Why it costs
    Dynamo can't end a graph inside such a `with` and resume later, so the whole function runs eagerly.

    ## Example
    ```python
    import threading

    import torch

    lock = threading.Lock()

    def forward(x):
        with lock:
            y = x.sin()
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
    Enter the context manager around the call to the compiled function.

    ## Fix safety
    Safe if no code in the compiled function needs to run outside it: the context manager then covers the whole call.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0142 and GB0263.
    """

    torch_ids = ("GB0142", "GB0262", "GB0263")
    gb_type = rf"Unsupported context manager|unsupported contextlib\.\* API|{re.escape(_OF_GENERATOR)}"

    def matches(self, site: BreakSite) -> bool:
        is_with = isinstance(site.statement_node, ast.With | ast.AsyncWith)
        is_entered = site.in_context(r"qualname: [\w.]+\.(__enter__)\b") is not None
        return super().matches(site) or is_entered or (is_with and site.gb_type.startswith(_MAKING))

    def message(self, site: BreakSite) -> str:
        kind, entered = site.in_context(r"UserDefinedObjectVariable\((\w+)\)"), _managers(site)
        named = f", a `{kind}`" if kind and kind not in entered else ""
        if not isinstance(site.statement_node, ast.With | ast.AsyncWith):
            return f"torch can't enter {f'a `{kind}`' if kind else 'a context manager'} in `{site.named}`"
        return f"torch can't enter the context manager `{entered}`{named}"

    def suggested(self, site: BreakSite) -> Fixes:
        if site.cause.torch_id == "GB0263" or site.gb_type.startswith("attempted to trace contextlib"):
            yield setting("enable_trace_contextlib", "Let torch trace `@contextmanager` functions")
        statement = site.statement_node
        if not isinstance(statement, ast.With | ast.AsyncWith):
            is_stack = site.named.endswith("enter_context")
            title = (
                "Enter it with a `with` of its own"
                if is_stack
                else f"Call `{site.named}` outside the compiled function"
            )
            yield code_fix(title)
            return
        items = statement.items
        # A name alone can be a local variable, which nobody can enter outside.
        made = ", and make it there if the function makes it" if _has_names(items) else ""
        used = ", and pass in what it gives" if any(item.optional_vars for item in items) else ""
        yield call_fix(f"Enter `{_managers(site)}` around the call to the compiled function{made}{used}")


def _has_names(items: Iterable[ast.withitem]) -> bool:
    return any(isinstance(item.context_expr, ast.Name) for item in items)


def _managers(site: BreakSite) -> str:
    """What the ``with`` at the line enters, or the expression if there is no ``with``."""
    statement = site.statement_node
    if isinstance(statement, ast.With | ast.AsyncWith):
        return shortened(", ".join(ast.unparse(item.context_expr) for item in statement.items))
    return site.shown

"""GD110: a context manager that Dynamo can't enter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from graphdoctor.rules.toolkit import (
    BreakRule,
    BreakSite,
    Fixes,
    call_fix,
    code_fix,
    setting,
    shortened,
)

_OF_GENERATOR = "attempted to trace contextlib.contextmanager"
_MAKING = (
    "Attempted to call function marked as skipped",
    "Attempted to inline function marked as skipped",
    "Unsupported method call",
    "attempted to trace numpy function unsupported by PyTorch",
    "torch.* op returned non-Tensor",
)
"""Breaks in a context manager's constructor or ``__enter__``, before torch reaches the ``with``."""
_SUPPORTED = (
    "no_grad",
    "enable_grad",
    "set_grad_enabled",
    "inference_mode",
    "autocast",
    "nullcontext",
    "suppress",
)
"""What torch enters in the graph."""


class UnsupportedContextManager(BreakRule):
    """A `with` statement that Dynamo doesn't support.

    ## What it finds
    A `with` statement on a lock, a file, `torch.device`, `torch.autograd.detect_anomaly` or another
    object that Dynamo can't create or enter, in code that torch.compile traces.

    ## Why it costs
    Dynamo can't end a graph inside such a `with` and resume later, so the whole function runs
    eagerly.

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
    Safe if no code in the compiled function needs to run outside it: the context manager then
    covers the whole call.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0142 and GB0263.
    """

    torch_ids = ("GB0142", "GB0262", "GB0263")
    gb_type = (
        rf"Unsupported context manager|unsupported contextlib\.\* API|{re.escape(_OF_GENERATOR)}"
    )

    def matches(self, site: BreakSite) -> bool:
        is_with = isinstance(site.statement_node, ast.With | ast.AsyncWith)
        is_entered = site.in_context(r"qualname: [\w.]+\.(__enter__)\b") is not None
        return super().matches(site) or is_entered or (is_with and site.gb_type.startswith(_MAKING))

    def message(self, site: BreakSite) -> str:
        kind, items = _kind(site), _items(site)
        if not items:
            return f"torch can't enter {f'a `{kind}`' if kind else 'a context manager'} in `{site.named}`"
        entered = _listed(items)
        named = f", a `{kind}`" if kind and kind not in entered else ""
        return f"torch can't enter {'the context manager' if len(items) == 1 else 'one of'} `{entered}`{named}"

    def suggested(self, site: BreakSite) -> Fixes:
        if site.cause.torch_id == "GB0263" or site.gb_type.startswith(
            "attempted to trace contextlib"
        ):
            yield setting("enable_trace_contextlib", "Let torch trace `@contextmanager` functions")
        if not (items := _items(site)):
            is_stack = site.named.endswith("enter_context")
            verb = "Read" if isinstance(site.node, ast.Attribute) else "Call"
            outside = f"{verb} `{site.named}` outside the compiled function"
            yield code_fix("Enter it with a `with` of its own" if is_stack else outside)
            return
        # A name alone can be a local variable, which nobody can enter outside.
        is_named = any(isinstance(item.context_expr, ast.Name) for item in items)
        made = ", and make it there if the function makes it" if is_named else ""
        used = ", and pass in what it gives" if any(item.optional_vars for item in items) else ""
        yield call_fix(
            f"Enter `{_listed(items)}` around the call to the compiled function{made}{used}"
        )


def _kind(site: BreakSite) -> str | None:
    return site.in_context(r"(?:UserDefinedObjectVariable\(|ConstantVariable\((?=device:))(\w+)")


def _items(site: BreakSite) -> list[ast.withitem]:
    """What the ``with`` at the line enters and can be to blame; nothing if there is no ``with``."""
    if not isinstance(site.statement_node, ast.With | ast.AsyncWith):
        return []
    items = site.statement_node.items
    pointed, kind = (
        [item for item in items if ast.unparse(item.context_expr) == site.expression],
        _kind(site),
    )
    of_kind = [item for item in items if _name(item) == kind]
    return pointed or of_kind or [item for item in items if _name(item) not in _SUPPORTED] or items


def _name(item: ast.withitem) -> str:
    return ast.unparse(item.context_expr).partition("(")[0].rpartition(".")[2]


def _listed(items: Iterable[ast.withitem]) -> str:
    return shortened(", ".join(ast.unparse(item.context_expr) for item in items))

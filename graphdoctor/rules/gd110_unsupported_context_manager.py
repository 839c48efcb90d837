"""GD110: a context manager that Dynamo can't enter."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.rules.diagnosis.lines import in_context, in_with_header, managers
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.rules.diagnosis.suggestions import setting

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"
_TYPES = ("Unsupported context manager", "unsupported contextlib.* API", "attempted to trace contextlib.contextmanager")
_MAKING = (
    "Attempted to call function marked as skipped",
    "Attempted to inline function marked as skipped",
    "Unsupported method call",
    "attempted to trace numpy function unsupported by PyTorch",
    "torch.* op returned non-Tensor",
)
"""Breaks in a context manager's constructor or ``__enter__``, before torch reaches the ``with``."""


class UnsupportedContextManager(BreakRule, code="GD110", name="unsupported-context-manager", severity="warning"):
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

    torch_ids: ClassVar = frozenset({"GB0142", "GB0262", "GB0263"})

    def matches(self, site: BreakSite) -> bool:
        is_making = in_with_header(site) and site.cause.gb_type.startswith(_MAKING)
        return super().matches(site) or site.cause.gb_type.startswith(_TYPES) or is_making

    def message(self, site: BreakSite) -> str:
        kind = in_context(site, r"UserDefinedObjectVariable\((\w+)\)")
        named = f", a `{kind}`" if kind and kind not in managers(site) else ""
        return f"torch can't enter the context manager `{managers(site)}`{named}"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        around = Fix(
            title=f"Enter `{managers(site)}` around the call to the compiled function", kind="call", source=_GUIDE
        )
        if site.cause.torch_id == "GB0263" or site.cause.gb_type.startswith("attempted to trace contextlib"):
            return (setting("enable_trace_contextlib", "Let torch trace `@contextmanager` functions"), around)
        return (around,)

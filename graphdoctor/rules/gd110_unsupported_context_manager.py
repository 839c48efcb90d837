"""GD110: a context manager that Dynamo cannot enter."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.model.diagnosis import Fix
from graphdoctor.rules.base import BreakRule, BreakSite
from graphdoctor.rules.wording import in_context, setting, shortened

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"


class UnsupportedContextManager(BreakRule):
    """A `with` over an object that Dynamo does not know.

    ## What it finds
    `with` on a lock, a file or another object whose `__enter__` is not Python code, in code that torch.compile traces.

    ## Why it costs
    Dynamo cannot stop in the middle of such a `with` and go on later: the whole function runs eagerly.

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
    Enter it around the call of the compiled function.

    ## Fix safety
    Safe where the compiled function's own code does not depend on being inside; the manager then covers the whole call.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0142 and GB0263.
    """

    code: ClassVar = "GD110"
    name: ClassVar = "unsupported-context-manager"
    severity: ClassVar = "warning"
    torch_ids: ClassVar = frozenset({"GB0142", "GB0263"})

    def matches(self, site: BreakSite) -> bool:
        """By id, or by the name that other versions give it."""
        return super().matches(site) or site.cause.gb_type.startswith("Unsupported context manager")

    def message(self, site: BreakSite) -> str:
        """Which manager."""
        kind = in_context(site, r"\(([\w.]+)\)+$")
        named = f" (`{kind}`)" if kind else ""
        return f"torch cannot enter the context manager `{shortened(site.expression)}`{named}"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """Around the call; for generators the setting."""
        around = Fix(title="Enter it around the call of the compiled function", kind="call", source=_GUIDE)
        if "contextlib" in site.cause.gb_type or site.cause.torch_id == "GB0263":
            return (setting("enable_trace_contextlib", "Let torch trace `@contextmanager` functions"), around)
        return (around,)

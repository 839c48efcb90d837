"""GD105: a call of a function that Dynamo does not trace."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.model.diagnosis import Fix
from graphdoctor.rules.base import BreakRule, BreakSite
from graphdoctor.rules.wording import called_name, guard_while_compiling, in_context, own_function, shortened

_GUIDE = "PyTorch user guide: torch.compile, skipped functions"
_CLOCKS = ("time.", "datetime.")
_CLOCK_TYPE = "Call to a time function"


class SkippedFunction(BreakRule):
    """A call of a function that Dynamo never traces.

    ## What it finds
    Functions on Dynamo's skip list (much of the standard library, `torch.save`, progress bars) and functions written
    in C or C++, which have no bytecode to trace: clocks, random numbers of `random`, locks, files.

    ## Why it costs
    Dynamo ends the graph, calls the function in Python and starts another graph behind it; inside a loop, a `try` or a
    `with` it gives up the whole function.

    ## Example
    ```python
    import time

    import torch

    def forward(x):
        y = x.sin()
        started = time.perf_counter()
        y = y.cos()
        if started < 0:
            y = -y
        return y

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        y = x.sin()
        y = y.cos()
        return y

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```
    Call it outside the compiled function and pass its result in; skip it while compiling
    (`if not torch.compiler.is_compiling()`); wrap tensor code in C++ with `torch.library.custom_op` and
    `register_fake`; wrap Python that only looks hard with `torch._dynamo.nonstrict_trace`.

    ## Fix safety
    Unsafe as a rule: what the function did happens at another time, or no longer. Passing a value in is safe where the
    caller computes the same value.

    ## Source
    PyTorch user guide, "Skipped functions" and "Common graph breaks"; `torch/_dynamo/trace_rules.py`, 2.13.
    """

    code: ClassVar = "GD105"
    name: ClassVar = "skipped-function"
    severity: ClassVar = "warning"
    torch_ids: ClassVar = frozenset({"GB0007", "GB0008", "GB9193"})

    def matches(self, site: BreakSite) -> bool:
        """By id, or by the name that other versions give it."""
        gb_type = site.cause.gb_type
        return super().matches(site) or "marked as skipped" in gb_type or gb_type == _CLOCK_TYPE

    def message(self, site: BreakSite) -> str:
        """Which function."""
        return f"`{_function(site)}` is a function that torch does not trace"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """By what kind of function it is."""
        function = _function(site)
        if not site.is_own_code:
            return (
                Fix(
                    title=f"Let torch trace `{function}` in spite of its skip list, if it is Python",
                    kind="config",
                    snippet=f"torch._dynamo.dont_skip_tracing({function})",
                    source="torch's hint for GB0007",
                ),
            )
        skip = guard_while_compiling(site, source=_GUIDE)
        hoist = Fix(
            title=f"Call `{function}` before the compiled function and pass its result in", kind="code", source=_GUIDE
        )
        if _is_clock(site):
            return (hoist, *skip)
        if "likely a C extension or builtin" in (site.cause.context or ""):
            wrap = Fix(
                title=f"If `{function}` computes tensors, wrap it with `torch.library.custom_op` and `register_fake`",
                kind="code",
                source="PyTorch user guide: custom operators",
            )
            return (hoist, wrap, own_function("the call"))
        return (hoist, *skip, own_function("the call"))


def _is_clock(site: BreakSite) -> bool:
    return site.cause.gb_type == _CLOCK_TYPE or _function(site).startswith(_CLOCKS)


def _function(site: BreakSite) -> str:
    """The function in torch's words where it names one, else as the line calls it."""
    module = in_context(site, r"module: ([\w.]+),")
    qualname = in_context(site, r"qualname: ([\w.]+)")
    if qualname:
        return f"{module}.{qualname}" if module and module != "builtins" else qualname
    return called_name(site) or shortened(site.expression)

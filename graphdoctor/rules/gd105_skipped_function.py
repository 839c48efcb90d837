"""GD105: a call to a function that Dynamo doesn't trace."""

from __future__ import annotations

import sys
from typing import ClassVar

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.rules.diagnosis.lines import bare_call, called_name, in_context, shortened
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.rules.diagnosis.suggestions import guard_while_compiling, own_function, setting

_GUIDE = "PyTorch user guide: torch.compile, skipped functions"
_CLOCK_TYPE = "Call to a time function"
_FILE_METHOD = r"call_method UserDefinedObjectVariable\((TextIOWrapper|Buffered\w+|FileIO)\) "


class SkippedFunction(BreakRule, code="GD105", name="skipped-function", severity="warning"):
    """A call to a function that Dynamo doesn't trace.

    ## What it finds
    A call to a function on Dynamo's skip list, such as much of the standard library, `torch.save` and progress bars, or
    to a function written in C or C++, which has no bytecode to trace: clocks, the `random` module, locks, files.

    ## Why it costs
    Dynamo ends the graph, calls the function in Python, and starts a new graph after it. In a loop, a `try` or a
    `with`, it skips the whole function.

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
    Call the function outside the compiled function and pass the result in, or skip it while compiling with `if not
    torch.compiler.is_compiling()`. Wrap tensor code written in C++ with `torch.library.custom_op` and `register_fake`.
    Wrap a Python function that is safe to trace with `torch._dynamo.nonstrict_trace`.

    ## Fix safety
    Unsafe: what the function does happens at another time, or no longer. Passing a value in is safe if the caller
    computes the same value.

    ## Source
    PyTorch user guide, "Skipped functions" and "Common graph breaks"; `torch/_dynamo/trace_rules.py`, 2.13.
    """

    torch_ids: ClassVar = frozenset({"GB0007", "GB0008", "GB9193"})

    def matches(self, site: BreakSite) -> bool:
        gb_type = site.cause.gb_type
        is_file = (in_context(site, r"^(builtin open) ") or in_context(site, _FILE_METHOD)) is not None
        return super().matches(site) or _is_on_skip_list(site) or gb_type == _CLOCK_TYPE or is_file

    def message(self, site: BreakSite) -> str:
        called, function = called_name(site), _function(site)
        if in_context(site, r"(open) ") or in_context(site, _FILE_METHOD):
            return f"`{called or function}` accesses a file, so torch can't put it in a graph"
        innermost = site.records[0].stack[-1:]
        is_deeper = any((entry.file, entry.line) != (site.entry.file, site.entry.line) for entry in innermost)
        is_alike = called is None or function.rpartition(".")[2] in ("__init__", "__new__", called.rpartition(".")[2])
        if is_deeper and called and not is_alike:
            return f"`{called}` calls `{function}`, which torch doesn't trace"
        return f"torch doesn't trace `{called or function}`"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        is_native = "likely a C extension or builtin" in (site.cause.context or "")
        if not site.is_own_code:
            return () if is_native or not _is_on_skip_list(site) else (_trace_it(_function(site)),)
        name = called_name(site) or _function(site)
        if "tqdm" in name:
            return (
                _fix(f"Loop over the argument of `{name}`, and keep the progress bar outside the compiled function"),
            )
        if bare_call(site) is not None:
            move = _fix(f"Move `{shortened(site.statement)}` out of the compiled function")
            return (move, *guard_while_compiling(site), own_function("the call"))
        hoist = _fix(f"Call `{name}` before the compiled function and pass its result in")
        if is_native and not _is_standard(site):
            wrap = _fix(
                f"If `{name}` computes tensors, wrap it with `torch.library.custom_op` and `register_fake`",
                source="PyTorch user guide: custom operators",
            )
            return (hoist, wrap, own_function("the call"))
        return (hoist, own_function("the call"))


def _fix(title: str, *, source: str = _GUIDE) -> Fix:
    return Fix(title=title, kind="code", source=source)


def _is_on_skip_list(site: BreakSite) -> bool:
    return "marked as skipped" in site.cause.gb_type


def _trace_it(function: str) -> Fix:
    return setting("dont_skip_tracing", f"Let torch trace `{function}` despite its skip list")


def _is_standard(site: BreakSite) -> bool:
    """The function belongs to Python or torch, so it has no tensor code to wrap."""
    module = in_context(site, r"module: ([^,]+),") or ""
    root = module.partition(".")[0]
    return root in sys.stdlib_module_names or root in ("torch", "<unknown module>")


def _function(site: BreakSite) -> str:
    """The function that torch names, or the one that the line calls."""
    module = in_context(site, r"module: ([\w.]+),")
    qualname = in_context(site, r"qualname: ([\w.]+)")
    if qualname:
        return f"{module}.{qualname}" if module and module != "builtins" else qualname
    return called_name(site) or shortened(site.expression)

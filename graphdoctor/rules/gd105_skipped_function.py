"""GD105: a call to a function that Dynamo doesn't trace."""

from __future__ import annotations

import re
import sys

from graphdoctor.rules.toolkit import (
    OWN_FUNCTION,
    BreakRule,
    BreakSite,
    Fixes,
    call_before,
    code_fix,
    guard_while_compiling,
    setting,
    shortened,
)

_OF_FILE = r"(\Abuiltin open|call_method UserDefinedObjectVariable\((?:TextIOWrapper|Buffered\w+|FileIO)\)) "


class SkippedFunction(BreakRule):
    """A call to a function that Dynamo doesn't trace.

    ## What it finds
    A call to a function on Dynamo's skip list, such as much of the standard library, `torch.save`
    and progress bars, or to a function written in C or C++, which has no bytecode to trace: clocks,
    the `random` module, locks, files.

    ## Why it costs
    Dynamo ends the graph, calls the function in Python, and starts a new graph after it. In a loop,
    a `try` or a `with`, it skips the whole function.

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
    def forward(x):
        y = x.sin()
        y = y.cos()
        return y
    ```
    Call the function outside the compiled function and pass the result in, or skip it while
    compiling with `if not torch.compiler.is_compiling()`. Wrap tensor code written in C++ with
    `torch.library.custom_op` and `register_fake`. Wrap a Python function that is safe to trace with
    `torch._dynamo.nonstrict_trace`.

    ## Fix safety
    Unsafe: what the function does happens at another time, or no longer. Passing a value in is safe
        if the caller
    computes the same value.

    ## Source
    PyTorch user guide, "Skipped functions" and "Common graph breaks";
    `torch/_dynamo/trace_rules.py`, 2.13.
    """

    guide = "PyTorch user guide: torch.compile, skipped functions"
    torch_ids = ("GB0007", "GB0008", "GB9193")
    gb_type = ".*marked as skipped|Call to a time function$"
    context = _OF_FILE

    def message(self, site: BreakSite) -> str:
        called, function = site.called, _function(site)
        if _is_left_over(site):
            return (
                f"`{function}` is called outside the graph, because of another break on this line"
            )
        if site.in_context(_OF_FILE):
            return f"`{called or function}` accesses a file, so torch can't put it in a graph"
        is_alike = called is None or function.rpartition(".")[2] in (
            "__init__",
            "__new__",
            called.rpartition(".")[2],
        )
        if site.is_deeper and called and not is_alike:
            return f"`{called}` calls `{function}`, which torch doesn't trace"
        return f"torch doesn't trace `{called or function}`"

    def is_consequence(self, site: BreakSite) -> bool:
        return _is_left_over(site)

    def suggested(self, site: BreakSite) -> Fixes:
        is_native = "likely a C extension or builtin" in site.torch_context
        if not site.is_own_code:
            if not is_native and "marked as skipped" in site.gb_type:
                title = f"Let torch trace `{_function(site)}` despite its skip list"
                yield setting("dont_skip_tracing", title, condition="if nothing in it breaks")
            return
        name = site.called or _function(site)
        only = ""
        if _is_left_over(site):
            only = "Fix the other break on this line first: it causes this one"
        elif site.called == "open":
            only = "Read or write the file outside the compiled function"
        elif name.endswith("__iter__"):
            only = f"Loop over `{site.looped_over}` outside the compiled function"
        elif "tqdm" in name:
            only = f"Loop over the argument of `{name}`, and keep the progress bar outside the compiled function"
        if only:
            yield code_fix(only)
            return
        if site.bare_call is not None:
            yield code_fix(f"Move `{shortened(site.statement)}` out of the compiled function")
            # Later operations need what sets a state, such as a seed, or changes an argument, such
            # as a shuffle.
            if re.search(r"(?:seed|\bset_\w+)\Z|\A(?:random|heapq|bisect)\.", name) is None:
                yield from guard_while_compiling(site)
        elif "time function" in site.gb_type or site.in_context(
            r"module: (time), qualname: (?!sleep)"
        ):
            yield code_fix("Read the clock outside the compiled function, around its call")
        else:
            yield call_before(site, name)
            if is_native and not _is_standard(site):
                title = f"If `{name}` computes tensors, wrap it with `torch.library.custom_op` and `register_fake`"
                yield code_fix(title, "PyTorch user guide: custom operators")
        yield OWN_FUNCTION


def _is_left_over(site: BreakSite) -> bool:
    """The bound method of a tensor, which torch keeps over a break in the method's arguments."""
    return site.in_context(r"module: <unknown module>, qualname: (Tensor\.)") is not None


def _is_standard(site: BreakSite) -> bool:
    """The function belongs to Python or torch, so it has no tensor code to wrap."""
    root = (site.in_context(r"module: ([^,]+),") or "").partition(".")[0]
    return root in sys.stdlib_module_names or root in ("torch", "<unknown module>")


def _function(site: BreakSite) -> str:
    """The function that torch names, or the one that the line calls."""
    module, qualname = site.in_context(r"module: ([\w.]+),"), site.in_context(r"qualname: ([\w.]+)")
    if qualname:
        return f"{module}.{qualname}" if module and module != "builtins" else qualname
    return site.named

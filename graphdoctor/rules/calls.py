"""Rules about calls that torch doesn't trace: GD101, GD105 to GD110."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable
from typing import Literal

from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.run import Setting
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.toolkit import (
    OWN_FUNCTION,
    BreakRule,
    BreakSite,
    Fixes,
    call_before,
    call_fix,
    code_fix,
    from_setting,
    guard_while_compiling,
    setting,
    shortened,
)

_LOGGER = re.compile(r"method: <(?:RootLogger root|\w+ (?P<name>[\w.]+)) \(\w+\)>\.(?P<method>\w+)")
_QUERY = re.compile(r"is|has|get|set|add|remove")
"""Logger methods that query or configure: dropping such a call would change what the program
does."""
_REORDERABLE = frozenset({"ConstantVariable", "TensorVariable", "StringFormatVariable"})
"""Variables that torch can print later; it can't print a size or a list later
(``torch/_dynamo/variables/misc.py``, 2.13)."""
_WRITERS = (
    "sys.stdout.write",
    "sys.stderr.write",
    "sys.stdout.flush",
    "sys.stderr.flush",
    "pprint.pprint",
    "pprint",
)


class PrintOrLog(BreakRule, code="GD101"):
    """Printing, logging or warning inside the compiled region.

    ## What it finds
    A call to `print`, a logger, `warnings.warn` or `sys.stdout.write` in code that torch.compile
    traces.

    ## Why it costs
    Output is a side effect, so torch can't put it in a graph. Dynamo ends the graph before the
    call, runs the call in Python, and starts a new graph after it. In a loop, a `try` or most
    `with` blocks, it skips the whole function.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        print("in forward")
        return y.cos()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin()
        torch._higher_order_ops.print("in forward")
        return y.cos()
    ```
    It prints when the graph runs, and takes a format and tensors: `print("norm {:.2f}", norm)`.
    `graphdoctor fix` writes it, and gives logs and warnings an operator of their own.

    Or configure how Dynamo treats the function.
    `torch.compiler.config.reorderable_logging_functions.add(print)` prints after the graph has run,
    if only tensors, strings and numbers are printed.
    `torch._dynamo.config.ignore_logging_functions.add(fn)` drops the call in compiled code.

    ## Fix safety
    The tensors stay the same. Reordered output comes later, which is safe. An operator keeps the
    text, but by a private name of torch's. Output that is ignored is missing from a compiled call.
    `--unsafe-fixes` tries both, and says what is lost.

    ## Source
    PyTorch user guide, "Common graph breaks"; `torch/_dynamo/config.py`, 2.11 to 2.15
    (`reorderable_logging_functions`, `ignore_logging_functions`).
    """

    def matches(self, site: BreakSite) -> bool:
        return _output_call(site) is not None

    def message(self, site: BreakSite) -> str:
        logger = _LOGGER.match(site.torch_context)
        # `log.info` calls `isEnabledFor`: what matters is the call on the line.
        last = (site.called or "").rpartition(".")[2]
        if logger and _QUERY.match(logger["method"]) and (not last or _QUERY.match(last)):
            return f"{_output_call(site)} queries or configures a logger, which torch doesn't trace"
        return f"{_output_call(site)} has a side effect, so torch can't put it in a graph"

    def suggested(self, site: BreakSite) -> Fixes:
        kept = _print_in_graph if _is_print(site) else guard_while_compiling
        fixes = [*kept(site), *self._settings(site)]
        # What keeps the text comes first.
        yield from sorted(fixes, key=lambda fix: not fix.is_safe)

    def _settings(self, site: BreakSite) -> Fixes:
        if _is_print(site):
            types = re.findall(r"\.(\w+)'>", site.torch_context)
            # torch 2.13 reorders a print with keywords, 2.15 doesn't.
            has_keywords = not site.torch_context.endswith(" False")
            is_reorderable = set(types) <= _REORDERABLE and not has_keywords
            yield _in_list("reorderable" if is_reorderable else "ignore", "print")
        elif _is_warning(site):
            # torch can call a warning later that has a text alone.
            call = site.bare_call
            is_plain = call is not None and len(call.args) == 1 and not call.keywords
            yield _in_list("reorderable" if is_plain else "ignore", "warnings.warn", "warnings")
        elif logger := _logger_method(site):
            yield _in_list("ignore", logger, "logging")


def _print_in_graph(site: BreakSite) -> Fixes:
    if site.is_own_code and site.bare_call is not None:
        # torch 2.13 fails where a size in it becomes dynamic, so only a trial tells.
        title = f"Keep `{shortened(site.statement)}` in the graph, in an operator that"
        yield code_fix(f"{title} `fix --unsafe-fixes` writes")


def _in_list(setting: Literal["reorderable", "ignore"], function: str, *imports: str) -> Fix:
    """Return a function in one of torch's two lists of what may be called later, or not at all."""
    name = f"torch._dynamo.config.{setting}_logging_functions"
    what = (
        f"drop `{function}` while compiling"
        if setting == "ignore"
        else f"call `{function}` after the graph has run"
    )
    made = Setting(name=name, member=function, imports=imports)
    return from_setting(made, f"Let torch {what}", is_safe=not made.drops_output)


def _logger_method(site: BreakSite) -> str | None:
    """Return the logger's method as an expression that is valid anywhere, from torch's ``<Logger
    name (LEVEL)>.method``.
    """
    match = _LOGGER.match(site.torch_context)
    if match and _QUERY.match(match["method"]):
        return None
    if match:
        logger = f'"{match["name"]}"' if match["name"] else ""
        return f"logging.getLogger({logger}).{match['method']}"
    name = site.called
    # torch can ignore a function of the logging module; a method needs its logger.
    return name if name and name.startswith("logging.") and name.count(".") == 1 else None


def _is_print(site: BreakSite) -> bool:
    return site.torch_context.startswith("builtin print ")


def _is_warning(site: BreakSite) -> bool:
    return site.in_context(r"module: (_?warnings), qualname: warn\b") is not None


def _output_call(site: BreakSite) -> str | None:
    if _is_print(site):
        return "`print`"
    if _is_warning(site):
        return "`warnings.warn`"
    name = site.called
    # A module-level logging.info() and a wrapped logger break inside the standard library's logging
    # package.
    is_inside = site.is_inside("/logging/__init__.py")
    if site.cause.torch_id == "GB0291" or "logging.Logger" in site.gb_type or is_inside:
        return f"the logger call `{name}`" if name else "a logger call"
    return f"`{name}`" if name in _WRITERS else None


_OF_FILE = (
    r"(\Abuiltin open|call_method"
    r" UserDefinedObjectVariable\((?:TextIOWrapper|Buffered\w+|FileIO)\)) "
)


class SkippedFunction(BreakRule, code="GD105"):
    """A call to a function that Dynamo doesn't trace.

    ## What it finds
    A call to a function on Dynamo's skip list, such as much of the standard library, `torch.save`
    and progress bars, or to a function written in C or C++, which has no bytecode to trace: clocks,
    the `random` module, locks, files.

    ## Why it costs
    Dynamo ends the graph, calls the function in Python, and starts a new graph after it. In a loop,
    a `try` or most `with` blocks, it skips the whole function.

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
    Unsafe: what the function does happens at another time, or not at all. Passing a value in is
    safe if the caller computes the same value.

    ## Source
    PyTorch user guide, "Skipped functions" and "Common graph breaks";
    `torch/_dynamo/trace_rules.py`, 2.11 to 2.15.
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
        loop = f"loop over `{site.looped_over}` outside the compiled function"
        if _is_left_over(site):
            yield code_fix("Fix the other break on this line first: it causes this one")
        elif site.called == "open":
            yield code_fix("Read or write the file outside the compiled function")
        elif name.endswith("__iter__"):
            yield code_fix(f"Compile the step, not the loop: {loop}")
        elif "tqdm" in name:
            kept = "and keep the progress bar outside the compiled function"
            yield code_fix(f"Loop over the argument of `{name}`, {kept}")
        else:
            yield from self._moved(site, name, is_native=is_native)
            yield OWN_FUNCTION

    def _moved(self, site: BreakSite, name: str, *, is_native: bool) -> Fixes:
        if site.bare_call is not None:
            yield code_fix(f"Move `{shortened(site.statement)}` out of the compiled function")
            # Later operations need what sets a state, such as a seed, or changes an argument, such
            # as a shuffle.
            if re.search(r"(?:seed|\bset_\w+)\Z|\A(?:random|heapq|bisect)\.", name) is None:
                needless = "if nothing needs what it does"
                yield from (fix.replace(condition=needless) for fix in guard_while_compiling(site))
            return
        is_clock = site.in_context(r"module: (time), qualname: (?!sleep)") is not None
        if is_clock or "time function" in site.gb_type:
            yield code_fix("Read the clock outside the compiled function, around its call")
            return
        yield call_before(site, name)
        # Python's and torch's own functions have no tensor code to wrap.
        module = site.in_context(r"module: ([^,]+),") or ""
        roots = {module.partition(".")[0], name.partition(".")[0]}
        if not roots.isdisjoint((*sys.stdlib_module_names, "torch", "<unknown module>")):
            return
        if is_native:
            wrapped = "wrap it with `torch.library.custom_op` and `register_fake`"
            title = f"If `{name}` computes tensors, {wrapped}"
            yield code_fix(title, "PyTorch user guide: custom operators")
        elif re.fullmatch(r"[\w.]+", name):
            yield _nonstrict(name)


def _is_left_over(site: BreakSite) -> bool:
    """Return whether it is the bound method of a tensor, which torch keeps over a break in the
    method's arguments.
    """
    return site.in_context(r"module: <unknown module>, qualname: (Tensor\.)") is not None


def _function(site: BreakSite) -> str:
    """Return the function that torch names, or the one that the line calls."""
    module, qualname = site.in_context(r"module: ([\w.]+),"), site.in_context(r"qualname: ([\w.]+)")
    if qualname:
        return f"{module}.{qualname}" if module and module != "builtins" else qualname
    return site.named


class DisabledFunction(BreakRule, code="GD106"):
    """A call to a function that is excluded from torch.compile.

    ## What it finds
    A call to a function under `torch.compiler.disable` from code that torch.compile traces.

    ## Why it costs
    The graph ends before the call, and a new one starts after it. The function and everything it
    calls run eagerly; with `recursive=False`, what it calls is compiled by itself.

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
    gives the same results. Keep it around code with many graph breaks. What nonstrict_trace
    puts in the graph mustn't read or change anything but its arguments: torch doesn't guard on it.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0098.
    """

    torch_ids = ("GB0098",)
    gb_type = r".*torch\.compiler\.disable\(\)`d function"
    says = "`{site.disabled}` is under `torch.compiler.disable`, so it runs eagerly"

    def matches(self, site: BreakSite) -> bool:
        # Of a module, torch says so in its explanation only.
        is_module = "wrapped with `torch.compiler.disable`" in (site.cause.explanation or "")
        return is_module or super().matches(site)

    def suggested(self, site: BreakSite) -> Fixes:
        name = site.disabled if site.called else "the function"
        title = f"Remove `torch.compiler.disable` from `{name}` if torch can trace it now"
        yield code_fix(title, "torch's hint for GB0098")
        is_function = site.cause.torch_id in self.torch_ids and site.is_traced
        if site.called is not None and is_function:
            yield _nonstrict(site.called)

    def fixes(self, site: BreakSite) -> Fixes:
        # The target itself can be disabled: then torch traces no line of it, and the edit is the
        # same.
        return tuple(self.suggested(site)) if site.entry.origin == "user" else ()


def _nonstrict(name: str) -> Fix:
    """Suggest to put a function in the graph as one call, which torch doesn't look into."""
    return code_fix(
        f"Put `{name}` under `torch._dynamo.nonstrict_trace`, which keeps it in the graph",
        "PyTorch user guide: torch.compile, non-strict tracing",
        condition="if it does nothing but compute tensors from its arguments",
    )


_CALLS = ("graph_break", "skip_frame", "step_unsupported")


class ExplicitGraphBreak(BreakRule, code="GD107"):
    """A call that breaks the graph or skips the function on purpose.

    ## What it finds
    `torch._dynamo.graph_break()`, `skip_frame()` and `step_unsupported()` in code that
    torch.compile traces: your own call, or that of a library, which is then named.

    ## Why it costs
    `graph_break` splits the graph at that line. Each part has its own guards and is compiled and
    launched separately. The others leave the lines of the function, or those after the call, to
    eager mode; functions called there are compiled by themselves.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin()
        return y.cos()
    ```
    Keep it if it saves more than it costs: around a small part that recompiles often, it keeps the
    large part from recompiling.

    ## Fix safety
    Results stay the same. It is marked unsafe because someone put the break there on purpose.

    ## Source
    `torch/_dynamo/decorators.py`, 2.11 to 2.15; torch's own hints for GB0025 and GB4297.
    """

    torch_ids = ("GB0025", "GB4297", "GB0275")
    gb_type = r"Call to `torch\._dynamo\."

    def message(self, site: BreakSite) -> str:
        call = f"`{site.called}()`" if site.called else "a call here"
        effect = "breaks the graph" if site.cause.torch_id == "GB0025" else "skips the function"
        caller = site.entry if _is_in_line(site) else site.stack[-1]
        return (
            f"{call} {effect} on"
            f" purpose{'' if caller.origin == 'user' else f', in {_named(caller)}'}"
        )

    def suggested(self, site: BreakSite) -> Fixes:
        if _is_in_line(site):
            is_break = site.cause.torch_id == "GB0025"
            why = "unless it keeps a large part from recompiling with a small one"
            title, condition = f"Remove the call to `{site.called}`", why if is_break else None
            yield code_fix(title, "torch's hint for GB0025", condition=condition)


def _is_in_line(site: BreakSite) -> bool:
    """Return whether the line itself makes the call, perhaps under a name of its own; torch traces
    no function of its decorators.
    """
    return (site.called or "").endswith(_CALLS) or not site.is_deeper


def _named(entry: StackEntry) -> str:
    if entry.origin == "torch":
        return "torch"
    return f"`{entry.package}`" if entry.package else "a library"


class Deepcopy(BreakRule, code="GD108"):
    """`copy.deepcopy` of a tensor or of an object that contains one.

    ## What it finds
    `copy.deepcopy`, or `copy.copy` of a tensor, in code that torch.compile traces. torch can trace
    copies of containers without tensors, but not copies of tensors, modules or containers with
    tensors.

    ## Why it costs
    Dynamo ends the graph, makes the copy in Python, and starts a new graph after it.

    ## Example
    ```python
    import copy

    import torch

    def forward(x):
        y = x.sin()
        kept = copy.deepcopy(y.detach())
        return y.cos() + kept

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin()
        kept = y.detach().clone()
        return y.cos() + kept
    ```
    Copy modules and configurations once, outside the compiled function.

    ## Fix safety
    `clone()` is safe for a single tensor. (`deepcopy` of a tensor that isn't a leaf fails in eager
    mode too.) In a container, clone each shared tensor only once, so that it stays shared.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own messages for GB4198 and GB0179.
    """

    torch_ids = ("GB4198", "GB0179")
    gb_type = ".*deepcopy"
    says = "`{site.named}` copies a tensor in Python"
    remedies = (
        code_fix("Clone the tensors that you need, with `.detach().clone()`"),
        code_fix("Copy modules and configurations once, outside the compiled function"),
    )

    def matches(self, site: BreakSite) -> bool:
        # Whoever owns it: a log of others may not say where Python is, and a copy.py of torch
        # copies nothing.
        is_inside = any(
            entry.function in ("copy", "deepcopy")
            and entry.file.replace("\\", "/").endswith("/copy.py")
            for entry in site.stack
        )
        return is_inside or super().matches(site)


_FORMATTED = r"\Aexample_value type: str; op: call_function"
"""Of ``"%s" % y``."""
_TEXT = re.compile(
    r"StringFormatVariable|object of type 'str' has no len|sq_contains not implemented for str$"
)
_UNKNOWN = "a value in it that is unknown while tracing, such as a tensor's"


class UnsupportedCall(BreakRule, code="GD109"):
    """A call that Dynamo doesn't support.

    ## What it finds
    A call to a builtin such as `exec`, a method of an object written in C, or a NumPy function
    without a torch version; and text with a tensor's value in it, such as `str(t)` or an f-string,
    where the program does more than pass it on.

    ## Why it costs
    Dynamo ends the graph, makes the call in Python, and starts a new graph after it. In a loop, a
    `try` or most `with` blocks, it skips the whole function.

    ## Example
    ```python
    import numpy as np
    import torch

    def forward(x):
        y = x.sin()
        table = np.interp(np.arange(8.0), [0.0, 7.0], [0.0, 1.0])
        return y * torch.from_numpy(table).float()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin()
        return y * (torch.arange(8.0) / 7.0)
    ```
    Or make the call outside the compiled function and pass the result in.

    ## Fix safety
    Unsafe: a different function can return another dtype or differ in the last bits.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0059, GB0156, GB0147 and
    GB0294.
    """

    torch_ids = (
        "GB0059",
        "GB0156",
        "GB0294",
        "GB0147",
        "GB0148",
        "GB9493",
        "GB4818",
        "GB0569",
        "GB0193",
    )
    gb_type = (
        r"Failed to trace builtin operator|Unsupported (?:method|function) call|attempted to trace"
        r" numpy function "
        r"unsupported by PyTorch|C-implemented special method|call to a callable object with no"
        r" traceable __call__"
        r"|repr\(\) on tensor|invalid call to builtin op handler|Unhandled args for method"
        r"|Attempted to a str\(\) method implemented in C/C\+\+"
    )

    context = rf"{_FORMATTED}|{_TEXT.pattern}"

    def message(self, site: BreakSite) -> str:
        if "numpy function" in site.gb_type:
            return f"`{site.named}` is a NumPy function that torch can't trace"
        if _needs_text(site):
            is_known = "TensorVariable" in site.torch_context
            what = "a tensor's value in it, as" if is_known else _UNKNOWN
            return f"`{site.shown}` needs text with {what} in an f-string"
        if _is_text(site):
            return (
                f"`{site.named}` turns a tensor's values into text, so torch can't put it in a"
                " graph"
            )
        return (
            "torch doesn't support"
            f" {'' if isinstance(site.node, ast.Attribute) else 'the call '}`{site.named}`"
        )

    def suggested(self, site: BreakSite) -> Fixes:
        if _is_text(site) or _needs_text(site):
            yield code_fix("Return the tensor and make the text outside the compiled function")
        elif site.bare_call is not None:
            yield code_fix(f"Move `{shortened(site.statement)}` out of the compiled function")
        elif "numpy function" in site.gb_type:
            yield code_fix(f"Replace `{site.named}` with torch operations")
        else:
            yield call_before(site, site.named)
        yield OWN_FUNCTION


def _needs_text(site: BreakSite) -> bool:
    """Return whether the line uses text that torch only formats after the graph has run."""
    return _TEXT.search(site.torch_context) is not None


def _is_text(site: BreakSite) -> bool:
    is_str = site.torch_context.startswith(("builtin str ", "builtin repr ", "builtin format "))
    is_formatted = re.search(_FORMATTED, site.torch_context) is not None
    return (
        site.gb_type == "repr() on tensor"
        or is_formatted
        or (is_str and "TensorVariable" in site.torch_context)
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
"""Contexts that torch enters in the graph."""


class UnsupportedContextManager(BreakRule, code="GD110"):
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
            return (
                f"torch can't enter {f'a `{kind}`' if kind else 'a context manager'} in"
                f" `{site.named}`"
            )
        entered = _entered(items)
        named = f", a `{kind}`" if kind and kind not in entered else ""
        return (
            f"torch can't enter {'the context manager' if len(items) == 1 else 'one of'}"
            f" `{entered}`{named}"
        )

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
            f"Enter `{_entered(items)}` around the call to the compiled function{made}{used}"
        )


def _kind(site: BreakSite) -> str | None:
    return site.in_context(r"(?:UserDefinedObjectVariable\(|ConstantVariable\((?=device:))(\w+)")


def _items(site: BreakSite) -> list[ast.withitem]:
    """Return what the ``with`` at the line enters and can be to blame; nothing if there is no
    ``with``.
    """
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


def _entered(items: Iterable[ast.withitem]) -> str:
    return shortened(", ".join(ast.unparse(item.context_expr) for item in items))

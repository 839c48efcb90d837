"""GD101: printing or logging inside the compiled region."""

from __future__ import annotations

import re
from typing import Literal

from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.run import Setting
from graphdoctor.rules.toolkit import (
    BreakRule,
    BreakSite,
    Fixes,
    from_setting,
    guard_while_compiling,
)

_LOGGER = re.compile(r"method: <(?:RootLogger root|\w+ (?P<name>[\w.]+)) \(\w+\)>\.(?P<method>\w+)")
_QUERY = re.compile(r"is|has|get|set|add|remove")
"""Logger methods that query or configure: dropping such a call would change what the program
does."""
_REORDERABLE = frozenset({"ConstantVariable", "TensorVariable", "StringFormatVariable"})
"""What torch can print later; it can't print a size or a list later
(``torch/_dynamo/variables/misc.py``, 2.13)."""
_WRITERS = (
    "sys.stdout.write",
    "sys.stderr.write",
    "sys.stdout.flush",
    "sys.stderr.flush",
    "pprint.pprint",
    "pprint",
)


class PrintOrLog(BreakRule):
    """Printing, logging or warning inside the compiled region.

    ## What it finds
    A call to `print`, a logger, `warnings.warn` or `sys.stdout.write` in code that torch.compile
    traces.

    ## Why it costs
    Output is a side effect, so torch can't put it in a graph. Dynamo ends the graph before the
    call, runs the call in Python, and starts a new graph after it. In a loop, a `try` or a `with`,
    it skips the whole function.

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
        if not torch.compiler.is_compiling():
            print("in forward")
        return y.cos()
    ```
    Or configure how Dynamo treats the function.
    `torch.compiler.config.reorderable_logging_functions.add(print)` prints after the graph has run,
    if only tensors, strings and numbers are printed.
    `torch._dynamo.config.ignore_logging_functions.add(fn)` drops the call in compiled code.

    ## Fix safety
    Safe: the tensors stay the same. In a compiled call, the output is missing (guarded or ignored)
        or comes later
    (reordered).

    ## Source
    PyTorch user guide, "Common graph breaks"; `torch/_dynamo/config.py`, 2.13
    (`reorderable_logging_functions`, `ignore_logging_functions`).
    """

    def matches(self, site: BreakSite) -> bool:
        return _output_call(site) is not None

    def message(self, site: BreakSite) -> str:
        logger = _LOGGER.match(site.torch_context)
        # `log.info` calls `isEnabledFor`: what matters is the call on the line.
        name = site.called
        is_query = name is None or _QUERY.match(name.rpartition(".")[2]) is not None
        if logger and _QUERY.match(logger["method"]) and is_query:
            return f"{_output_call(site)} queries or configures a logger, which torch doesn't trace"
        return f"{_output_call(site)} has a side effect, so torch can't put it in a graph"

    def suggested(self, site: BreakSite) -> Fixes:
        yield from guard_while_compiling(site, is_safe=True)
        if _is_print(site):
            yield _listed("reorderable" if _is_reorderable(site) else "ignore", "print")
        elif _is_warning(site):
            # torch can call a warning later that has a text alone.
            call = site.bare_call
            is_plain = call is not None and len(call.args) == 1 and not call.keywords
            yield _listed("reorderable" if is_plain else "ignore", "warnings.warn", "warnings")
        elif logger := _logger_method(site):
            yield _listed("ignore", logger, "logging")


def _listed(setting: Literal["reorderable", "ignore"], function: str, *imports: str) -> Fix:
    """A function in one of torch's two lists of what may be called later, or not at all."""
    name = f"torch._dynamo.config.{setting}_logging_functions"
    what = (
        f"drop `{function}` while compiling"
        if setting == "ignore"
        else f"call `{function}` after the graph has run"
    )
    return from_setting(
        Setting(name=name, member=function, imports=imports), f"Let torch {what}", is_safe=True
    )


def _logger_method(site: BreakSite) -> str | None:
    """The logger's method as an expression that is valid anywhere, from torch's ``<Logger name
    (LEVEL)>.method``.
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


def _is_reorderable(site: BreakSite) -> bool:
    types = re.findall(r"\.(\w+)'>", site.torch_context)
    # torch 2.13 reorders a print with keywords, 2.15 doesn't.
    return set(types) <= _REORDERABLE and site.torch_context.endswith(" False")


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

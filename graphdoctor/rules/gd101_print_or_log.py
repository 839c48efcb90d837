"""GD101: output inside the compiled region."""

from __future__ import annotations

import re
from typing import ClassVar

from graphdoctor.diagnosis.lines import called_name, in_context
from graphdoctor.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.diagnosis.suggestions import from_setting, guard_while_compiling
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.run import Setting

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"
_LOGGER = re.compile(r"method: <(?:RootLogger root|\w+ (?P<name>[\w.]+)) \(\w+\)>\.(?P<method>\w+)")
_QUERY = re.compile(r"is|has|get|set|add|remove")
"""A logger's methods that answer or configure: without them the program goes another way."""
_REORDERABLE = frozenset({"ConstantVariable", "TensorVariable", "StringFormatVariable"})
"""What torch can print later; a size or a list cannot wait (``torch/_dynamo/variables/misc.py``, 2.13)."""
_WRITERS = ("sys.stdout.write", "sys.stderr.write", "sys.stdout.flush", "sys.stderr.flush", "pprint.pprint", "pprint")


class PrintOrLog(BreakRule):
    """Printing, logging or warning inside the compiled region.

    ## What it finds
    A call of `print`, of a logger, of `warnings.warn` or of `sys.stdout.write` in code that torch.compile traces.

    ## Why it costs
    Output is a side effect that a graph cannot hold. Dynamo ends the graph before the call, runs the call in Python
    and starts another graph behind it; inside a loop, a `try` or a `with` it gives up the whole function.

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
    import torch

    def forward(x):
        y = x.sin()
        if not torch.compiler.is_compiling():
            print("in forward")
        return y.cos()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```
    Or tell Dynamo what to do with the function: `torch._dynamo.config.reorderable_logging_functions.add(print)` prints
    after the graph has run, as long as only tensors, strings and numbers are printed;
    `torch._dynamo.config.ignore_logging_functions.add(fn)` drops the call while compiled.

    ## Fix safety
    Safe: the tensors computed are the same. The output is absent (guarded, ignored) or later (reordered) in a
    compiled call.

    ## Source
    PyTorch user guide, "Common graph breaks"; `torch/_dynamo/config.py`, 2.13 (`reorderable_logging_functions`,
    `ignore_logging_functions`).
    """

    code: ClassVar = "GD101"
    name: ClassVar = "print-or-log"
    severity: ClassVar = "warning"

    def matches(self, site: BreakSite) -> bool:
        """By what is called: several registry ids stand for it, and each stands for other calls too."""
        return _what_speaks(site) is not None

    def message(self, site: BreakSite) -> str:
        """Which function puts something out."""
        logger = _LOGGER.match(site.cause.context or "")
        # `log.info` asks `isEnabledFor` inside: what the line calls is what speaks.
        name = called_name(site)
        is_asked = name is None or _QUERY.match(name.rpartition(".")[2]) is not None
        if logger and _QUERY.match(logger["method"]) and is_asked:
            return f"{_what_speaks(site)} asks or sets up a logger, which torch does not trace"
        return f"{_what_speaks(site)} puts something out, which a graph cannot hold"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """A guard for one's own line; torch's settings for every other."""
        guard = guard_while_compiling(site, is_safe=True)
        if _is_print(site):
            return (*guard, _reorder("print") if _is_reorderable(site) else _ignore("print"))
        if _is_warning(site):
            return (*guard, _reorder("warnings.warn", "warnings"))
        logger = _logger_method(site)
        return (*guard, _ignore(logger, "logging")) if logger else guard


def _reorder(function: str, *imports: str) -> Fix:
    chosen = Setting(name="torch._dynamo.config.reorderable_logging_functions", member=function, imports=imports)
    return from_setting(chosen, f"Let torch call `{function}` after the graph has run", is_safe=True, source=_GUIDE)


def _ignore(function: str, *imports: str) -> Fix:
    chosen = Setting(name="torch._dynamo.config.ignore_logging_functions", member=function, imports=imports)
    return from_setting(chosen, f"Let torch drop `{function}` while compiling", is_safe=True, source=_GUIDE)


def _logger_method(site: BreakSite) -> str | None:
    """The logger's method as it can be named anywhere, from torch's ``<Logger name (LEVEL)>.method``."""
    match = _LOGGER.match(site.cause.context or "")
    if match and _QUERY.match(match["method"]):
        return None
    if match:
        logger = f'"{match["name"]}"' if match["name"] else ""
        return f"logging.getLogger({logger}).{match['method']}"
    name = called_name(site)
    # torch ignores a function of the logging module; a method is found by its logger only.
    return name if name and name.startswith("logging.") and name.count(".") == 1 else None


def _is_print(site: BreakSite) -> bool:
    return (site.cause.context or "").startswith("builtin print ")


def _is_reorderable(site: BreakSite) -> bool:
    types = re.findall(r"\.(\w+)'>", site.cause.context or "")
    # 2.13 reorders a print with keywords, 2.15 does not.
    return set(types) <= _REORDERABLE and (site.cause.context or "").endswith(" False")


def _is_warning(site: BreakSite) -> bool:
    return in_context(site, r"module: (_?warnings), qualname: warn\b") is not None


def _what_speaks(site: BreakSite) -> str | None:
    if _is_print(site):
        return "`print`"
    if _is_warning(site):
        return "`warnings.warn`"
    name = called_name(site)
    # A module-level logging.info() and a wrapped logger break inside the standard library's logging package.
    is_inside_logging = any(
        entry.origin == "stdlib" and entry.file.replace("\\", "/").endswith("/logging/__init__.py")
        for entry in site.records[0].stack
    )
    if site.cause.torch_id == "GB0291" or "logging.Logger" in site.cause.gb_type or is_inside_logging:
        return f"the logger call `{name}`" if name else "a logger call"
    return f"`{name}`" if name in _WRITERS else None

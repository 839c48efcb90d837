"""GD101: output inside the compiled region."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.model.diagnosis import Fix
from graphdoctor.rules.base import BreakRule, BreakSite
from graphdoctor.rules.wording import called_name, guard_while_compiling

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"


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
    after the graph has run; `torch._dynamo.config.ignore_logging_functions.add(fn)` drops the call while compiled.

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
        return f"{_what_speaks(site)} puts something out, which a graph cannot hold"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """A guard for one's own line; torch's settings for every other."""
        if _is_print(site):
            by_config = Fix(
                title="Let torch print after the graph has run",
                kind="config",
                snippet="torch._dynamo.config.reorderable_logging_functions.add(print)",
                is_safe=True,
                source=_GUIDE,
            )
        elif _is_warning(site):
            by_config = Fix(
                title="Let torch warn after the graph has run",
                kind="config",
                snippet="torch._dynamo.config.reorderable_logging_functions.add(warnings.warn)",
                is_safe=True,
                source=_GUIDE,
            )
        else:
            by_config = _ignore(site)
        guard = guard_while_compiling(site, source=_GUIDE, is_safe=True) if site.is_own_code else ()
        return (*guard, by_config)


def _ignore(site: BreakSite) -> Fix:
    """The logger's method in ``ignore_logging_functions``."""
    name = called_name(site) or "logger.info"
    return Fix(
        title=f"Let torch drop `{name}` while compiling",
        kind="config",
        snippet=f"torch._dynamo.config.ignore_logging_functions.add({name})",
        is_safe=True,
        source=_GUIDE,
    )


def _is_print(site: BreakSite) -> bool:
    return (site.cause.context or "").startswith("builtin print ")


def _is_warning(site: BreakSite) -> bool:
    return "module: _warnings," in (site.cause.context or "")


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
    if name in ("sys.stdout.write", "sys.stderr.write", "sys.stdout.flush", "sys.stderr.flush"):
        return f"`{name}`"
    return None

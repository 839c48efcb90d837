"""GD103: a tensor's value read into Python."""

from __future__ import annotations

import ast
from typing import ClassVar

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.rules.diagnosis.lines import called_name, expression_node, shortened
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.rules.diagnosis.suggestions import setting

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"
_CASTS = ("int", "float", "bool")
_COMPARISONS = {"torch.equal": "(a == b).all()", "torch.allclose": "torch.isclose(a, b).all()"}
"""Functions that return a Python bool, and tensor operations that compute the same."""


class ScalarRead(BreakRule, code="GD103", name="scalar-read", severity="warning"):
    """A tensor's value read into a Python number.

    ## What it finds
    `.item()`, `int(t)`, `float(t)`, `bool(t)`, `.tolist()`, `range(t)`, `math.sqrt(t)`, `torch.equal(a, b)` or another
    call that needs a tensor's value as a Python number, in code that torch.compile traces.

    ## Why it costs
    The number is known only after the tensor has been computed. Dynamo ends the graph, reads the value, which
    synchronizes with a GPU, and continues in a new graph. That graph has a guard on the number it saw, so the next
    value causes a recompile before torch makes the number dynamic.

    ## Example
    ```python
    import torch

    def forward(x):
        scale = x.abs().max().item()
        return x / scale

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        scale = x.abs().max()
        return x / scale

    def inputs():
        return (torch.randn(4, 8),)
    ```
    If you need the number itself, set `torch.compiler.config.capture_scalar_outputs = True` to capture the read in the
    graph.

    ## Fix safety
    Unsafe: `.item()` stops gradients, and a tensor lets them flow through the value. Add `.detach()` if they must not.
    Results can differ in the last bits, because Python computes in double precision.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0124, GB0109 and GB0033.
    """

    torch_ids: ClassVar = frozenset({"GB0124", "GB0109", "GB0033"})

    def matches(self, site: BreakSite) -> bool:
        gb_type, context = site.cause.gb_type, site.cause.context or ""
        is_range = context.startswith("builtin range ") and "TensorVariable" in context
        is_read = gb_type.startswith(("Unsupported Tensor.item()", "Tensor.tolist()", "Data dependent operator"))
        return super().matches(site) or is_read or is_range

    def message(self, site: BreakSite) -> str:
        return f"`{shortened(site.expression)}` reads a tensor's value into Python"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        if "tolist()" in site.cause.gb_type:
            title = "Keep the tensor and index it; only a list of integers can be captured"
            return (Fix(title=title, kind="code", source="torch's hint for GB0109"),) if site.is_own_code else ()
        keep = Fix(title=_keep(site), kind="code", source=_GUIDE)
        # torch can capture item() and tolist() as dynamic numbers; `math.sqrt(t)` needs the value itself.
        if not _is_captured(site):
            return (keep,) if site.is_own_code else ()
        capture = setting(
            "capture_scalar_outputs", "Let torch capture the read as a dynamic number", source="torch's hint for GB0124"
        )
        return (keep, capture) if site.is_own_code else (capture,)


def _is_captured(site: BreakSite) -> bool:
    if "Tensor.item()" in site.cause.gb_type:
        return not isinstance(expression_node(site), ast.Subscript)
    name = called_name(site)
    return name is not None and name.rpartition(".")[2] == "tolist"


def _keep(site: BreakSite) -> str:
    tree, name = expression_node(site), called_name(site)
    if name in _COMPARISONS:
        return f"Compare in the graph: `{_COMPARISONS[name]}`"
    if name in _CASTS:
        return f"Keep the tensor: drop the call of `{name}` and compute with it"
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute) and tree.func.attr in ("item", "tolist"):
        return f"Keep the tensor: drop `.{tree.func.attr}()` and compute with it"
    if name is not None and name.startswith("math."):
        return f"Use `torch.{name.removeprefix('math.')}` instead of `{name}`"
    if name == "range":
        return "Give the loop a fixed number of steps that doesn't depend on a tensor"
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        return f"Use `torch.logical_not({shortened(ast.unparse(tree.operand))})` instead of `not`"
    if isinstance(tree, ast.Subscript):
        return "Index a tensor instead of the Python sequence"
    return "Keep the value in a tensor and use torch operations on it"

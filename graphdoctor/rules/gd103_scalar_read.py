"""GD103: a tensor's value read into Python."""

from __future__ import annotations

import ast

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix, setting, shortened

_CASTS = ("int", "float", "bool")
_COMPARISONS = {"torch.equal": "(a == b).all()", "torch.allclose": "torch.isclose(a, b).all()"}
"""Functions that return a Python bool, and tensor operations that compute the same."""


class ScalarRead(BreakRule):
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
    def forward(x):
        scale = x.abs().max()
        return x / scale
    ```
    If you need the number itself, set `torch.compiler.config.capture_scalar_outputs = True` to capture the read in the
    graph.

    ## Fix safety
    Unsafe: `.item()` stops gradients, and a tensor lets them flow through the value. Add `.detach()` if they must not.
    Results can differ in the last bits, because Python computes in double precision.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own hints for GB0124, GB0109 and GB0033.
    """

    torch_ids = ("GB0124", "GB0109", "GB0033")
    gb_type = r"Unsupported Tensor\.item\(\)|Tensor\.tolist\(\)|Data dependent operator"
    context = r"(?s)\Abuiltin range .*TensorVariable"
    says = "`{site.shown}` reads a tensor's value into Python"

    def suggested(self, site: BreakSite) -> Fixes:
        if "tolist()" in site.gb_type:
            title = "Keep the tensor and index it; only a list of integers can be captured"
            yield code_fix(title, "torch's hint for GB0109")
            return
        yield code_fix(_keep(site))
        # torch can capture item() and tolist() as dynamic numbers; `math.sqrt(t)` needs the value itself.
        if _is_captured(site):
            title = "Let torch capture the read as a dynamic number"
            yield setting("capture_scalar_outputs", title, "torch's hint for GB0124")


def _is_captured(site: BreakSite) -> bool:
    if "Tensor.item()" in site.gb_type:
        return not isinstance(site.node, ast.Subscript)
    return (site.called or "").rpartition(".")[2] == "tolist"


def _keep(site: BreakSite) -> str:
    tree, name = site.node, site.called
    if name in _COMPARISONS:
        return f"Compare in the graph: `{_COMPARISONS[name]}`"
    if name in _CASTS:
        return f"Keep the tensor: drop the call of `{name}` and compute with it"
    match tree:
        case ast.Call(func=ast.Attribute(attr="item" | "tolist" as method)):
            return f"Keep the tensor: drop `.{method}()` and compute with it"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"Use `torch.logical_not({shortened(ast.unparse(operand))})` instead of `not`"
        case ast.Subscript():
            return "Index a tensor instead of the Python sequence"
    if name is not None and name.startswith("math."):
        return f"Use `torch.{name.removeprefix('math.')}` instead of `{name}`"
    if name == "range":
        return "Give the loop a fixed number of steps that doesn't depend on a tensor"
    return "Keep the value in a tensor and use torch operations on it"

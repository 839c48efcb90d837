"""GD103: a tensor's value read into Python."""

from __future__ import annotations

import ast

from graphdoctor.rules.gd102_data_dependent_branch import without_value
from graphdoctor.rules.toolkit import (
    SORT_IN_GRAPH,
    BreakRule,
    BreakSite,
    Fixes,
    code_fix,
    setting,
    shortened,
)

_INSTEAD = {
    **{name: f"Keep the tensor: drop `.{name}()`" for name in ("item", "tolist")},
    **{name: f"Keep the tensor: drop the call of `{name}`" for name in ("float", "bool")},
    "is_nonzero": "Compare in the graph: `t != 0`",
    "int": "Keep the tensor, with `.long()` instead of `int`",
    "equal": "Compare in the graph: `(a == b).all()`",
    "allclose": "Compare in the graph: `torch.isclose(a, b).all()`",
    "one_hot": "Pass `num_classes` to `one_hot`, as a number",
}
"""What to write in place of a call that reads a tensor."""
_NO_TORCH = (
    "cbrt",
    "comb",
    "dist",
    "factorial",
    "fsum",
    "gamma",
    "isqrt",
    "modf",
    "perm",
    "sumprod",
    "ulp",
)
_IN_TORCH = {**dict.fromkeys(_NO_TORCH), "fabs": "abs", "degrees": "rad2deg", "radians": "deg2rad"}
"""Functions of ``math`` that torch has under another name, or not at all."""


class ScalarRead(BreakRule):
    """A tensor's value read into a Python number.

    ## What it finds
    `.item()`, `int(t)`, `float(t)`, `bool(t)`, `.tolist()`, `range(t)`, `math.sqrt(t)`,
    `torch.equal(a, b)` or another call that needs a tensor's value as a Python number, in code that
    torch.compile traces.

    ## Why it costs
    The number is known only after the tensor has been computed. Dynamo ends the graph, reads the
    value, which synchronizes with a GPU, and continues in a new graph. That graph has a guard on
    the number it saw, so the next value causes a recompile before torch makes the number dynamic.

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
    If you need the number itself, set `torch.compiler.config.capture_scalar_outputs = True` to
    capture the read in the graph.

    ## Fix safety
    Unsafe: `.item()` stops gradients, and a tensor lets them flow through the value. Add
        `.detach()` if they must not.
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
        around = _around(site)
        if "key" in around:
            yield SORT_IN_GRAPH
            return
        yield code_fix(_keep(site, around))
        # torch can capture item() and tolist() as dynamic numbers; `math.sqrt(t)` needs the value
        # itself, as a branch and `range` do. A captured `bool` can take the wrong case of a
        # `match`, and a number that is captured in an autograd.Function ends in an error of torch's
        # own (2.13).
        is_inside = site.is_inside("_functorch/autograd_function") or bool(
            around & {"if", "check", "while", "range"}
        )
        if _is_captured(site) and site.called != "bool" and not is_inside:
            title = "Let torch capture the read as a dynamic number"
            condition = "if no branch, dict or list needs its value"
            yield setting(
                "capture_scalar_outputs", title, "torch's hint for GB0124", condition=condition
            )


def _is_captured(site: BreakSite) -> bool:
    if "Tensor.item()" in site.gb_type:
        return not isinstance(site.node, ast.Subscript)
    return (site.called or "").rpartition(".")[2] == "tolist"


def _around(site: BreakSite) -> set[str]:
    """What the statement does with the read: ``if``, ``check``, ``while``, ``range``, ``slice``,
    ``index``, ``key``.
    """
    found: set[str] = set()
    for node in ast.walk(site.statement_node or ast.Module([], [])):
        match node:
            case ast.If(test=part, body=[*_, ast.Raise()]) | ast.Assert(test=part):
                use = "check"
            case (
                ast.If(test=part)
                | ast.IfExp(test=part)
                | ast.Match(subject=part)
                | ast.comprehension(ifs=[part])
            ):
                use = "if"
            case ast.While(test=part):
                use = "while"
            case ast.Call(func=ast.Name(id="range")) as part:
                use = "range"
            case ast.Slice() as part:
                use = "slice"
            case ast.Subscript(slice=part) if not isinstance(part, ast.Slice | ast.Compare):
                use = "index"
            case ast.keyword(arg="key", value=part):
                use = "key"
            case _:
                continue
        if _is_read_in(part, site.node):
            found.add(use)
    return found


def _is_read_in(part: ast.expr, read: ast.expr | None) -> bool:
    """Whether the read is within a part of its statement; a slice itself reads a tensor among its
    bounds.
    """
    if isinstance(part, ast.Slice) and (read is None or isinstance(read, ast.Subscript)):
        return read is None or ast.dump(part) in map(ast.dump, ast.walk(read.slice))
    return read is not None and ast.dump(read) in map(ast.dump, ast.walk(part))


def _keep(site: BreakSite, around: set[str]) -> str:
    name = site.called or ""
    if "while" in around:
        return "Write the loop with `torch.while_loop`, or give it a fixed number of steps"
    if "range" in around or name == "range":
        return "Give the loop a fixed number of steps that doesn't depend on a tensor"
    if "slice" in around:
        fixed = "Slice by a number that doesn't depend on a tensor"
        return f"{fixed}, or keep all elements and choose by position with `torch.where` and `torch.arange`"
    if "index" in around:
        return "Keep a tensor instead of the Python container, and select from it with `torch.index_select`"
    match site.node, site.statement_node:
        case ast.Call(
            func=ast.Attribute(value=tensor, attr="item")
        ) as read, ast.If() as branch if "if" in around:
            # The branch by the tensor itself.
            kept = ast.parse(
                ast.unparse(branch).replace(ast.unparse(read), ast.unparse(tensor))
            ).body[0]
            if (
                isinstance(kept, ast.If)
                and (why := without_value(kept, shortened(ast.unparse(kept.test)))) is not None
            ):
                return why
    match site.node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            instead = f"Use `torch.logical_not({shortened(ast.unparse(operand))})` instead of `not`"
        case ast.Subscript():
            return "Pass the index as a Python int, or select from a tensor of numbers with `torch.index_select`"
        case ast.BinOp(left=ast.Constant(value=str())):
            return "Return the tensor and make the text outside the compiled function"
        case _:
            of, _, last = name.rpartition(".")
            instead = _INSTEAD.get(
                last, "Keep the value in a tensor and use torch operations on it"
            )
            if of == "math" and (known := _IN_TORCH.get(last, last)):
                instead = f"Use `torch.{known}` instead of `{name}`"
    only = ", if only tensor arithmetic uses it" if instead.startswith("Keep the tensor") else ""
    choice = ", and choose by it with `torch.where`" if "if" in around else only
    return instead + (", in an `assert` of one condition" if "check" in around else choice)

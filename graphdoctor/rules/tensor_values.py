"""Rules about values of tensors that Python needs: GD103, GD104, GD119, GD123."""

from __future__ import annotations

import ast

from graphdoctor.rules.branches import holds
from graphdoctor.rules.toolkit import (
    NO_VALUE_NEEDED,
    SORT_IN_GRAPH,
    BreakRule,
    BreakSite,
    Fixes,
    code_fix,
    setting,
    shortened,
)

_KEPT = {
    **{name: f"Keep the tensor: drop `.{name}()`" for name in ("item", "tolist")},
    **{name: f"Keep the tensor: drop the call of `{name}`" for name in ("float", "bool")},
    "int": "Keep the tensor, with `.long()` instead of `int`",
}
"""Replacement of a read whose tensor can stand in its place where it's only computed with."""
_INSTEAD = {
    **_KEPT,
    "is_nonzero": "Compare in the graph: `t != 0`",
    "equal": "Compare in the graph: `(a == b).all()`",
    "allclose": "Compare in the graph: `torch.isclose(a, b).all()`",
    "one_hot": "Pass `num_classes` to `one_hot`, as a number",
}
"""Replacement of a call that reads a tensor."""
_IN_USE = {
    "while": "Write the loop with `torch.while_loop`, or give it a fixed number of steps",
    "range": "Give the loop a fixed number of steps that doesn't depend on a tensor",
    "slice": (
        "Slice by a number that doesn't depend on a tensor, or keep all elements and choose by"
        " position with `torch.where` and `torch.arange`"
    ),
    "index": (
        "Keep a tensor instead of the Python container, and select from it with"
        " `torch.index_select`"
    ),
}
"""What to do where the number is needed for more than arithmetic."""


class ScalarRead(BreakRule, code="GD103"):
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
    `.detach()` if they must not. Results can differ in the last bits, because Python computes in
    double precision.

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
        uses = _uses(site)
        if "key" in uses:
            yield SORT_IN_GRAPH
            return
        yield code_fix(_keep(site, uses))
        # torch can capture item() and tolist() as dynamic numbers; `math.sqrt(t)` needs the value
        # itself, as a branch and `range` do. A captured `bool` can take the wrong case of a
        # `match`, and a number that is captured in an autograd.Function ends in an error of torch's
        # own (2.13).
        needs_value = site.is_inside("_functorch/autograd_function") or bool(
            uses & {"if", "while", "range"}
        )
        is_captured = (site.called or "").rpartition(".")[2] == "tolist"
        if "Tensor.item()" in site.gb_type:
            is_captured = not isinstance(site.node, ast.Subscript)
        if is_captured and site.called != "bool" and not needs_value:
            yield setting(
                "capture_scalar_outputs",
                "Let torch capture the read as a dynamic number",
                "torch's hint for GB0124",
                condition=NO_VALUE_NEEDED,
            )


def _uses(site: BreakSite) -> set[str]:
    """Return what the statement needs the number for: ``if``, ``while``, ``range``, ``slice``,
    ``index``, ``key``.
    """
    uses: set[str] = set()
    for node in ast.walk(site.statement_node or ast.Module([], [])):
        match node:
            case (
                ast.If(test=part)
                | ast.Assert(test=part)
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
        # A slice itself reads a tensor among its bounds.
        is_slice = use == "slice" and (site.node is None or isinstance(site.node, ast.Subscript))
        if holds(part, site.node) or (is_slice and (not site.node or holds(site.node, part))):
            uses.add(use)
    return uses


def _keep(site: BreakSite, uses: set[str]) -> str:
    """Say what to do instead of the read."""
    name = "range" if site.called == "range" else next(filter(uses.__contains__, _IN_USE), "")
    if name:
        return _IN_USE[name]
    match site.node:
        case ast.Subscript():
            return (
                "Pass the index as a Python int, or select from a tensor of numbers with"
                " `torch.index_select`"
            )
        case ast.BinOp(left=ast.Constant(value=str())):
            return "Return the tensor and make the text outside the compiled function"
    last = (site.called or "").rpartition(".")[2]
    instead = _INSTEAD.get(last, "Keep the value in a tensor and use torch operations on it")
    if "if" in uses:
        choose = "choose values by it with `torch.where`, `assert` it, or"
        return f"{instead}, and {choose} branch on it where the function is called"
    return instead + (", if only tensor arithmetic uses it" if last in _KEPT else "")


class DynamicShapeOperator(BreakRule, code="GD104"):
    """An operator whose output shape depends on a tensor's values.

    ## What it finds
    `nonzero`, `x[mask]`, `torch.where(cond)` with one argument, `unique`, `bincount`,
    `repeat_interleave` with a tensor, and `one_hot` without `num_classes`.

    ## Why it costs
    The size of the result is unknown while tracing. Dynamo ends the graph, runs the operator in
    Python, and compiles the rest for the size it saw.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        return y[y > 0].sum()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin()
        return torch.where(y > 0, y, 0.0).sum()
    ```
    Or set `torch.compiler.config.capture_dynamic_output_shape_ops = True` to capture the operator
    with a symbolic size.

    ## Fix safety
    Unsafe: `torch.where` keeps the shape, so the fill value must be neutral for all later
    operations: 0 for a sum, -inf for a maximum.

    ## Source
    PyTorch user guide, "Common graph breaks" (data-dependent operations); torch's own hints for
    GB0036 and GB0246.
    """

    torch_ids = ("GB0036", "GB0246")
    gb_type = "Dynamic shape operator"

    def message(self, site: BreakSite) -> str:
        operator = (
            "one_hot" if "one_hot" in site.gb_type else site.in_context(r"^aten\._?([a-z_]+)")
        )
        by = f" (`{operator}`)" if operator else ""
        if _is_combinations(site):
            return f"torch doesn't know the shape of `{site.shown}` until the operator has run{by}"
        return f"the shape of `{site.shown}` depends on a tensor's values{by}"

    def suggested(self, site: BreakSite) -> Fixes:
        if "one_hot" in site.gb_type:
            title = "Pass `num_classes` to `one_hot`"
            yield code_fix(title, "torch's hint for GB0246", is_safe=True)
            return
        if _is_combinations(site):
            # Their number depends on sizes alone, and torch raises an error if it captures the
            # operator (2.13).
            title = (
                "Make the combinations of positions once, outside the compiled function, and index"
                " with them"
            )
            yield code_fix(f"{title}: `t[torch.combinations(torch.arange(n))]`")
            return
        if isinstance(site.statement_node, ast.For):
            title = "Compute for all elements with tensor operations: a loop over some needs their"
            yield code_fix(f"{title} number")
            return
        if site.in_context(r"^aten\.(nonzero|masked_select|index)\b") is not None:
            title = (
                "Keep the shape: choose values by a mask with `torch.where` instead of selecting"
            )
            yield code_fix(f"{title} elements")
        yield setting(
            "capture_dynamic_output_shape_ops",
            "Let torch capture the operator with a symbolic size",
            "torch's hint for GB0036",
            condition="if no branch or loop depends on that size",
        )


def _is_combinations(site: BreakSite) -> bool:
    return (site.called or "").endswith("combinations")


class DynamicValueGuard(BreakRule, code="GD119"):
    """Code that needs the value of a size or number that torch captured as a symbol.

    ## What it finds
    `if`, `while`, `range`, `max` or another operation that needs the value of a number computed
    from a tensor: the length of `x[mask]` or `nonzero()`, or an `.item()`, captured with
    `capture_dynamic_output_shape_ops` or `capture_scalar_outputs`.

    ## Why it costs
    The number is symbolic while tracing. If Python needs its value, Dynamo ends the graph, although
    it captured the operator that computes the number.

    ## Example
    ```python
    import torch

    CONFIG = {"torch._dynamo.config.capture_dynamic_output_shape_ops": True}

    def forward(x):
        kept = x[x > 0]
        if kept.numel() > 2:
            return kept.sum()
        return kept.sum() * 0

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    CONFIG = {"torch._dynamo.config.capture_dynamic_output_shape_ops": True}

    def forward(x):
        kept = x[x > 0]
        torch._check(kept.numel() > 2)
        return kept.sum()
    ```
    `torch._check(condition)` tells torch that the condition holds, and raises at run time if it
    doesn't. `torch.fx.experimental.symbolic_shapes.guard_or_false(condition)` is false if torch
    doesn't know, without a guard.


    ## Fix safety
    Unsafe: with `torch._check`, the other branch becomes an error.

    ## Source
    PyTorch user guide, "Dynamic shapes" (data-dependent expressions);
    `torch/fx/experimental/symbolic_shapes.py`, 2.11 to 2.15 (`guard_or_false`).
    """

    guide = "PyTorch user guide: torch.compile, dynamic shapes"
    topic = "symbolic_number"

    def matches(self, site: BreakSite) -> bool:
        is_branch = site.gb_type.lower().startswith("data-dependent branch")
        return (is_branch and "SymNodeVariable" in site.torch_context) or super().matches(site)

    def message(self, site: BreakSite) -> str:
        condition = _condition(site)
        shown = shortened(ast.unparse(condition) if condition else site.expression)
        return f"`{shown}` needs the value of a number that is symbolic here"

    def suggested(self, site: BreakSite) -> Fixes:
        statement, condition = site.statement_node, _condition(site)
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise):
            title = "Replace `if` and `raise` with a check of the opposite in the graph,"
            yield code_fix(f"{title} `torch._check`")
            return
        # `not` of a captured bool needs its value, in a check too.
        if condition is None or isinstance(condition, ast.UnaryOp):
            title = (
                "Compute the number before calling the compiled function, or use a tensor instead"
            )
            yield code_fix(title)
            return
        test = shortened(ast.unparse(condition))
        yield code_fix(
            f"If `{test}` always holds, or never does, tell torch first, with `torch._check`"
        )
        yield code_fix(
            "If one branch is right for every value, choose it with `guard_or_false` of "
            "`torch.fx.experimental.symbolic_shapes`"
        )


def _condition(site: BreakSite) -> ast.expr | None:
    """Return the condition on the number, or None if the line doesn't branch."""
    statement, pointed = site.statement_node, site.node
    if isinstance(statement, ast.If | ast.Assert):
        return statement.test
    is_test = isinstance(pointed, ast.Compare) and not isinstance(statement, ast.While)
    return pointed if is_test else None


class SortByTensor(BreakRule, code="GD123"):
    """`sorted` or `list.sort` with tensors as keys.

    ## What it finds
    `sorted`, `list.sort`, or `min` and `max` with a key, that compare tensors in code that
    torch.compile traces.

    ## Why it costs
    The order depends on the tensors' values. Dynamo ends the graph, reads every key, each of which
    synchronizes with a GPU, and continues in a new graph that is compiled for that order.

    ## Example
    ```python
    import torch

    def forward(x):
        low, high = sorted([x.sum(), x.mean()])
        return low - high

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    def forward(x):
        low, high = torch.stack([x.sum(), x.mean()]).sort().values
        return low - high
    ```

    ## Fix safety
    Unsafe: only tensors of the same shape can be stacked, and NaN sorts to the end.

    ## Source
    torch's own hints for GB0207; `torch.sort` in the API reference.
    """

    torch_ids = ("GB0207", "GB5687")
    gb_type = "(?:sort|min/max) with non-constant key"
    context = r"_call_min_max .*'key'"
    says = "`{site.shown}` compares tensors' values in Python"
    remedies = (SORT_IN_GRAPH,)

"""Rules about values of tensors that Python needs: GD103, GD104, GD119, GD123."""

from __future__ import annotations

import ast

from graphdoctor.rules.branches import without_value
from graphdoctor.rules.toolkit import (
    NO_VALUE_NEEDED,
    SORT_IN_GRAPH,
    BreakRule,
    BreakSite,
    Fixes,
    code_fix,
    rewritten,
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
        is_captured = (site.called or "").rpartition(".")[2] == "tolist"
        if "Tensor.item()" in site.gb_type:
            is_captured = not isinstance(site.node, ast.Subscript)
        if is_captured and site.called != "bool" and not is_inside:
            title = "Let torch capture the read as a dynamic number"
            yield setting(
                "capture_scalar_outputs",
                title,
                "torch's hint for GB0124",
                condition=NO_VALUE_NEEDED,
            )


def _around(site: BreakSite) -> set[str]:
    """Return what the statement does with the read: ``if``, ``check``, ``while``, ``range``,
    ``slice``, ``index``, ``key``.
    """
    uses: set[str] = set()
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
            uses.add(use)
    return uses


def _is_read_in(part: ast.expr, read: ast.expr | None) -> bool:
    """Return whether the read is within a part of its statement; a slice itself reads a tensor
    among its bounds.
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
        return (
            f"{fixed}, or keep all elements and choose by position with `torch.where` and"
            " `torch.arange`"
        )
    if "index" in around:
        return (
            "Keep a tensor instead of the Python container, and select from it with"
            " `torch.index_select`"
        )
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
    only = ""
    match site.node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            instead = f"Use `torch.logical_not({shortened(ast.unparse(operand))})` instead of `not`"
        case ast.Subscript():
            return (
                "Pass the index as a Python int, or select from a tensor of numbers with"
                " `torch.index_select`"
            )
        case ast.BinOp(left=ast.Constant(value=str())):
            return "Return the tensor and make the text outside the compiled function"
        case _:
            of, _, last = name.rpartition(".")
            instead = _INSTEAD.get(
                last, "Keep the value in a tensor and use torch operations on it"
            )
            only = ", if only tensor arithmetic uses it" if last in _KEPT else ""
            if of == "math" and (known := _IN_TORCH.get(last, last)):
                instead = f"Use `torch.{known}` instead of `{name}`"
    choice = ", and choose by it with `torch.where`" if "if" in around else only
    return instead + (", in an `assert` of one condition" if "check" in around else choice)


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
        operator = site.in_context(r"^aten\._?([a-z_]+)") or (
            "one_hot" if "one_hot" in site.gb_type else None
        )
        by = f" (`{operator}`)" if operator else ""
        if _is_combinations(site):
            return f"torch doesn't know the shape of `{site.shown}` until the operator has run{by}"
        return f"the shape of `{site.shown}` depends on a tensor's values{by}"

    def suggested(self, site: BreakSite) -> Fixes:
        if "one_hot" in site.gb_type:
            yield code_fix(
                "Pass `num_classes` to `one_hot`", "torch's hint for GB0246", is_safe=True
            )
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
            yield code_fix(
                "Compute for all elements with tensor operations: a loop over some needs their"
                " number"
            )
            return
        if site.in_context(r"^aten\.(nonzero|masked_select|index)\b") is not None:
            yield code_fix(
                "Keep the shape: choose values by a mask with `torch.where` instead of selecting"
                " elements"
            )
        title = "Let torch capture the operator with a symbolic size"
        condition = "if no branch or loop depends on that size"
        yield setting(
            "capture_dynamic_output_shape_ops",
            title,
            "torch's hint for GB0036",
            condition=condition,
        )


def _is_combinations(site: BreakSite) -> bool:
    return (site.called or "").endswith("combinations")


_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}


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
    `torch/fx/experimental/symbolic_shapes.py`, 2.13 (`guard_or_false`).
    """

    guide = "PyTorch user guide: torch.compile, dynamic shapes"
    topic = "symbolic_number"

    def matches(self, site: BreakSite) -> bool:
        is_branch = site.gb_type.lower().startswith("data-dependent branch")
        return (is_branch and "SymNodeVariable" in site.torch_context) or super().matches(site)

    def message(self, site: BreakSite) -> str:
        return f"`{_shown(site)}` needs the value of a number that is symbolic here"

    def suggested(self, site: BreakSite) -> Fixes:
        statement, condition = site.statement_node, _condition(site)
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise):
            opposite = _opposite(statement.test)
            title = f"Replace `if {_shown(site)}: raise` with a check in the graph, `torch._check`"
            is_only = opposite is not None and len(statement.body) == 1 and not statement.orelse
            yield rewritten(site, f"torch._check({opposite})" if is_only else None, title)
            return
        # `not` of a captured bool needs its value, in a check too.
        if condition is None or isinstance(condition, ast.UnaryOp):
            yield code_fix(
                "Compute the number before calling the compiled function, or use a tensor instead"
            )
            return
        test = ast.unparse(condition)
        # An empty selection is what a program excludes.
        opposite = _opposite(condition) if test.endswith(" == 0") else None
        often = "never" if opposite else "always"
        title = f"If `{shortened(test)}` {often} holds, tell torch first, with `torch._check`"
        yield rewritten(site, f"torch._check({opposite or test})", title, where="before")
        yield code_fix(
            "If one branch is right for every value, choose it with `guard_or_false` of "
            "`torch.fx.experimental.symbolic_shapes`"
        )


def _condition(site: BreakSite) -> ast.expr | None:
    """Return the condition on the number, or None if the line doesn't branch."""
    statement, pointed = site.statement_node, site.node
    if isinstance(statement, ast.If | ast.Assert):
        return statement.test
    return (
        pointed
        if isinstance(pointed, ast.Compare) and not isinstance(statement, ast.While)
        else None
    )


def _shown(site: BreakSite) -> str:
    condition = _condition(site)
    return shortened(ast.unparse(condition) if condition else site.expression)


def _opposite(test: ast.expr) -> str | None:
    """Return the opposite of a single comparison; None for any other expression."""
    if (
        not isinstance(test, ast.Compare)
        or len(test.ops) != 1
        or type(test.ops[0]) not in _OPPOSITES
    ):
        return None
    return ast.unparse(ast.Compare(test.left, [_OPPOSITES[type(test.ops[0])]()], test.comparators))


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

"""GD102: Python control flow on a tensor's value."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Literal

from graphdoctor.facts.fixes import Fix
from graphdoctor.rules.toolkit import (
    OUTSIDE,
    BreakRule,
    BreakSite,
    Fixes,
    call_fix,
    code_fix,
    shortened,
)

_PYTHON_CALLS = frozenset({"all", "any", "getattr", "hasattr", "isinstance", "len"})

Kind = Literal[
    "if", "effect", "ternary", "while", "raise", "assert", "filter", "case", "boolean", "inside"
]
_WHAT: Mapping[Kind, str] = {
    "while": "the `while` condition",
    "raise": "raising an exception",
    "assert": "the assertion",
    "filter": "which elements are kept",
    "case": "the `case`",
}
_AT_CALLER = code_fix(
    "Return what the condition is computed from, and take the branch where the function is called"
)
_CHOOSE = (
    code_fix(
        "Choose between the values of both branches with `torch.where`",
        condition="if both only compute tensors of one shape, or numbers for tensor arithmetic",
    ),
    code_fix(
        "Keep both branches in the graph with `torch.cond`",
        condition="if both only compute tensors",
    ),
    _AT_CALLER.replace(condition="if a branch does anything else"),
)
_HOW: Mapping[Kind, tuple[Fix, ...]] = {
    "effect": (_AT_CALLER,),
    "while": (
        code_fix(
            "Write the loop with `torch.while_loop`, or give it a fixed number of steps",
            "torch/_higher_order_ops/while_loop.py, 2.11 to 2.15",
        ),
    ),
    "raise": (
        code_fix(
            "Replace `if` and `raise` with an `assert` of one condition, which torch keeps in the"
            " graph, and leave what Python can answer in an `if`"
        ),
    ),
    "assert": (
        code_fix(
            "Give the `assert` one condition, on a tensor, and a constant message: then torch keeps"
            " it in the graph"
        ),
    ),
    "filter": (
        code_fix(
            "Keep every element and weight it by the condition, so that their number is fixed"
        ),
    ),
    "boolean": (
        code_fix(
            "Combine truth values with `torch.logical_and`, `torch.logical_or` and"
            " `torch.logical_not`, and choose between other values with `torch.where`"
        ),
    ),
    "inside": (call_fix("Call it outside the compiled function"),),
}


class DataDependentBranch(BreakRule, code="GD102"):
    """A branch whose condition is a tensor.

    ## What it finds
    `if`, `while`, `assert`, `and`/`or` or a conditional expression whose condition is computed from
    a tensor's values.

    ## Why it costs
    The branch is known only after the tensor has been computed. Dynamo ends the graph at the
    condition, reads the value in Python, which synchronizes with a GPU, and compiles a separate
    graph for each branch that is taken.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        if y.sum() > 0:
            y = y * 2
        return y.cos()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin()
        y = torch.where(y.sum() > 0, y * 2, y)
        return y.cos()
    ```
    If the branches differ too much for `torch.where`, use `torch.cond(pred, true_fn, false_fn,
    operands)` to keep both in the graph. Replace `if bad: raise` with `assert ~bad, "why"`: torch
    keeps an assertion in the graph if it has one condition and its message is a constant.

    If the condition reads only globals of the module, compute `bool(condition)` outside the
    compiled function, and pass that in: torch then compiles the branch that is taken, and
    recompiles when another one is. A tensor that is passed in breaks the graph at the same line. If
    the condition changes often, `torch.where` needs no recompile.

    ## Fix safety
    Unsafe: `torch.where` computes both sides. If one side has a side effect, it always happens. If
    one side gives NaN for values that the branch was meant to exclude, gradients become NaN too.

    ## Source
    PyTorch user guide, "Common graph breaks" (data-dependent operations); torch's own hints for
    GB0170.
    """

    torch_ids = ("GB0170",)
    gb_type = "(?i)data-dependent (?:branch|assert)"
    topic = "tensor_truth"

    def matches(self, site: BreakSite) -> bool:
        # An assertion that fails for every input, such as one on a number of dims, raises while
        # torch traces it.
        return super().matches(site) and not re.search(
            "SymNodeVariable|jump with Constant", site.torch_context
        )

    def message(self, site: BreakSite) -> str:
        kind, condition = _branch(site)
        shown = f"`{_shown(site, kind, condition)}`"
        if kind == "boolean":
            return f"{shown} reads a tensor's truth value in Python"
        if kind == "inside":
            return f"`{site.named}` branches on a tensor's value internally"
        whose = "a NumPy array's" if _is_of_numpy(site) else "a tensor's"
        return f"{_WHAT.get(kind, 'the branch')} depends on {whose} value: {shown}"

    def suggested(self, site: BreakSite) -> Fixes:
        if not site.is_own_code:
            yield OUTSIDE
            return
        kind, condition = _branch(site)
        if kind in ("if", "effect", "ternary") and _is_of_module(site, condition):
            # A tensor that is passed in would break the graph at the same line.
            answer = f"bool({_shown(site, kind, condition)})"
            title = f"Compute `{answer}` before calling the compiled function, and pass that in"
            yield code_fix(title, condition="if it seldom changes")
        if _is_of_numpy(site):
            yield code_fix("Use tensors in place of NumPy's arrays first")
        if kind == "inside" and site.called in ("any", "all"):
            own = f"Use the tensor's own `{site.called}`; `torch.stack` makes one tensor of several"
            yield code_fix(own)
        else:
            yield from _HOW.get(kind, _CHOOSE)


def _is_of_numpy(site: BreakSite) -> bool:
    """Return whether the condition is of a NumPy array: torch traces it as a tensor, but
    ``torch.where`` doesn't take it.
    """
    return "NumpyNdarrayVariable" in site.torch_context


def _is_of_module(site: BreakSite, condition: ast.expr | None) -> bool:
    """Return whether the condition reads nothing but names of the module."""
    nodes = ast.walk(condition) if condition is not None else ()
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    module_names = site.context.module_names if site.context is not None else ()
    return bool(names) and names.issubset((*module_names, *_PYTHON_CALLS))


def _shown(site: BreakSite, kind: Kind, condition: ast.expr | None) -> str:
    if kind == "case" and site.text.startswith("case "):
        return shortened(re.sub(r"^case |:[^:]*$", "", site.text))
    return shortened(ast.unparse(condition) if condition is not None else site.expression)


def _branch(site: BreakSite) -> tuple[Kind, ast.expr | None]:
    """Return the kind of branch and its condition; None if that can't be parsed."""
    if site.is_deeper:
        return "inside", None
    value, statement = site.node, site.statement_node
    pointed = value if site.is_pointed else None
    match statement:
        case ast.While(test=test):
            return "while", test
        case ast.Assert(test=test):
            return "assert", test
        case ast.If(test=test, body=body, orelse=other) if pointed is None or holds(test, pointed):
            if any(isinstance(branch[-1], ast.Raise) for branch in (body, other) if branch):
                return "raise", test
            return ("effect" if any(map(_has_effect, (*body, *other))) else "if"), test
        case ast.Match() if not site.text.startswith("match "):
            return "case", value
    for node in ast.walk(statement) if statement else ():
        match node:
            case ast.IfExp(test=test) if holds(test, pointed) or holds(pointed, node):
                return "ternary", test
            case ast.comprehension(ifs=tests):
                for test in tests:
                    # Python 3.11 points to the call around a generator expression.
                    if pointed is None or holds(test, pointed) or holds(pointed, test):
                        return "filter", test
    return ("boolean" if isinstance(value, ast.BoolOp | ast.UnaryOp) else "if"), value


def _has_effect(statement: ast.stmt) -> bool:
    """Return whether a statement of a branch does what can't be chosen by its value: it calls a
    function for what that does, such as ``print(x)`` or ``seen.append(x)``, or leaves the branch.

    A tensor's method whose name ends in an underscore computes in place.
    """
    for node in ast.walk(statement):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))) if name.endswith("_"):
                continue
            case (
                ast.Expr(value=ast.Call())
                | ast.Break()
                | ast.Continue()
                | ast.Delete()
                | ast.Raise()
            ):
                return True
    return False


def holds(tree: ast.AST | None, part: ast.AST | None) -> bool:
    """Return whether a part, or code like it, is in a tree."""
    if tree is None or part is None:
        return False
    return ast.dump(part) in map(ast.dump, ast.walk(tree))

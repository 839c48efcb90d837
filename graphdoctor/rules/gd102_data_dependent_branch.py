"""GD102: Python control flow on a tensor's value."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import ClassVar, Literal

from graphdoctor.diagnosis.lines import called_name, expression_node, is_pointed, shortened, statement_node
from graphdoctor.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.model.diagnosis import Fix

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"

Kind = Literal["if", "ternary", "while", "raise", "assert", "filter", "boolean", "inside"]


@dataclass(frozen=True)
class _Branch:
    """What branches, and on which condition; None if the source doesn't show it."""

    kind: Kind
    condition: ast.expr | None
    where: str | None = None


class DataDependentBranch(BreakRule):
    """A branch whose condition is a tensor.

    ## What it finds
    `if`, `while`, `assert`, `and`/`or` or a conditional expression whose condition is computed from a tensor's values.

    ## Why it costs
    The branch is known only after the tensor has been computed. Dynamo ends the graph at the condition, reads the value
    in Python, which synchronizes with a GPU, and compiles a separate graph for each branch that is taken.

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
    import torch

    def forward(x):
        y = x.sin()
        y = torch.where(y.sum() > 0, y * 2, y)
        return y.cos()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```
    If the branches differ too much for `torch.where`, use `torch.cond(pred, true_fn, false_fn, operands)` to keep both
    in the graph. Move a condition that never changes out of the compiled function. Replace `if bad: raise` with
    `torch._assert_async(~bad)`.

    ## Fix safety
    Unsafe: `torch.where` computes both sides. If one side has a side effect, it always happens. If one side gives NaN
    for values that the branch was meant to exclude, gradients become NaN too.

    ## Source
    PyTorch user guide, "Common graph breaks" (data-dependent operations); torch's own hints for GB0170.
    """

    code: ClassVar = "GD102"
    name: ClassVar = "data-dependent-branch"
    severity: ClassVar = "warning"
    torch_ids: ClassVar = frozenset({"GB0170"})

    def matches(self, site: BreakSite) -> bool:
        """By id, or by the name in other torch versions. A branch on a dynamic size belongs to another rule."""
        gb_type = site.cause.gb_type.lower()
        is_branch = super().matches(site) or gb_type.startswith(("data-dependent branch", "data-dependent assert"))
        return is_branch and "SymNodeVariable" not in (site.cause.context or "")

    def message(self, site: BreakSite) -> str:
        """Which condition depends on a tensor."""
        branch = _branch(site)
        condition = f"`{_condition(site, branch)}`"
        match branch.kind:
            case "while":
                return f"the `while` condition depends on a tensor's value: {condition}"
            case "raise":
                return f"raising an exception depends on a tensor's value: {condition}"
            case "assert":
                return f"the assertion depends on a tensor's value: {condition}"
            case "filter":
                return f"which elements are kept depends on a tensor's value: {condition}"
            case "boolean":
                return f"{condition} reads a tensor's truth value in Python"
            case "inside":
                return f"`{called_name(site) or shortened(site.expression)}` branches on a tensor's value internally"
            case _:
                return f"the branch depends on a tensor's value: {condition}"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """What the kind of branch allows. Edits only for the user's own files."""
        if not site.is_own_code:
            return (_fix("Call this part of the package outside the compiled function", kind="call"),)
        branch = _branch(site)
        condition = _condition(site, branch)
        tensor = ast.unparse(_as_tensor(branch.condition)) if branch.condition else "condition"
        match branch.kind:
            case "while":
                return (
                    _fix(
                        "Write the loop with `torch.while_loop`, or give it a fixed number of steps",
                        source="torch/_higher_order_ops/while_loop.py, 2.13",
                    ),
                )
            case "raise":
                return (_check(f"Replace `if {condition}: raise`", ast.unparse(_negated(branch.condition))),)
            case "assert":
                return (_check(f"Replace `assert {condition}`", tensor),)
            case "filter":
                return (_fix(f"Keep every element and weight it by `{condition}`, so that their number is fixed"),)
            case "boolean":
                return (_fix(f"Combine the tensors: `{tensor}`", snippet=tensor),)
            case "inside":
                return _fixes_inside(site)
            case kind:
                what = f"if {condition}" if kind == "if" else f"… if {condition} else …"
                where = _fix(
                    f"Replace `{what}` with `torch.where({shortened(tensor)}, …, …)`",
                    snippet=branch.where or f"torch.where({tensor}, …, …)",
                )
                cond = _fix(
                    "Keep both branches in the graph with `torch.cond`",
                    snippet=f"torch.cond({tensor}, true_fn, false_fn, (operands,))",
                )
                return (where, cond)


def _fix(
    title: str, *, snippet: str | None = None, kind: Literal["code", "call"] = "code", source: str = _GUIDE
) -> Fix:
    return Fix(title=title, kind=kind, snippet=snippet, source=source)


def _check(what: str, holds: str) -> Fix:
    return _fix(f"{what} with a check in the graph", snippet=f"torch._assert_async({holds})")


def _fixes_inside(site: BreakSite) -> tuple[Fix, ...]:
    name = called_name(site)
    if name in ("any", "all"):
        return (_fix(f"Use a tensor operation: `torch.stack([…]).{name}()`", snippet=f"torch.stack([…]).{name}()"),)
    return (_fix("Call it outside the compiled function", kind="call"),)


def _condition(site: BreakSite, branch: _Branch) -> str:
    return shortened(ast.unparse(branch.condition) if branch.condition else site.expression)


def _branch(site: BreakSite) -> _Branch:
    """The branch, read from the statement if it can be parsed."""
    stack = site.records[0].stack
    if stack and (stack[-1].file, stack[-1].line) != (site.entry.file, site.entry.line):
        return _Branch("inside", None)
    value, statement = expression_node(site), statement_node(site)
    pointed = value if is_pointed(site) else None
    match statement:
        case ast.While(test=test):
            return _Branch("while", test)
        case ast.Assert(test=test):
            return _Branch("assert", test)
        case ast.If(test=test) if pointed is None or _holds(test, pointed):
            is_raise = isinstance(statement.body[-1], ast.Raise) and not statement.orelse
            return _Branch("raise" if is_raise else "if", test, _where_of_if(statement))
    for node in ast.walk(statement) if statement else ():
        if isinstance(node, ast.IfExp) and (pointed is None or _holds(node.test, pointed)):
            where = ast.unparse(_where(node.test, node.body, node.orelse))
            return _Branch("ternary", node.test, where)
        if isinstance(node, ast.comprehension):
            for test in node.ifs:
                if pointed is None or _holds(test, pointed):
                    return _Branch("filter", test)
    if isinstance(value, ast.BoolOp | ast.UnaryOp):
        return _Branch("boolean", value)
    return _Branch("if", value)


def _holds(tree: ast.expr, part: ast.expr) -> bool:
    wanted = ast.dump(part)
    return any(ast.dump(node) == wanted for node in ast.walk(tree))


def _where_of_if(statement: ast.If) -> str | None:
    """The statement as one assignment, if each branch assigns the same name; otherwise None."""
    yes = _assigned(statement.body)
    no = _assigned(statement.orelse) if statement.orelse else None
    if yes is None or (statement.orelse and no is None) or (no and no[0] != yes[0]):
        return None
    name, value = yes
    other = no[1] if no else ast.Name(name, ast.Load())
    return f"{name} = {ast.unparse(_where(statement.test, value, other))}"


def _assigned(body: list[ast.stmt]) -> tuple[str, ast.expr] | None:
    match body:
        case [ast.Assign(targets=[ast.Name(id=name)], value=value)]:
            return name, value
        case [ast.AugAssign(target=ast.Name(id=name), op=op, value=value)]:
            return name, ast.BinOp(ast.Name(name, ast.Load()), op, value)
        case _:
            return None


def _where(test: ast.expr, yes: ast.expr, no: ast.expr) -> ast.expr:
    where = ast.Attribute(ast.Name("torch", ast.Load()), "where", ast.Load())
    return ast.Call(where, [_as_tensor(test), yes, no], [])


def _as_tensor(test: ast.expr) -> ast.expr:
    """The condition with ``&``, ``|`` and ``~`` instead of ``and``, ``or`` and ``not``."""
    match test:
        case ast.BoolOp(op=op, values=[first, *rest]):
            joined = _as_tensor(first)
            for value in rest:
                joined = ast.BinOp(joined, ast.BitAnd() if isinstance(op, ast.And) else ast.BitOr(), _as_tensor(value))
            return joined
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _negated(operand)
        case _:
            return test


def _negated(test: ast.expr | None) -> ast.expr:
    """The opposite; with ``~`` only if the operand is certainly boolean."""
    if test is None:
        return ast.Name("holds", ast.Load())
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _as_tensor(test.operand)
    tensor = _as_tensor(test)
    is_boolean = isinstance(test, ast.Compare | ast.BoolOp)
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute):
        is_boolean = test.func.attr in ("any", "all")
    if is_boolean:
        return ast.UnaryOp(ast.Invert(), tensor)
    logical_not = ast.Attribute(ast.Name("torch", ast.Load()), "logical_not", ast.Load())
    return ast.Call(logical_not, [tensor], [])

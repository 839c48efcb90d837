"""GD102: Python control flow on a tensor's value."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

from graphdoctor.rules.toolkit import (
    OUTSIDE,
    BreakRule,
    BreakSite,
    Fixes,
    call_fix,
    code_fix,
    rewritten,
    shortened,
    spliced,
)

_PYTHON_CALLS = frozenset(
    {"all", "any", "callable", "getattr", "hasattr", "isinstance", "issubclass", "len"}
)
"""Calls that answer without a tensor, so that they may protect what comes after them from being
computed."""
_PYTHON_PREDICATES = frozenset(
    {
        "callable",
        "hasattr",
        "is_complex",
        "is_contiguous",
        "is_floating_point",
        "is_tensor",
        "isinstance",
    }
)
_PYTHON_COMPARISONS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)

Kind = Literal["if", "ternary", "while", "raise", "assert", "filter", "case", "boolean", "inside"]
_WHAT: dict[Kind, str] = {
    "while": "the `while` condition",
    "raise": "raising an exception",
    "assert": "the assertion",
    "filter": "which elements are kept",
    "case": "the `case`",
}


@dataclass(frozen=True)
class _Branch:
    """Kind of branch, its condition, and the statement without the branch; None if the source
    doesn't show it.
    """

    kind: Kind
    condition: ast.expr | None
    rewrite: str | None = None
    is_of_numbers: bool = False
    """Both values are Python numbers."""
    case: str | None = None
    """The pattern of a `case`, and its guard if Python doesn't point into that: either can be
    meant."""

    @property
    def of_tensor(self) -> _Branch:
        """The branch, on the only part of its condition that Python can't answer without a
        tensor.
        """
        match self.condition:
            case ast.BoolOp(values=values):
                rest = [value for value in values if not _is_answered_by_python(value)]
                return replace(self, condition=rest[0]) if len(rest) == 1 else self
        return self


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
        branch = _branch(site)
        condition = f"`{_condition(site, branch.of_tensor)}`"
        match branch.kind:
            case "boolean":
                return f"{condition} reads a tensor's truth value in Python"
            case "inside":
                return f"`{site.named}` branches on a tensor's value internally"
            case kind:
                whose = "a NumPy array's" if _is_of_numpy(site) else "a tensor's"
                return f"{_WHAT.get(kind, 'the branch')} depends on {whose} value: {condition}"

    def suggested(self, site: BreakSite) -> Fixes:
        if not site.is_own_code:
            yield OUTSIDE
            return
        branch = _branch(site)
        condition = _condition(site, branch)
        outside = _outside(branch, condition)
        is_of_module = branch.kind in ("if", "ternary", "boolean") and _is_of_module(site, branch)
        if is_of_module and not _is_of_numpy(site):
            yield code_fix(outside, condition="if it seldom changes")
        match branch.kind:
            case kind if _is_of_numpy(site) and kind != "inside":
                yield code_fix(
                    f"{outside}, or pass tensors for the arrays and choose with `torch.where`"
                )
            case "while":
                title = "Write the loop with `torch.while_loop`, or give it a fixed number of steps"
                yield code_fix(title, "torch/_higher_order_ops/while_loop.py, 2.13")
            case "raise" | "assert" as kind:
                title = (
                    f"Replace `if {condition}: raise` with an `assert`, which torch keeps in the"
                    " graph"
                )
                parts = f"{title} if it has one condition, on a tensor: leave the rest in an `if`"
                if kind == "assert":
                    title = (
                        "Give the `assert` one condition and a constant message: then torch keeps"
                        " it in the graph"
                    )
                    parts = f"{title}, if that is on a tensor"
                yield rewritten(site, branch.rewrite, title, otherwise=parts)
            case "filter":
                yield code_fix(
                    f"Keep every element and weight it by `{condition}`, so that their number is"
                    " fixed"
                )
            case "boolean":
                choose = (
                    "Negate it with `torch.logical_not`"
                    if isinstance(site.node, ast.UnaryOp)
                    else "Choose the value with `torch.where`"
                )
                yield rewritten(
                    site, branch.rewrite, "Use `&`, `|` and `~` on the tensors", otherwise=choose
                )
            case "case":
                yield code_fix(
                    "Choose between the values of the cases with `torch.where`",
                    condition="if these have one shape",
                )
                yield code_fix("Keep both branches in the graph with `torch.cond`")
            case "inside" if (name := site.called) in ("any", "all"):
                choose = (
                    ", and choose by it with `torch.where`"
                    if isinstance(site.statement_node, ast.If)
                    else ""
                )
                yield code_fix(f"{_in_place_of(name, site.node)}{choose}")
            case "inside":
                yield call_fix("Call it outside the compiled function")
            case "if" if (why := without_value(site.statement_node, condition)) is not None:
                yield code_fix(why)
            case "if" | "ternary" if isinstance(branch.condition, ast.Compare) and any(
                isinstance(op, ast.In | ast.NotIn) for op in branch.condition.ops
            ):
                yield code_fix(
                    "Compare in the graph, with `==` or `torch.isin`, and choose by it with"
                    " `torch.where`"
                )
            case _ if branch.is_of_numbers:
                yield code_fix(
                    "Choose the number with `torch.where`",
                    condition="if only tensor arithmetic uses it",
                )
            case kind:
                what = f"`if {condition}`" if kind == "if" else f"the choice by `{condition}`"
                title = f"Replace {what} with `torch.where` on the values of both branches"
                when: str | None = "if these have one shape"
                protecting = branch.condition and _protecting(branch.condition)
                if protecting:
                    title = (
                        f"Keep `{shortened(protecting)}` in Python, and choose by the rest with"
                        " `torch.where`"
                    )
                    when = None
                yield rewritten(site, branch.rewrite, title, condition=when)
                yield code_fix("Keep both branches in the graph with `torch.cond`")


def _outside(branch: _Branch, condition: str) -> str:
    """Say what to pass in for a condition: a tensor would break the graph at the same line.

    Python's ``not`` gives no tensor, and what ``and`` and ``or`` give is a value of its own.
    """
    is_bool = isinstance(branch.condition, ast.UnaryOp) and isinstance(branch.condition.op, ast.Not)
    is_whole = is_bool or branch.kind in ("boolean", "case")
    answer = condition if is_whole else f"bool({condition})"
    return f"Compute `{answer}` before calling the compiled function, and pass that in"


def _is_of_numpy(site: BreakSite) -> bool:
    """Return whether the condition is of a NumPy array: torch traces it as a tensor, but
    ``torch.where`` doesn't take it.
    """
    return "NumpyNdarrayVariable" in site.torch_context


def _is_of_module(site: BreakSite, branch: _Branch) -> bool:
    """Return whether the condition reads nothing but names of the module."""
    nodes = ast.walk(branch.condition) if branch.condition is not None else ()
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    module_names = site.context.module_names if site.context is not None else ()
    return bool(names) and names.issubset((*module_names, *_PYTHON_CALLS))


def without_value(statement: ast.stmt | None, condition: str) -> str | None:
    """Return what to do with an ``if`` of which a branch has no value that could be chosen; None if
    each has one.
    """
    if not isinstance(statement, ast.If):
        return None
    outside = (
        f"Return what `{condition}` is computed from, and take the branch where the function is"
        " called"
    )
    branches = [*statement.body, *statement.orelse]
    for node in (node for branch in branches for node in ast.walk(branch)):
        match node:
            case ast.Raise():
                return (
                    "Replace the branch that raises with an `assert` of one condition, which torch"
                    " keeps in the graph"
                )
            case ast.Break() | ast.Continue():
                chosen = f"let `torch.where` choose by `{condition}` what a step changes"
                return (
                    f"Run every step of the loop, and {chosen}, if no list or shape grows with the"
                    " steps"
                )
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=target, attr=method), args=given)
            ) if method.endswith("_") and not method.startswith("_"):
                name, value = ast.unparse(target), "…"
                if method in ("copy_", "fill_") and len(given) == 1:
                    value = ast.unparse(given[0])
                written = (
                    f"{name}.copy_(torch.where({_chosen_by(statement.test) or condition}, {value},"
                    f" {name}))"
                )
                return f"Write in both cases, and choose what: `{shortened(written)}`"
            case (
                ast.Expr(value=ast.Call())
                | ast.Delete()
                | ast.Return(value=None | ast.Constant(value=None))
                | ast.Return(value=ast.Tuple(elts=[*_, ast.Constant(value=None)]))
                | ast.Assign(value=ast.Constant(value=None))
            ):
                return outside
            case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=str()))]) if (
                not statement.orelse
            ):
                return outside
    return None


def _in_place_of(name: str, call: ast.expr | None) -> str:
    """Return what to write in place of Python's ``any`` or ``all``."""
    match call:
        case ast.Call(args=[ast.List(elts=[_]) | ast.Tuple(elts=[_]) | ast.Set(elts=[_])]):
            return f"Use the tensor itself: `{name}` of one value is that value"
        case ast.Call(args=[ast.Compare() | ast.Call() | ast.UnaryOp() | ast.BinOp()]):
            return f"Use the tensor's own `{name}`"
    return f"Stack the tensors with `torch.stack`, and use the tensor's own `{name}` on them"


def _condition(site: BreakSite, branch: _Branch) -> str:
    condition = ast.unparse(branch.condition) if branch.condition else site.expression
    return shortened(branch.case or condition)


def _branch(site: BreakSite) -> _Branch:
    """Return the branch, read from the statement if it can be parsed."""
    if site.is_deeper:
        return _Branch("inside", None)
    value, statement = site.node, site.statement_node
    pointed = value if site.is_pointed else None
    match statement:
        case ast.While(test=test):
            return _Branch("while", test)
        case ast.Assert(test=test, msg=message):
            text = message.value if isinstance(message, ast.Constant) else None
            is_negated = isinstance(test, ast.UnaryOp)
            return _Branch("assert", test, _asserted(_in_graph(test, is_bool=is_negated), text))
        case ast.If(test=test) if pointed is None or _holds(test, pointed):
            match statement:
                case ast.If(body=[*before, ast.Raise(exc=raised)], orelse=[]):
                    arguments = getattr(raised, "args", ())[:1]
                    texts = (
                        argument.value
                        for argument in arguments
                        if isinstance(argument, ast.Constant)
                    )
                    # What comes before the exception would be lost.
                    holds = None if before else _in_graph(test, is_negated=True, is_bool=False)
                    return _Branch("raise", test, _asserted(holds, next(texts, None)))
            chosen = _assigned(statement.body), _assigned(statement.orelse)
            numbers = _are_numbers(*(pair and pair[1] for pair in chosen))
            return _Branch("if", test, _where_of_if(statement), numbers)
        case ast.Match() if not site.text.startswith("match "):
            is_case = site.text.startswith("case ")
            is_in_guard = not is_case or " if " in site.text.partition(site.expression)[0]
            case = None if is_in_guard else re.sub(r"^case |:[^:]*$", "", site.text)
            return _Branch("case", value, case=case)
    for node in ast.walk(statement) if statement else ():
        match node:
            case ast.IfExp(test=test, body=yes, orelse=no) if not _is_answered_by_python(test):
                if pointed is None or _holds(test, pointed) or _is(node, pointed):
                    where = _where(test, yes, no)
                    rewrite = where and spliced(site.statement, node, where)
                    return _Branch("ternary", test, rewrite, _are_numbers(yes, no))
            case ast.comprehension(ifs=tests):
                for test in tests:
                    # Python 3.11 points to the call around a generator expression.
                    if pointed is None or _holds(test, pointed) or _holds(pointed, test):
                        return _Branch("filter", test)
            case ast.BoolOp() | ast.UnaryOp() if value is not None and _is(node, value):
                combined = _in_graph(node)
                rewrite = combined and spliced(site.statement, node, f"({combined})")
                return _Branch("boolean", value, rewrite)
    return _Branch("boolean" if isinstance(value, ast.BoolOp | ast.UnaryOp) else "if", value)


def _is(node: ast.expr, other: ast.expr) -> bool:
    return ast.dump(node) == ast.dump(other)


def _holds(tree: ast.expr, part: ast.expr) -> bool:
    return any(_is(node, part) for node in ast.walk(tree) if isinstance(node, ast.expr))


# The statement without the branch. Each returns None if it isn't sure of the code.


def _where_of_if(statement: ast.If) -> str | None:
    """Return the statement as one assignment, if each branch assigns the same name."""
    yes, no = _assigned(statement.body), _assigned(statement.orelse)
    if yes is None or (statement.orelse and no is None) or (no and no[0] != yes[0]):
        return None
    name, value = yes
    protecting, test = _split(statement.test)
    where = _where(test, value, no[1] if no else ast.Name(name, ast.Load()))
    if where is None or (protecting and no is not None):
        return None
    return f"if {protecting}:\n    {name} = {where}" if protecting else f"{name} = {where}"


def _split(test: ast.expr) -> tuple[str, ast.expr]:
    """Return a test's first operands that Python answers without a tensor, such as ``mask is not
    None``, and the others.
    """
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            first = list(takewhile(_is_answered_by_python, values))
            rest = values[len(first) :]
            if first and rest:
                others = rest[0] if len(rest) == 1 else ast.BoolOp(ast.And(), rest)
                return " and ".join(map(ast.unparse, first)), others
    return "", test


def _protecting(test: ast.expr) -> str:
    """Return what Python answers first, before the tensor is needed."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=[first, *_]) if _is_answered_by_python(first):
            return ast.unparse(first)
    return _split(test)[0]


def _is_answered_by_python(test: ast.expr) -> bool:
    match test:
        case ast.Compare(ops=ops):
            return all(isinstance(op, ast.Is | ast.IsNot) for op in ops)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _PYTHON_PREDICATES
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_answered_by_python(operand)
    return False


def _assigned(body: list[ast.stmt]) -> tuple[str, ast.expr] | None:
    match body:
        case [ast.Assign(targets=[ast.Name(id=name)], value=value)]:
            return name, value
        case [ast.AugAssign(target=ast.Name(id=name), op=op, value=value)]:
            return name, ast.BinOp(ast.Name(name, ast.Load()), op, value)
    return None


def _are_numbers(*values: ast.expr | None) -> bool:
    return all(
        isinstance(value, ast.Constant) and type(value.value) in (int, float) for value in values
    )


def _where(test: ast.expr, yes: ast.expr, no: ast.expr) -> str | None:
    """Return a choice by a test; no text or container is chosen, and nothing that must not run both
    ways.
    """
    condition = _chosen_by(test)
    is_each_one = all(
        _are_numbers(value) or not isinstance(value, (ast.Constant, *_SEVERAL, *_ONCE))
        for value in (yes, no)
    )
    if condition is None or _are_numbers(yes, no) or not is_each_one:
        return None
    return f"torch.where({condition}, {ast.unparse(yes)}, {ast.unparse(no)})"


_SEVERAL = (
    *(ast.List, ast.Tuple, ast.Dict, ast.Set),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_ONCE = (ast.Lambda, ast.JoinedStr, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


def _chosen_by(test: ast.expr) -> str | None:
    """Return a test as a condition of ``torch.where``."""
    return _in_graph(test, is_bool=not isinstance(test, ast.UnaryOp))


def _asserted(holds: str | None, text: object) -> str | None:
    """Return a check in the graph, with the message if it is a constant."""
    if holds is None:
        return None
    return f"assert {holds}, {text!r}" if isinstance(text, str) else f"assert {holds}"


def _in_graph(test: ast.expr, *, is_negated: bool = False, is_bool: bool = True) -> str | None:
    """Return a test as a tensor, with ``&``, ``|`` and ``~`` instead of ``and``, ``or`` and
    ``not``.

    Args:
        test: The test.
        is_negated: Return its opposite.
        is_bool: Only if it is certainly boolean; otherwise a tensor of any dtype will do.
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _in_graph(operand, is_negated=not is_negated, is_bool=is_bool)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=right) if (
            is_negated
        ):
            # With NaN, the opposite of other comparisons isn't a comparison.
            opposite = ast.NotEq() if isinstance(op, ast.Eq) else ast.Eq()
            return ast.unparse(ast.Compare(left, [opposite], right))
        case ast.Compare(ops=[op]) if not isinstance(op, _PYTHON_COMPARISONS):
            holds = f"({ast.unparse(test)})" if is_negated else ast.unparse(test)
        case ast.Call(func=ast.Attribute(attr="any" | "all")):
            holds = ast.unparse(test)
        case ast.BoolOp(op=op, values=values):
            parts = [(value, _in_graph(value)) for value in values]
            if any(part is None or _may_protect(value) for value, part in parts):
                return None
            # `&` and `|` bind tighter than comparisons.
            holds = (" & " if isinstance(op, ast.And) else " | ").join(
                f"{part}"
                if isinstance(value, ast.Call) or f"{part}".startswith("~")
                else f"({part})"
                for value, part in parts
            )
            holds = f"({holds})" if is_negated else holds
        case ast.Compare() | ast.UnaryOp() | ast.NamedExpr():
            return None
        case _ if is_bool:
            return None
        case _:
            return f"torch.logical_not({ast.unparse(test)})" if is_negated else ast.unparse(test)
    return f"~{holds}" if is_negated else holds


def _may_protect(test: ast.expr) -> bool:
    """Return whether an operand of ``and`` or ``or`` may keep the next one from being computed for
    a good reason.
    """
    calls = (node.func for node in ast.walk(test) if isinstance(node, ast.Call))
    return any(isinstance(func, ast.Name) and func.id in _PYTHON_CALLS for func in calls)

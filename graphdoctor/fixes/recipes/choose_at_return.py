"""An early ``return`` that depends on a tensor's value: compute the rest too, and choose where it returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.branches import Comments, Step, branch_of_body, line_of, refuse_lost_comments
from graphdoctor.fixes.syntax.conditions import as_boolean_tensor, torch_call, without_parentheses
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.names import Names, is_in_place
from graphdoctor.fixes.syntax.operations import refuse_unless_tensor
from graphdoctor.fixes.syntax.place import Place, tested_at
from graphdoctor.fixes.syntax.records import is_report, touched
from graphdoctor.fixes.syntax.source import Change, SourceFile, walk


class ChooseAtReturn(Recipe):
    """``if sure: return early`` and later ``return late`` become ``return torch.where(sure, early, late)``.

    For more lines between the two than ``branch-where`` takes. Unsafe: the rest is always computed, which the early
    ``return`` was there to save, and what it prints is always printed.
    """

    name: ClassVar = "choose-at-return"
    codes: ClassVar = frozenset({"GD102"})

    def edit(self, place: Place) -> Edit:
        """The choice at every later ``return``.

        Raises:
            DeclinedError: The rest of the function does more than compute, or what it returns isn't one tensor.
        """
        source, statement = place.source, tested_at(place)
        function = source.function_of(statement)
        if not isinstance(statement, cst.If) or not isinstance(function, cst.FunctionDef):
            raise DeclinedError("no `return` depends on the condition")
        early = _early(statement)
        rest = _rest(source, statement, function)
        for line in rest:
            _refuse_effects(source, line)
        returns = list(_returns(rest))
        names = Names(source, function)
        is_early, value = names.fresh("is_early"), names.fresh("early_value")
        lines = [
            line_of(_assigned(is_early, as_boolean_tensor(statement.test, names)), Comments()),
            line_of(_assigned(value, early.value), early.comments),
        ]
        changes: list[Change] = []
        for found in returns:
            late = found.value
            if late is None:
                raise DeclinedError("a later `return` returns nothing")
            refuse_unless_tensor(late)
            chosen = torch_call("where", [cst.Name(is_early), cst.Name(value), without_parentheses(late.deep_clone())])
            changes.append((late, chosen))
        first = lines[0].with_changes(leading_lines=[line.deep_clone() for line in statement.leading_lines])
        refuse_lost_comments([statement], [first, lines[1]])
        content = source.replaced((statement, cst.FlattenSentinel([first, lines[1]])), *changes, imports=("torch",))
        return Edit(
            title="Compute the rest in any case, and choose what is returned with `torch.where`",
            content=content,
            is_safe=False,
        )


def _early(statement: cst.If) -> Step:
    """What is returned early."""
    if statement.orelse is not None:
        raise DeclinedError("the `if` has another branch")
    branch = branch_of_body(statement.body)
    if len(branch.steps) != 1 or not branch.is_returning:
        raise DeclinedError("the branch does more than return")
    refuse_unless_tensor(branch.steps[0].value)
    return branch.steps[0]


def _rest(source: SourceFile, statement: cst.If, function: cst.FunctionDef) -> Sequence[cst.BaseStatement]:
    """The lines of the function after the ``if``, the last one a ``return``."""
    if next(source.parents(statement)) is not function.body or not isinstance(function.body, cst.IndentedBlock):
        raise DeclinedError("the early `return` is inside another block")
    at = next(number for number, line in enumerate(function.body.body) if line is statement)
    rest = function.body.body[at + 1 :]
    last = rest[-1] if rest else None
    if not isinstance(last, cst.SimpleStatementLine) or not isinstance(last.body[-1], cst.Return):
        raise DeclinedError("the function doesn't end with a `return`")
    return rest


def _returns(nodes: Sequence[cst.CSTNode]) -> Iterator[cst.Return]:
    """The ``return`` statements in some lines, without those of inner functions."""
    for node in nodes:
        if isinstance(node, cst.Return):
            yield node
        elif not isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            yield from _returns(node.children)


def _refuse_effects(source: SourceFile, line: cst.CSTNode) -> None:
    """Decline if a line that would now always run does more than compute and report."""
    if is_report(source, line):
        return
    for node in walk(line):
        match node:
            case cst.Raise() | cst.Assert():
                raise DeclinedError("the rest of the function may raise")
            case cst.Yield() | cst.Await() | cst.Global() | cst.Nonlocal():
                raise DeclinedError("the rest of the function does more than compute")
            case (
                cst.AssignTarget(target=cst.Attribute() | cst.Subscript())
                | cst.AugAssign(target=cst.Attribute() | cst.Subscript())
            ):
                raise DeclinedError("the rest of the function stores into an object")
            case cst.Call() if is_in_place(node):
                raise DeclinedError("the rest of the function changes a tensor in place")
            case cst.Expr(value=cst.Call()) if not is_report(source, node):
                raise DeclinedError("the rest of the function calls something for its side effect")
    if any("." in path for path in touched(line, "self").changed):
        raise DeclinedError("the rest of the function changes an object")


def _assigned(name: str, value: cst.BaseExpression) -> cst.Assign:
    return cst.Assign([cst.AssignTarget(cst.Name(name))], without_parentheses(value))

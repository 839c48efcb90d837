"""A call whose result isn't used: skip it while torch compiles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.names import called
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import walk

_QUERY = re.compile(r"(is|has|get|set|add|remove)")
"""Methods of a logger that return something or configure it: skipping them changes what the program does."""

_CHANGES = re.compile(r"next|pop\w*|append\w*|extend|insert|add_?|update|setdefault|send|read\w*|write|get_nowait|step")
"""Calls in an argument that change something: skipping them changes what the program does."""

_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Comparison, cst.UnaryOperation)
"""Tests that need no parentheses beside ``and``."""


class GuardOutput(Recipe):
    """``print(x)`` becomes ``if not torch.compiler.is_compiling(): print(x)``.

    Safe for output, because no result depends on it. Unsafe for other calls, which may do work that the program needs.
    Either way, the compiled program prints or does less.
    """

    name: ClassVar = "guard-output"
    codes: ClassVar = frozenset({"GD101", "GD105"})

    def edit(self, place: Place) -> Edit:
        """The call under a guard.

        Raises:
            DeclinedError: Something uses the call's result, or needs what it does.
        """
        statement = place.statement
        if isinstance(statement, cst.If) and isinstance(statement.body, cst.SimpleStatementSuite):
            call, content = _guard_suite(place, statement)
        else:
            call, content = _guard_line(place)
        name = place.source.code(call.func)
        if place.finding.code == "GD101" and _QUERY.match(name.rpartition(".")[2]):
            raise DeclinedError(f"`{name}` may do more than log")
        return Edit(
            title=f"Skip `{name}(…)` while compiling",
            content=content,
            is_safe=place.finding.code == "GD101" and not any(_CHANGES.fullmatch(name) for name in _called(call)),
            drops_output=True,
        )


def _guard_line(place: Place) -> tuple[cst.Call, bytes]:
    small, line = place.small_statement, place.statement
    assert isinstance(line, cst.SimpleStatementLine)  # small_statement says so
    call = _bare_call(place, small)
    first, last = _neighbours(place, line, small, call)
    before, guarded, after = line.body[:first], line.body[first:last], line.body[last:]
    inner = [*guarded[:-1], _without_semicolon(guarded[-1])]
    lines: list[cst.BaseStatement] = [
        cst.If(
            test=_guard(),
            body=cst.IndentedBlock([cst.SimpleStatementLine(inner, trailing_whitespace=line.trailing_whitespace)]),
            leading_lines=() if before else line.leading_lines,
        )
    ]
    if before:
        kept = [*before[:-1], _without_semicolon(before[-1])]
        lines.insert(0, cst.SimpleStatementLine(kept, leading_lines=line.leading_lines))
    if after:
        lines.append(cst.SimpleStatementLine(after))
    return call, place.source.replaced((line, cst.FlattenSentinel(lines)), imports=("torch",))


def _neighbours(
    place: Place, line: cst.SimpleStatementLine, small: cst.BaseSmallStatement, call: cst.Call
) -> tuple[int, int]:
    """The range of adjacent calls to the same function on the line: torch names each line once."""
    name = place.source.code(call.func)

    def is_same(other: cst.BaseSmallStatement) -> bool:
        value = other.value if isinstance(other, cst.Expr) else None
        return isinstance(value, cst.Call) and place.source.code(value.func) == name

    first = last = list(line.body).index(small)
    while first > 0 and is_same(line.body[first - 1]):
        first -= 1
    while last + 1 < len(line.body) and is_same(line.body[last + 1]):
        last += 1
    return first, last + 1


def _guard_suite(place: Place, statement: cst.If) -> tuple[cst.Call, bytes]:
    """``if verbose: print(x)`` on one line."""
    body = statement.body.body
    if statement.orelse is not None or len(body) != 1 or not isinstance(body[0], cst.BaseSmallStatement):
        raise DeclinedError("the line contains more than the call")
    call = _bare_call(place, body[0])
    test: cst.BaseExpression = statement.test.deep_clone()
    if not isinstance(test, _ATOMS) and not test.lpar:
        test = test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return call, place.source.replaced(
        (statement.test, cst.BooleanOperation(test, cst.And(), _guard())), imports=("torch",)
    )


def _bare_call(place: Place, small: cst.CSTNode) -> cst.Call:
    if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
        raise DeclinedError("its result is used")
    # The break may be in an argument, such as a hook that is registered: then the call itself is needed.
    if place.expression is not None and place.expression is not small.value:
        raise DeclinedError("the break is inside the call's arguments")
    if any(isinstance(node, cst.NamedExpr) for node in walk(small.value)):
        raise DeclinedError("an argument of the call assigns a name")
    return small.value


def _called(call: cst.Call) -> Iterator[str]:
    """Last names of the calls in a call's arguments."""
    for argument in call.args:
        yield from (called(node) for node in walk(argument.value) if isinstance(node, cst.Call))


def _guard() -> cst.BaseExpression:
    return cst.parse_expression("not torch.compiler.is_compiling()")


def _without_semicolon(small: cst.BaseSmallStatement) -> cst.BaseSmallStatement:
    return small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)

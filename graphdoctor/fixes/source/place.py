"""Where a finding is in a file's syntax tree, and which expression torch points to there.

Comes in: a parsed file and a finding. Goes out: nodes of the file's tree, or ``DeclinedError``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.facts.stack import PROGRAM_ORIGINS
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile, Statement, decline_if, walk


@dataclass(frozen=True)
class Place:
    """Where a finding is in a file's tree.

    Args:
        source: The file.
        finding: The finding, its location in the lines of ``source``.
    """

    source: SourceFile
    finding: Finding

    @property
    def changes(self) -> tuple[GuardChange, ...]:
        """The guarded values that changed; empty if the finding isn't about a recompile."""
        return self.finding.changes

    @property
    def is_outermost(self) -> bool:
        """Whether the finding's function is the one that torch.compile was given; False if the path isn't known."""
        path = [entry for entry in self.finding.user_stack if entry.origin in PROGRAM_ORIGINS]
        return len(path) == 1

    @cached_property
    def statement(self) -> Statement:
        """The innermost statement at the finding's line."""
        found = self.source.statement_at(self.finding.location.line)
        if found is None:
            raise DeclinedError(f"line {self.finding.location.line} holds no statement")
        return found

    @cached_property
    def small_statement(self) -> cst.BaseSmallStatement:
        """The only small statement on the line; if there are several, the one that contains the expression."""
        statement = self.statement
        if not isinstance(statement, cst.SimpleStatementLine):
            raise DeclinedError("the line begins a compound statement")
        if len(statement.body) == 1:
            return statement.body[0]
        around = [self.expression, *self.source.parents(self.expression)] if self.expression is not None else []
        for small in statement.body:
            if any(node is small for node in around):
                return small
        raise DeclinedError("the line contains several statements and torch doesn't say which one it means")

    @cached_property
    def expression(self) -> cst.BaseExpression | None:
        """The expression that torch points to; None if torch gives only the line (2.11) or part of an expression."""
        location = self.finding.location
        if location.column is None:
            return None
        return self.source.expression_at(location.line, location.column, location.end_column)

    @property
    def context(self) -> str:
        """What torch adds to the cause for developers, or an empty string."""
        reasons = self.finding.reasons
        return (reasons[0].context if reasons else None) or ""


def pointed(place: Place, is_wanted: Callable[[cst.BaseExpression], bool], what: str) -> cst.BaseExpression:
    """The expression of a kind that torch points to; if torch gives only the line, the only such one on it."""
    if place.expression is not None:
        found = [place.expression]
        if place.finding.location.end_column is None:
            # It ends on another line, so it may be any expression that begins there.
            start = _start(place.source, place.expression)
            nodes = [node for node in walk(place.expression) if isinstance(node, cst.BaseExpression)]
            found = [node for node in nodes if _start(place.source, node) == start]
        found = [node for node in found if is_wanted(node)]
        decline_if(len(found) != 1, f"torch doesn't point to {what}")
        return found[0]
    line = place.finding.location.line
    found = [
        node
        for node in walk(place.statement)
        if isinstance(node, cst.BaseExpression) and _is_on(place.source, node, line) and is_wanted(node)
    ]
    decline_if(not found, f"the line doesn't contain {what}")
    # The innermost of nested expressions runs first.
    found = [node for node in found if not any(other is not node and other in walk(node) for other in found)]
    decline_if(len(found) > 1, "the line has several such expressions and torch doesn't say which one it means")
    return found[0]


def tested_at(place: Place) -> cst.If | cst.IfExp | cst.Assert:
    """What asks for a tensor's truth value at a place."""
    child: cst.CSTNode | None = place.expression
    if child is None:
        return _tested_in(place.statement)
    for parent in place.source.parents(child):
        match parent:
            case cst.If(test=test) | cst.IfExp(test=test) | cst.Assert(test=test) if test is child:
                return parent
            case cst.While(test=test) if test is child:
                raise DeclinedError("a tensor decides how long a loop runs")
            case cst.CompIf():
                raise DeclinedError("the condition decides which elements are kept")
            case cst.BooleanOperation() | cst.UnaryOperation(operator=cst.Not()):
                child = parent
            case cst.Expr():
                # If the condition is a bare name, torch points to the whole statement.
                return _tested_in(place.statement)
            case _:
                break
    raise DeclinedError("torch doesn't point to the condition of an `if`")


def only_branch(place: Place) -> tuple[cst.If, cst.FunctionDef | cst.Lambda]:
    """The ``if`` at a place, which has a single branch and is no ``elif``, and its function."""
    choice = tested_at(place)
    parent = next(place.source.parents(choice))
    if not isinstance(choice, cst.If) or choice.orelse is not None or isinstance(parent, cst.If):
        raise DeclinedError("it isn't an `if` with a single branch")
    function = place.source.function_of(choice)
    if function is None:
        raise DeclinedError("the `if` isn't in a function")
    return choice, function


def _tested_in(statement: cst.CSTNode) -> cst.If | cst.IfExp | cst.Assert:
    """The only test of a statement, for when torch gives only its line."""
    if isinstance(statement, cst.If):
        return statement
    found: list[cst.IfExp | cst.Assert] = []
    if isinstance(statement, cst.SimpleStatementLine):
        found = [node for node in walk(statement) if isinstance(node, cst.IfExp | cst.Assert)]
    decline_if(len(found) != 1, "the line doesn't say which condition is meant")
    return found[0]


def _is_on(source: SourceFile, node: cst.CSTNode, line: int) -> bool:
    position = source.position(node)
    return position.start.line <= line <= position.end.line


def _start(source: SourceFile, node: cst.CSTNode) -> tuple[int, int]:
    start = source.position(node).start
    return start.line, start.column

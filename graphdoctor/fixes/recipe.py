"""What a recipe is: a way to edit source so that a finding goes away, or the reason why it doesn't
try.

A recipe sees only the concrete syntax tree. It may be wrong about what the program means, because
each edit is tried on that very program; but if it isn't sure of an edit, it declines, by
``DeclinedError``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import libcst as cst

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.stack import PROGRAM_ORIGINS, StackEntry
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    Statement,
    decline_if,
    need,
    only,
    walk,
)
from graphdoctor.trials.replays import Equal, EqualSizes


class UnlearnedError(Exception):
    """Raised where an edit depends on what trials measure, and there were none."""


def traced_path(finding: Finding) -> list[StackEntry]:
    """List the program's lines on the path to a finding, from the function that torch.compile was
    given.

    What calls that function in eager mode is above torch's wrapper (``compile_wrapper`` in
    ``_dynamo/eval_frame.py``, 2.13 and 2.15).
    """
    path = list(finding.user_stack)
    wrappers = [
        at
        for at, entry in enumerate(path)
        if (entry.function, entry.origin) == ("compile_wrapper", "torch")
    ]
    path = path[wrappers[-1] + 1 :] if wrappers else path
    return [entry for entry in path if entry.origin in PROGRAM_ORIGINS]


Test = cst.If | cst.IfExp | cst.Assert
_NEAR = 3
"""How many lines torch's line may be off."""


@dataclass(frozen=True)
class Edit:
    """A recipe's edit: a title worded for the line, and the bytes of the whole edited file."""

    title: str
    content: bytes
    is_safe: bool = False
    drops_output: bool = False
    """Whether it may write less text, or raise another exception, where that is said."""
    redraws: bool = False
    """Whether it may draw more random numbers, where that is said."""
    is_joint: bool = False
    """Whether it's right only together with the others of its kind, of all findings."""
    reached: tuple[int, ...] = ()
    """The lines that inputs must reach for a trial to prove anything; none if any call will do."""
    skipped: int | None = None
    """The line of an ``if`` whose branch an input must skip; None if there is none."""
    raised: int | None = None
    """The line that an input must have raise, so that exceptions are compared; None if the edit is
    about none."""


@dataclass(frozen=True)
class Place:
    """A finding's position in a file's tree: its nodes, or ``DeclinedError``."""

    source: SourceFile
    finding: Finding
    equal_sizes: EqualSizes | None = field(default_factory=dict)
    """None if nothing was run to learn them."""

    def equal_to(self, node: cst.BaseExpression) -> Equal | None:
        """Find what equaled the number, or the length, that an expression gives; None if nothing
        did.

        Raises:
            DeclinedError: Two sizes of one tensor did, such as the sides of a square.
            UnlearnedError: Nothing was run to learn that.
        """
        if self.equal_sizes is None:
            raise UnlearnedError
        function = self.source.function_of(node)
        name = function.name.value if isinstance(function, cst.FunctionDef) else ""
        text = ast.unparse(ast.parse(f"({self.source.code(node)})"))
        equal = self.equal_sizes.get((str(self.source.path), name, text))
        if equal is not None and equal.is_ambiguous:
            raise DeclinedError(
                f"several sizes equal it, such as `{equal.names[0]}`, and no input tells them apart"
            )
        return equal

    def edit(self, title: str, *changes: Change, **fields: Any) -> Edit:  # noqa: ANN401 - fields of an edit
        """Make the edit that replaces nodes of the file."""
        return Edit(title, self.source.replaced(*changes), **fields)

    def moved(self, source: SourceFile, line: int) -> Place:
        """Place the finding at a line of a changed file."""
        place = {"line": line, "column": None, "end_column": None}
        location = self.finding.location.replace(**place)
        return replace(self, source=source, finding=self.finding.replace(location=location))

    @cached_property
    def statement(self) -> Statement:
        """The innermost statement at the finding's line."""
        statement = self.source.statement_at(self.finding.location.line)
        if statement is None:
            raise DeclinedError(f"line {self.finding.location.line} holds no statement")
        return statement

    @cached_property
    def small_statement(self) -> cst.BaseSmallStatement:
        """The only small statement on the line; if there are several, the one that contains the
        expression.
        """
        line = need(self.statement, cst.SimpleStatementLine, "the line begins a compound statement")
        if len(line.body) == 1:
            return line.body[0]
        several = "the line contains several statements and torch doesn't say which one it means"
        return only(self.around_expression(line.body), several)

    def around_expression(
        self, smalls: Sequence[cst.BaseSmallStatement]
    ) -> list[cst.BaseSmallStatement]:
        """Return those of some small statements that contain the expression that torch points
        to.
        """
        around = (
            [self.expression, *self.source.parents(self.expression)]
            if self.expression is not None
            else []
        )
        return [small for small in smalls if any(node is small for node in around)]

    @cached_property
    def expression(self) -> cst.BaseExpression | None:
        """The expression that torch points to; None if torch gives only the line (2.11) or part of
        an expression.
        """
        location = self.finding.location
        if location.column is None:
            return None
        return self.source.expression_at(location.line, location.column, location.end_column)

    @cached_property
    def scope(self) -> cst.FunctionDef | cst.Lambda:
        """The function or lambda around the statement."""
        function = self.source.function_of(self.statement)
        if function is None:
            raise DeclinedError("the line isn't in a function")
        return function

    @cached_property
    def function(self) -> cst.FunctionDef:
        """The function around the statement."""
        return need(
            self.source.function_of(self.statement), cst.FunctionDef, "the line isn't in a function"
        )

    @property
    def path_here(self) -> list[cst.FunctionDef]:
        """The functions of the file on the path from what torch.compile was given, outermost
        first.
        """
        # A finding's own file is relative to the project, those of its stack aren't.
        here = (self.finding.location.file, str(self.source.path))
        lines = [entry.line for entry in traced_path(self.finding) if entry.file in here]
        statements = filter(None, map(self.source.statement_at, lines))
        functions = map(self.source.function_of, statements)
        return [function for function in functions if isinstance(function, cst.FunctionDef)]

    def pointed(
        self, is_wanted: Callable[[cst.BaseExpression], object], what: str
    ) -> cst.BaseExpression:
        """Find the expression of a kind that torch points to; if torch gives only the line, the
        only such one on it.
        """
        source, location = self.source, self.finding.location
        if (expression := self.expression) is not None:
            # Without its end, it ends on another line, so it may be any expression that begins
            # there.
            nodes = walk(expression) if location.end_column is None else [expression]
            start = source.start(expression)
            pointed = [
                node
                for node in nodes
                if isinstance(node, cst.BaseExpression) and source.start(node) == start
            ]
            matching = [node for node in pointed if is_wanted(node)]
            return only(matching, f"torch doesn't point to {what}", "elsewhere")
        candidates = []
        for node in walk(self.statement):
            if isinstance(node, cst.BaseExpression) and is_wanted(node):
                at = source.position(node)
                if at.start.line <= location.line <= at.end.line:
                    candidates.append(node)
        decline_if(not candidates, f"the line doesn't contain {what}", "elsewhere")
        # The innermost of nested expressions runs first.
        innermost = [
            node
            for node in candidates
            if not any(other is not node and other in walk(node) for other in candidates)
        ]
        several = "the line has several such expressions and torch doesn't say which one it means"
        return only(innermost, several)

    def pointed_call(self, is_wanted: Callable[[cst.Call], object], what: str) -> cst.Call:
        """As ``pointed``, for calls."""
        return need(
            self.pointed(lambda node: isinstance(node, cst.Call) and is_wanted(node), what),
            cst.Call,
            what,
        )

    def nearby_call(self, name: str) -> cst.Call:
        """Find the method's call that torch points to, or the only one a few lines off: its line
        may be.
        """

        def is_wanted(call: cst.Call) -> bool:
            return self.source.method_name(call) == name

        try:
            return self.pointed_call(is_wanted, f"a call to `{name}`")
        except DeclinedError as error:
            # Another operator's line is off as well, but that isn't this one's.
            contexts = [reason.context or "" for reason in self.finding.reasons]
            decline_if(
                any("aten." in text and f"aten.{name}" not in text for text in contexts),
                error.reason,
                error.kind,
            )
            line = self.finding.location.line
            calls = [
                node for node in walk(self.scope) if isinstance(node, cst.Call) and is_wanted(node)
            ]
            near = [call for call in calls if abs(self.source.start(call)[0] - line) <= _NEAR]
            return only(near, error.reason, error.kind)

    @cached_property
    def tested(self) -> Test:
        """Find the statement or expression that needs a tensor's truth value."""
        child = self.expression
        if child is None:
            return self._only_test
        if isinstance(child, cst.IfExp):
            # Python points to all of it unless the condition is a comparison.
            return child
        for parent in self.source.parents(child):
            match parent:
                case cst.If(test=test) | cst.IfExp(test=test) | cst.Assert(test=test) if (
                    test is child
                ):
                    return parent
                case cst.While(test=test) if test is child:
                    raise DeclinedError("a tensor decides how long a loop runs")
                case cst.CompIf():
                    raise DeclinedError("the condition decides which elements are kept")
                case cst.BooleanOperation() | cst.UnaryOperation(operator=cst.Not()):
                    child = parent
                case cst.Expr():
                    # If the condition is a bare name, torch points to the whole statement.
                    return self._only_test
                case _:
                    break
        raise DeclinedError("torch doesn't point to the condition of an `if`", "elsewhere")

    @property
    def _only_test(self) -> Test:
        if isinstance(self.statement, cst.If):
            return self.statement
        nodes = walk(self.statement) if isinstance(self.statement, cst.SimpleStatementLine) else ()
        tests = [node for node in nodes if isinstance(node, cst.IfExp | cst.Assert)]
        return only(tests, "the line doesn't say which condition is meant")


@dataclass(frozen=True)
class Recipe:
    """One way to edit source."""

    name: str
    codes: frozenset[str]
    edit: Callable[[Place], Edit]


def recipe(*codes: str) -> Callable[[Callable[[Place], Edit]], Recipe]:
    """Make a recipe of the function that writes its edit; its name is the function's."""

    def made(edit: Callable[[Place], Edit]) -> Recipe:
        return Recipe(edit.__name__.replace("_", "-"), frozenset(codes), edit)

    return made


def edit_without(what: str, recipes: Sequence[Recipe], place: Place) -> Edit:
    """Return the edit of the first recipe that doesn't decline, in a file where something is out of
    its way.
    """
    reasons = []
    for recipe in recipes:
        try:
            return recipe.edit(place)
        except DeclinedError as error:
            reasons.append(error.reason)
    raise DeclinedError(f"without {what}, {reasons[0]}")

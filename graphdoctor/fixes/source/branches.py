"""The branches of an ``if`` as lists of assignments with their comments, and lines to write in
place of an ``if``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst

from graphdoctor.fixes.source.nodes import after_lines, comments_in, enclosed, refuse_lost_comments
from graphdoctor.fixes.source.tree import Change, DeclinedError, SourceFile, decline_if

RETURNED = "return"
"""The target of a ``return``, where other targets are names; it's a keyword, so no name can be
equal to it."""


@dataclass(frozen=True)
class Comments:
    """Comments to keep with a line: ``above`` on their own lines, ``beside`` at its end."""

    above: tuple[str, ...] = ()
    beside: str | None = None

    def joined(self, other: Comments) -> Comments:
        """Both; if both have one beside the line, the second goes above."""
        if self.beside is not None and other.beside is not None:
            return Comments((*self.above, *other.above, other.beside), self.beside)
        return Comments(
            (*self.above, *other.above), self.beside if self.beside is not None else other.beside
        )


@dataclass(frozen=True)
class Step:
    """One assignment to a name, or the ``return``; ``x += 1`` has the value ``x + 1``."""

    target: str
    value: cst.BaseExpression
    comments: Comments


@dataclass(frozen=True)
class Branch:
    """What one branch does: its steps in order, a ``return`` last; and the statements that they
    were read from.
    """

    steps: tuple[Step, ...] = ()
    nodes: tuple[cst.CSTNode, ...] = ()

    @property
    def is_returning(self) -> bool:
        """Whether it leaves the function."""
        return bool(self.steps) and self.steps[-1].target == RETURNED

    def commented(self, above: tuple[str, ...], below: tuple[str, ...] = ()) -> Branch:
        """The branch with comments before its first step, and after its last one."""
        if not self.steps:
            return self
        first = replace(self.steps[0], comments=Comments(above).joined(self.steps[0].comments))
        *steps, last = (first, *self.steps[1:])
        return replace(
            self, steps=(*steps, replace(last, comments=last.comments.joined(Comments(below))))
        )


def branch_of(body: cst.BaseSuite | Sequence[cst.BaseStatement]) -> Branch:
    """A body, or some lines, as a branch."""
    if isinstance(body, cst.SimpleStatementSuite):
        return replace(
            _branch([(body.body, _comments((), body.trailing_whitespace))]), nodes=tuple(body.body)
        )
    lines = body.body if isinstance(body, cst.BaseSuite) else body
    found: list[tuple[Sequence[cst.BaseSmallStatement], Comments]] = []
    for line in lines:
        if not isinstance(line, cst.SimpleStatementLine):
            raise DeclinedError("a branch contains more than assignments")
        found.append((line.body, _comments(line.leading_lines, line.trailing_whitespace)))
    branch = replace(_branch(found), nodes=tuple(lines))
    if isinstance(body, cst.IndentedBlock):
        header = (body.header.comment.value,) if body.header.comment is not None else ()
        return branch.commented(header, comments_in(body.footer))
    return branch


def _branch(lines: Sequence[tuple[Sequence[cst.BaseSmallStatement], Comments]]) -> Branch:
    steps: list[Step] = []
    waiting = Comments()
    for smalls, comments in lines:
        waiting = waiting.joined(comments)
        for small in smalls:
            if not isinstance(small, cst.Pass):
                decline_if(steps and steps[-1].target == RETURNED, "there is code after a `return`")
                steps.append(Step(*_assignment(small), waiting))
                waiting = Comments()
    return Branch(tuple(steps))


def _comments(above: Sequence[cst.EmptyLine], beside: cst.TrailingWhitespace) -> Comments:
    return Comments(
        comments_in(above), beside.comment.value if beside.comment is not None else None
    )


def _assignment(small: cst.BaseSmallStatement) -> tuple[str, cst.BaseExpression]:
    match small:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
            return name, value.deep_clone()
        case cst.AugAssign(target=cst.Name(value=name), operator=operator, value=value):
            plain = getattr(
                cst, type(operator).__name__.removesuffix("Assign")
            )  # ``AddAssign`` and ``Add``
            return name, cst.BinaryOperation(cst.Name(name), plain(), enclosed(value.deep_clone()))
        case cst.Return(value=cst.BaseExpression() as value):
            return RETURNED, value.deep_clone()
        case cst.Return():
            raise DeclinedError("a branch returns nothing")
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute() | cst.Subscript())]):
            raise DeclinedError("a branch stores into an object, which is a side effect")
        case cst.Assign():
            raise DeclinedError("a branch assigns several names at once")
        case cst.Expr():
            raise DeclinedError("a branch calls something for its side effect")
        case cst.Raise():
            raise DeclinedError("a branch raises an exception")
        case _:
            raise DeclinedError("a branch contains more than assignments")


def line_of(small: cst.BaseSmallStatement, comments: Comments) -> cst.SimpleStatementLine:
    """A line with its comments."""
    above = [cst.EmptyLine(comment=cst.Comment(text)) for text in comments.above]
    beside = cst.TrailingWhitespace()
    if comments.beside is not None:
        beside = cst.TrailingWhitespace(cst.SimpleWhitespace("  "), cst.Comment(comments.beside))
    return cst.SimpleStatementLine([small], leading_lines=above, trailing_whitespace=beside)


def is_elif(source: SourceFile, statement: cst.CSTNode) -> bool:
    """Whether an ``if`` is written as an ``elif``."""
    parent = source.parent(statement)
    return isinstance(parent, cst.If) and parent.orelse is statement


def lines_for(
    source: SourceFile,
    statement: cst.If,
    lines: Sequence[cst.BaseStatement],
    *,
    also: Sequence[cst.CSTNode] = (),
) -> list[Change]:
    """The changes that put lines in place of an ``if``, and of lines that go with it; for an
    ``elif``, as its ``else``.

    Declines if a comment would be lost.
    """
    new: list[cst.CSTNode] = [after_lines(lines[0], statement.leading_lines), *lines[1:]]
    if is_elif(source, statement):
        indent = statement.body.indent if isinstance(statement.body, cst.IndentedBlock) else None
        above = [line.deep_clone() for line in statement.leading_lines]
        new = [cst.Else(cst.IndentedBlock(lines, indent=indent), leading_lines=above)]
    refuse_lost_comments([statement, *also], new)
    return [
        (statement, new[0] if is_elif(source, statement) else new),
        *((line, ()) for line in also),
    ]

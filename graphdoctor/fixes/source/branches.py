"""The branches of an ``if`` as lists of assignments, and lines to write in place of an ``if``.

Comments belong to the steps beside them, so that a line made from several steps keeps all of their comments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from graphdoctor.fixes.source.tree import Change, DeclinedError, SourceFile, decline_if, walk

RETURNED = "return"
"""The target of a ``return``, where other targets are names; it's a keyword, so no name can be equal to it."""

_AUGMENTED: dict[type[cst.BaseAugOp], type[cst.BaseBinaryOp]] = {
    cst.AddAssign: cst.Add,
    cst.SubtractAssign: cst.Subtract,
    cst.MultiplyAssign: cst.Multiply,
    cst.MatrixMultiplyAssign: cst.MatrixMultiply,
    cst.DivideAssign: cst.Divide,
    cst.FloorDivideAssign: cst.FloorDivide,
    cst.ModuloAssign: cst.Modulo,
    cst.PowerAssign: cst.Power,
    cst.BitAndAssign: cst.BitAnd,
    cst.BitOrAssign: cst.BitOr,
    cst.BitXorAssign: cst.BitXor,
    cst.LeftShiftAssign: cst.LeftShift,
    cst.RightShiftAssign: cst.RightShift,
}

_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer, cst.Float)


@dataclass(frozen=True)
class Comments:
    """Comments to keep with a line.

    Args:
        above: On their own lines before it.
        beside: At its end, at most one.
    """

    above: tuple[str, ...] = ()
    beside: str | None = None

    def joined(self, other: Comments) -> Comments:
        """Both; if both have one beside the line, the second goes above."""
        if self.beside is not None and other.beside is not None:
            return Comments((*self.above, *other.above, other.beside), self.beside)
        return Comments((*self.above, *other.above), self.beside if self.beside is not None else other.beside)


@dataclass(frozen=True)
class Step:
    """One assignment, or the ``return``.

    Args:
        target: The name, or ``RETURNED``.
        value: What is assigned; for ``x += 1``, the new ``x + 1``.
        comments: Comments at the line.
    """

    target: str
    value: cst.BaseExpression
    comments: Comments


@dataclass(frozen=True)
class Branch:
    """What one branch does.

    Args:
        steps: In order; a ``return`` comes last.
        nodes: The statements that they were read from.
    """

    steps: tuple[Step, ...]
    nodes: tuple[cst.CSTNode, ...]

    @property
    def is_returning(self) -> bool:
        """Whether it leaves the function."""
        return bool(self.steps) and self.steps[-1].target == RETURNED


def branch_of_body(body: cst.BaseSuite) -> Branch:
    """A body as a branch."""
    if isinstance(body, cst.SimpleStatementSuite):
        comments = Comments(beside=_comment(body.trailing_whitespace))
        return _branch(body.body, [(small, comments) for small in body.body[:1]], body.body)
    assert isinstance(body, cst.IndentedBlock)  # libcst knows two kinds of suites
    branch = branch_of_lines(body.body)
    header = _comment(body.header)
    above = () if header is None else (header,)
    below = comments_in(body.footer)
    if not branch.steps:
        return branch
    first, last = branch.steps[0], branch.steps[-1]
    first = replace(first, comments=Comments(above).joined(first.comments))
    steps = (first, *branch.steps[1:])
    last = steps[-1]
    return replace(branch, steps=(*steps[:-1], replace(last, comments=last.comments.joined(Comments(below)))))


def branch_of_lines(lines: Sequence[cst.BaseStatement | cst.BaseSmallStatement]) -> Branch:
    """Some lines as a branch."""
    smalls: list[cst.BaseSmallStatement] = []
    comments: list[tuple[cst.BaseSmallStatement, Comments]] = []
    for line in lines:
        if not isinstance(line, cst.SimpleStatementLine):
            raise DeclinedError("a branch contains more than assignments")
        above = comments_in(line.leading_lines)
        comments.append((line.body[0], Comments(above, _comment(line.trailing_whitespace))))
        smalls.extend(line.body)
    return _branch(smalls, comments, lines)


def _branch(
    smalls: Sequence[cst.BaseSmallStatement],
    comments: Sequence[tuple[cst.BaseSmallStatement, Comments]],
    nodes: Sequence[cst.CSTNode],
) -> Branch:
    steps: list[Step] = []
    waiting = Comments()
    for small in smalls:
        own = next((found for node, found in comments if node is small), Comments())
        waiting = waiting.joined(own)
        if isinstance(small, cst.Pass):
            continue
        decline_if(steps and steps[-1].target == RETURNED, "there is code after a `return`")
        target, value = _assignment(small)
        steps.append(Step(target, value, waiting))
        waiting = Comments()
    return Branch(tuple(steps), tuple(nodes))


def _assignment(small: cst.BaseSmallStatement) -> tuple[str, cst.BaseExpression]:
    match small:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
            return name, value.deep_clone()
        case cst.AugAssign(target=cst.Name(value=name), operator=operator, value=value):
            value = value.deep_clone()
            if not value.lpar and not isinstance(value, _ATOMS):
                value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
            return name, cst.BinaryOperation(cst.Name(name), _AUGMENTED[type(operator)](), value)
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


def put_for(
    source: SourceFile,
    statement: cst.If,
    lines: Sequence[cst.SimpleStatementLine | cst.If],
    *,
    and_also: Sequence[Change] = (),
) -> bytes:
    """The file with lines in place of an ``if``; for an ``elif`` they become the ``else``."""
    parent = next(source.parents(statement))
    new: list[cst.CSTNode]
    if isinstance(parent, cst.If) and parent.orelse is statement:
        indent = statement.body.indent if isinstance(statement.body, cst.IndentedBlock) else None
        other = cst.Else(cst.IndentedBlock(lines, indent=indent), leading_lines=_cloned(statement.leading_lines))
        new = [other]
        change: Change = (statement, other)
    else:
        above = [*_cloned(statement.leading_lines), *lines[0].leading_lines]
        new = [lines[0].with_changes(leading_lines=above), *lines[1:]]
        change = (statement, cst.FlattenSentinel(new))
    refuse_lost_comments([statement, *(old for old, _ in and_also)], new)
    return source.replaced(change, *and_also, imports=("torch",))


def refuse_lost_comments(old: Iterable[cst.CSTNode], new: Iterable[cst.CSTNode]) -> None:
    """Decline if a comment of the old nodes isn't in the new ones."""
    decline_if(_all_comments(old) - _all_comments(new), "a comment would be lost")


def comments_in(lines: Iterable[cst.EmptyLine]) -> tuple[str, ...]:
    """The comments on their own lines."""
    return tuple(line.comment.value for line in lines if line.comment is not None)


def _comment(whitespace: cst.TrailingWhitespace) -> str | None:
    return whitespace.comment.value if whitespace.comment is not None else None


def _all_comments(nodes: Iterable[cst.CSTNode]) -> Counter[str]:
    return Counter(part.value for node in nodes for part in walk(node) if isinstance(part, cst.Comment))


def _cloned(lines: Iterable[cst.EmptyLine]) -> list[cst.EmptyLine]:
    return [line.deep_clone() for line in lines]

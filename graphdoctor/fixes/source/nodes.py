"""Reading and building single nodes: names and calls in them, expressions from text, parentheses,
comments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

import libcst as cst
from libcst.helpers import parse_template_expression

from graphdoctor.fixes.source.tree import Change, SourceFile, decline_if, dotted, names_in, walk

ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber)
"""Expressions that need no parentheses beside any operator."""

_Expression = TypeVar("_Expression", bound=cst.BaseExpression)


def name_set(*nodes: cst.CSTNode) -> set[str]:
    """The names of the variables in some nodes."""
    return {name.value for node in nodes for name in names_in(node)}


def set_names(*nodes: cst.CSTNode) -> set[str]:
    """The names that assignments in some nodes set or change."""
    parts = (part for node in nodes for part in walk(node))
    single = cst.AugAssign | cst.AnnAssign | cst.NamedExpr | cst.AssignTarget
    return name_set(*(part.target for part in parts if isinstance(part, single)))


def called(node: cst.CSTNode) -> str:
    """The last name of what a call calls, or an empty string."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name)) | cst.Name(value=name)):
            return name
    return ""


def calls_in(node: cst.CSTNode) -> list[cst.Call]:
    """The calls in a node, in source order."""
    return [found for found in walk(node) if isinstance(found, cst.Call)]


def is_in_place(node: cst.CSTNode) -> bool:
    """Whether a call changes a tensor, by torch's conventions: ``x.add_(1)``, ``relu(x,
    inplace=True)``, ``out=``.
    """
    name = called(node)
    if name.endswith("_") and not name.endswith("__"):
        return True
    given = {
        arg.keyword.value: arg.value for arg in getattr(node, "args", ()) if arg.keyword is not None
    }
    return isinstance(node, cst.Call) and (
        "out" in given or ("inplace" in given and dotted(given["inplace"]) != "False")
    )


def assigns_a_name(node: cst.CSTNode) -> bool:
    """Whether a node contains a ``:=``."""
    return any(isinstance(part, cst.NamedExpr) for part in walk(node))


def is_repeatable(node: cst.BaseExpression) -> bool:
    """Whether it may be written twice: it calls nothing."""
    costly = cst.Call | cst.Await | cst.Yield | cst.NamedExpr | cst.Lambda | cst.BaseComp
    return not any(isinstance(found, costly) for found in walk(node))


def expression(template: str, **parts: cst.BaseExpression) -> cst.BaseExpression:
    """A new expression with copies of nodes in it: ``expression("{a}.sum(dim={b})", a=…, b=…)``."""
    copies = {name: part.deep_clone() for name, part in parts.items() if f"{{{name}}}" in template}
    return parse_template_expression(template, cst.PartialParserConfig(), **copies)


def torch_call(name: str, arguments: Iterable[cst.BaseExpression]) -> cst.Call:
    """``torch.<name>(a, b)``."""
    func = cst.Attribute(cst.Name("torch"), cst.Name(name))
    return cst.Call(func, [cst.Arg(without_parentheses(argument)) for argument in arguments])


def where(
    condition: cst.BaseExpression, yes: cst.BaseExpression, no: cst.BaseExpression
) -> cst.Call:
    """``torch.where(condition, yes, no)`` with copies of them, and without ``~`` before the
    condition.
    """
    match condition:
        case cst.UnaryOperation(operator=cst.BitInvert(), expression=opposite):
            return where(opposite, no, yes)
    return torch_call("where", [part.deep_clone() for part in (condition, yes, no)])


def method_call(node: cst.BaseExpression, *names: str) -> cst.BaseExpression:
    """``x.detach().clone()`` for ``x``, ``detach`` and ``clone``; a copy of ``x`` is used."""
    result = as_operand(node) if names else node.deep_clone()
    for name in names:
        result = cst.Call(cst.Attribute(result, cst.Name(name)))
    return result


def keyword_argument(name: str, value: cst.BaseExpression) -> cst.Arg:
    """``name=value``."""
    nothing = cst.SimpleWhitespace("")
    return cst.Arg(value, cst.Name(name), equal=cst.AssignEqual(nothing, nothing))


def keyword_of(argument: cst.Arg) -> str:
    """The keyword that an argument is passed by, or an empty string."""
    return argument.keyword.value if argument.keyword is not None else ""


def by_name(
    given: Sequence[cst.Arg], parameters: Sequence[str], reason: str
) -> dict[str, cst.BaseExpression]:
    """Arguments by the parameter that they are passed for; declines if one isn't certain."""
    found: dict[str, cst.BaseExpression] = {}
    for number, argument in enumerate(given):
        name = keyword_of(argument) or "".join(parameters[number : number + 1])
        decline_if(argument.star or name not in parameters or name in found, reason)
        found[name] = argument.value
    return found


def targets_of(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """What an assignment sets or changes, as written; empty for other nodes."""
    if isinstance(node, cst.Assign):
        return [target.target for target in node.targets]
    return (
        [node.target]
        if isinstance(node, cst.AugAssign | cst.AnnAssign | cst.NamedExpr | cst.For)
        else []
    )


def joined(values: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    """``a, b``, or the only one of them."""
    return (
        values[0]
        if len(values) == 1
        else cst.Tuple([cst.Element(value) for value in values], lpar=[], rpar=[])
    )


def assigned(
    target: str | cst.BaseExpression, value: cst.BaseExpression
) -> cst.SimpleStatementLine:
    """A line that sets a name, or what another target stands for."""
    to = cst.Name(target) if isinstance(target, str) else target
    return cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(to)], value)])  # type: ignore[arg-type]


def alone(small: cst.BaseSmallStatement) -> cst.SimpleStatementLine:
    """A small statement on a line of its own."""
    return cst.SimpleStatementLine([small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])


def lines_of(body: cst.BaseSuite) -> list[cst.BaseStatement]:
    """The lines of a body; what shares the line of its header is one."""
    if isinstance(body, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine(body.body, trailing_whitespace=body.trailing_whitespace)]
    return [line for line in body.body if isinstance(line, cst.BaseStatement)]


def after_lines(first: cst.BaseStatement, above: Iterable[cst.EmptyLine]) -> cst.BaseStatement:
    """A line with more blank lines and comments above it."""
    leading: Sequence[cst.EmptyLine] = getattr(first, "leading_lines", ())
    return first.with_changes(leading_lines=[line.deep_clone() for line in (*above, *leading)])


def below_new(
    source: SourceFile, old: cst.CSTNode, new: cst.CSTNode, added: cst.BaseStatement
) -> Change:
    """The change that replaces a node, and adds a statement above the module's statement that
    contains it.
    """
    statement = list(source.parents(old))[-2]
    assert isinstance(statement, cst.BaseStatement)  # a line of a module
    leading = list(getattr(statement, "leading_lines", ()))
    spaces = next(
        (number for number, line in enumerate(leading) if line.comment is not None), len(leading)
    )
    blank = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
    below = cast("cst.BaseStatement", after_lines(statement, blank[spaces:]).deep_replace(old, new))
    is_line = isinstance(added, cst.SimpleStatementLine)
    above = (
        leading[: min(spaces, 1)] if is_line else [] if source.tree.body[0] is statement else blank
    )
    return statement, [after_lines(added, above), below]


def skipped_while_compiling(
    lines: Sequence[cst.BaseStatement], test: cst.BaseExpression | None = None
) -> cst.If:
    """Lines under ``if not torch.compiler.is_compiling() and test:``, which doesn't look at the
    test in a graph.
    """
    guard = cst.parse_expression("not torch.compiler.is_compiling()")
    if test is not None:
        is_or = isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or)
        is_loose = is_or or isinstance(test, cst.IfExp | cst.Lambda | cst.NamedExpr)
        guard = cst.BooleanOperation(
            guard, cst.And(), enclosed(test.deep_clone()) if is_loose else test.deep_clone()
        )
    return cst.If(guard, cst.IndentedBlock([line.deep_clone() for line in lines]))


def bracketed(node: _Expression) -> _Expression:
    """An expression in parentheses; those that it has stay."""
    return node if node.lpar else node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def enclosed(node: _Expression, but_not: tuple[type[cst.CSTNode], ...] = ()) -> _Expression:
    """An expression that can be used with any operator, in parentheses if it might need them."""
    return node if isinstance(node, (*ATOMS, *but_not)) else bracketed(node)


def as_operand(node: cst.BaseExpression) -> cst.BaseExpression:
    """A copy that a method can be called on or an operator applied to, in parentheses if it needs
    them.
    """
    copy = node.deep_clone()
    is_whole = isinstance(copy, (*ATOMS, cst.List, cst.Dict)) and not _spans_lines(copy)
    return copy if is_whole else bracketed(copy)


def _spans_lines(node: cst.CSTNode) -> bool:
    while isinstance(node, cst.Attribute | cst.Call | cst.Subscript):
        if isinstance(node, cst.Attribute) and any(
            isinstance(d, cst.ParenthesizedWhitespace) for d in walk(node.dot)
        ):
            return True
        node = node.func if isinstance(node, cst.Call) else node.value
    return False


def with_parentheses_of(old: cst.BaseExpression, new: _Expression) -> _Expression:
    """An expression in another one's parentheses, unless it has its own."""
    if not old.lpar or new.lpar:
        return new
    lpar, rpar = (
        [paren.deep_clone() for paren in old.lpar],
        [paren.deep_clone() for paren in old.rpar],
    )
    return new.with_changes(lpar=lpar, rpar=rpar)


def without_parentheses(node: _Expression) -> _Expression:
    """An expression to use between commas; parentheses that contain a comment stay."""
    is_kept = isinstance(node, cst.Tuple | cst.GeneratorExp) or any(
        map(has_comment, (*node.lpar, *node.rpar))
    )
    return node if is_kept else node.with_changes(lpar=[], rpar=[])


def has_comment(node: cst.CSTNode) -> bool:
    """Whether a node contains a comment."""
    return any(isinstance(found, cst.Comment) for found in walk(node))


def comments_in(lines: Iterable[cst.EmptyLine]) -> tuple[str, ...]:
    """The comments on their own lines."""
    return tuple(line.comment.value for line in lines if line.comment is not None)


def refuse_lost_comments(old: Iterable[cst.CSTNode], new: Iterable[cst.CSTNode]) -> None:
    """Decline if a comment of the old nodes isn't in the new ones."""
    had, has = (
        Counter(
            part.value for node in nodes for part in walk(node) if isinstance(part, cst.Comment)
        )
        for nodes in (old, new)
    )
    decline_if(had - has, "a comment would be lost")

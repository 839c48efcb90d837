"""An exception that depends on a tensor's value: check the value in the graph."""

from __future__ import annotations

import ast
import json
from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.branches import Comments, comments_in, line_of, put_for, refuse_lost_comments
from graphdoctor.fixes.syntax.conditions import as_tensor, negated, torch_call, without_parentheses
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.names import Names, dotted
from graphdoctor.fixes.syntax.place import Place, tested_at
from graphdoctor.fixes.syntax.source import SourceFile


class CheckInsteadOfRaise(Recipe):
    """``if bad: raise ValueError("why")`` becomes ``torch._assert_async(~bad, "why")``; so does ``assert``.

    Unsafe: it raises another exception (``RuntimeError``), and on a GPU it does so later, after which the device can't
    be used. ``torch._check`` doesn't help because it needs a Python bool (``torch/__init__.py``, 2.13).
    """

    name: ClassVar = "check-instead-of-raise"
    codes: ClassVar = frozenset({"GD102"})

    def edit(self, place: Place) -> Edit:
        """The check.

        Raises:
            DeclinedError: The condition guards more than an exception.
        """
        source = place.source
        tested = tested_at(place)
        function = source.function_of(tested)
        if function is None:
            raise DeclinedError("the check isn't in a function")
        if _is_caught(source, tested):
            raise DeclinedError("the exception may be caught by the `try` around it")
        names = Names(source, function)
        if isinstance(tested, cst.Assert):
            return _in_place_of_assert(source, tested, names)
        if isinstance(tested, cst.If):
            return _in_place_of_raise(source, tested, names)
        raise DeclinedError("nothing is raised")


def _in_place_of_assert(source: SourceFile, old: cst.Assert, names: Names) -> Edit:
    message = _literal(old.msg) or _text(f"AssertionError: not ({_flat(source, old.test)})")
    call = torch_call("_assert_async", [without_parentheses(as_tensor(old.test, names)), message])
    new = cst.Expr(call, semicolon=_semicolon(old))
    refuse_lost_comments([old], [new])
    return _edit(source.replaced((old, new), imports=("torch",)))


def _in_place_of_raise(source: SourceFile, statement: cst.If, names: Names) -> Edit:
    raised, comments = _raise_in(statement)
    message = _message(source, raised, statement)
    call = torch_call("_assert_async", [without_parentheses(negated(statement.test, names)), message])
    return _edit(put_for(source, statement, [line_of(cst.Expr(call), comments)]))


def _edit(content: bytes) -> Edit:
    return Edit(title="Check the value in the graph with `torch._assert_async`", content=content, is_safe=False)


def _raise_in(statement: cst.If) -> tuple[cst.Raise, Comments]:
    """The only statement of the body, with the comments around it."""
    body = statement.body
    if statement.orelse is not None:
        raise DeclinedError("the `if` has another branch")
    comments = Comments()
    smalls = body.body
    if isinstance(body, cst.IndentedBlock):
        if len(body.body) != 1 or not isinstance(line := body.body[0], cst.SimpleStatementLine):
            raise DeclinedError("the condition guards more than an exception")
        smalls = line.body
        beside = line.trailing_whitespace.comment
        head = (body.header.comment.value,) if body.header.comment is not None else ()
        above = (*head, *comments_in(line.leading_lines), *comments_in(body.footer))
        comments = Comments(above, beside.value if beside is not None else None)
    elif isinstance(body, cst.SimpleStatementSuite) and body.trailing_whitespace.comment is not None:
        comments = Comments(beside=body.trailing_whitespace.comment.value)
    raised = smalls[0]
    if len(smalls) != 1 or not isinstance(raised, cst.Raise):
        raise DeclinedError("the condition guards more than an exception")
    return raised, comments


def _is_caught(source: SourceFile, tested: cst.CSTNode) -> bool:
    child = tested
    for parent in source.parents(tested):
        if isinstance(parent, cst.Try | cst.TryStar) and parent.handlers and parent.body is child:
            return True
        if isinstance(parent, cst.FunctionDef | cst.Lambda):
            return False
        child = parent
    return False


def _message(source: SourceFile, raised: cst.Raise, statement: cst.If) -> cst.BaseExpression:
    """The exception's message if it is a plain string; otherwise its type and the condition."""
    kind = raised.exc
    if kind is None:
        raise DeclinedError("it re-raises an exception")
    if isinstance(kind, cst.Call):
        if kind.args and not kind.args[0].star and (text := _literal(kind.args[0].value)) is not None:
            return text
        kind = kind.func
    name = dotted(kind)
    if name is None:
        raise DeclinedError("the source doesn't say which exception is raised")
    return _text(f"{name}: {_flat(source, statement.test)}")


def _literal(node: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """A copy of a plain string; None for anything else."""
    if isinstance(node, cst.SimpleString | cst.ConcatenatedString) and isinstance(node.evaluated_value, str):
        return node.deep_clone()
    return None


def _text(words: str) -> cst.SimpleString:
    return cst.SimpleString(json.dumps(words, ensure_ascii=False))


def _flat(source: SourceFile, node: cst.BaseExpression) -> str:
    """An expression on one line, without its comments."""
    try:
        return ast.unparse(ast.parse(f"({source.code(node)}\n)", mode="eval"))
    except (SyntaxError, ValueError):
        raise DeclinedError("the condition can't be written as text") from None


def _semicolon(old: cst.Assert) -> cst.Semicolon | cst.MaybeSentinel:
    return old.semicolon.deep_clone() if isinstance(old.semicolon, cst.Semicolon) else cst.MaybeSentinel.DEFAULT

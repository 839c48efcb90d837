"""Inference mode, which creates another kind of tensor: use ``no_grad``, which only turns off gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.names import called, dotted
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import Change, SourceFile, walk

_MODES = frozenset({"torch.inference_mode", "torch.autograd.inference_mode", "inference_mode"})
_CHECKS = frozenset({"is_inference", "is_inference_mode_enabled"})
_TITLE = "Use `torch.no_grad()` in place of `torch.inference_mode()`"


class NoGradForInferenceMode(Recipe):
    """``torch.inference_mode()`` becomes ``torch.no_grad()`` in the whole file.

    Checks for inference mode go too, with the code that depends on them: Dynamo breaks at ``is_inference()`` and at
    ``is_inference_mode_enabled()`` in any mode (seen on 2.13). Unsafe: tensors created in inference mode differ in more
    than gradients, and some may come from another file.
    """

    name: ClassVar = "no-grad-for-inference-mode"
    codes: ClassVar = frozenset({"GD118", "GD212"})

    def edit(self, place: Place) -> Edit:
        """The file without inference mode.

        Raises:
            DeclinedError: The finding isn't about inference mode, or the file uses the mode in another way.
        """
        source = place.source
        changes = list(_modes(source))
        if place.finding.code == "GD118":
            change, title = _without_check(place)
            title = f"{title} and use `torch.no_grad()`" if changes else title
            if any(old is node for node in walk(change[0]) for old, _ in changes):
                raise DeclinedError("inference mode is entered inside the check")
            content = source.replaced(change, *changes, imports=("torch",) if changes else ())
            return Edit(title=title, content=content, is_safe=False)
        if not any(change.kind == "inference_mode" for change in place.changes):
            raise DeclinedError("inference mode isn't what changed")
        if not changes:
            raise DeclinedError("inference mode is entered in another file")
        return Edit(title=_TITLE, content=source.replaced(*changes, imports=("torch",)), is_safe=False)


def _modes(source: SourceFile) -> Iterator[Change]:
    """Each use of inference mode, and ``no_grad`` in its place."""
    for node in walk(source.tree):
        if not isinstance(node, cst.Name | cst.Attribute) or dotted(node) not in _MODES:
            continue
        parent = next(source.parents(node))
        if isinstance(parent, cst.ImportAlias) or (isinstance(parent, cst.Attribute) and parent.attr is node):
            continue
        no_grad = cst.Attribute(cst.Name("torch"), cst.Name("no_grad"))
        if isinstance(parent, cst.Call) and parent.func is node:
            if parent.args and not (len(parent.args) == 1 and source.code(parent.args[0].value) == "True"):
                raise DeclinedError("a value switches inference mode")
            yield parent, parent.with_changes(func=no_grad, args=[], whitespace_before_args=cst.SimpleWhitespace(""))
        elif isinstance(parent, cst.Decorator):
            yield node, no_grad
        else:
            raise DeclinedError("inference mode is passed around")


def _without_check(place: Place) -> tuple[Change, str]:
    """The edit that removes a check for inference mode, whose result is False without the mode; and a title."""
    source = place.source
    asked = place.expression if place.expression is not None else _only_check(place)
    if not isinstance(asked, cst.Call) or called(asked) not in _CHECKS:
        raise DeclinedError("torch doesn't point to a check for inference mode")
    title = f"Remove the check `{source.code(asked)}`"
    node: cst.BaseExpression = asked
    is_no = True
    for parent in source.parents(asked):
        if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
            node, is_no = parent, not is_no
            continue
        if isinstance(parent, cst.IfExp) and parent.test is node:
            return (parent, _alone(parent, parent.orelse if is_no else parent.body)), title
        if isinstance(parent, cst.If) and parent.test is node:
            lines = _lines_left(source, parent, is_no=is_no)
            if lines is not None:
                return (parent, cst.FlattenSentinel(lines)), title
        break
    return (node, cst.Name("False" if is_no else "True", node.lpar, node.rpar)), title


def _only_check(place: Place) -> cst.BaseExpression | None:
    found = [node for node in walk(place.statement) if isinstance(node, cst.Call) and called(node) in _CHECKS]
    return found[0] if len(found) == 1 else None


def _alone(choice: cst.IfExp, way: cst.BaseExpression) -> cst.BaseExpression:
    """One side of ``a if c else b`` in place of the whole."""
    if way.lpar or not choice.lpar:
        return way.deep_clone()
    return way.deep_clone().with_changes(
        lpar=[paren.deep_clone() for paren in choice.lpar], rpar=[paren.deep_clone() for paren in choice.rpar]
    )


def _lines_left(source: SourceFile, statement: cst.If, *, is_no: bool) -> list[cst.BaseStatement] | None:
    """What remains of an ``if``; None if it is part of an ``elif`` chain."""
    parent = next(source.parents(statement))
    if isinstance(parent, cst.If) or isinstance(statement.orelse, cst.If):
        return None
    body = statement.body if not is_no else statement.orelse.body if statement.orelse is not None else None
    if body is None:
        is_only = isinstance(parent, cst.IndentedBlock) and len(parent.body) == 1
        return [cst.SimpleStatementLine([cst.Pass()])] if is_only else []
    if isinstance(body, cst.SimpleStatementSuite):
        return [
            cst.SimpleStatementLine(
                body.body, leading_lines=statement.leading_lines, trailing_whitespace=body.trailing_whitespace
            )
        ]
    assert isinstance(body, cst.IndentedBlock)  # libcst knows two kinds of suites
    lines = list(body.body)
    first = lines[0]
    assert isinstance(first, cst.SimpleStatementLine | cst.BaseCompoundStatement)  # a line of a block
    return [first.with_changes(leading_lines=[*statement.leading_lines, *first.leading_lines]), *lines[1:]]

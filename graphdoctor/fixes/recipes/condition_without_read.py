"""A condition on a number that was read from a tensor: write what a condition on the tensor itself would become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import libcst as cst

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.fixes.recipe import Edit, Recipe, first_edit
from graphdoctor.fixes.syntax.bindings import dotted_name, shortened
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.names import Names, is_in_place
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import Change, SourceFile, UnreadableError, walk

_CASTS = frozenset({"builtins.float", "builtins.bool"})


class ConditionWithoutRead(Recipe):
    """``if x.max().item() > 1:`` becomes what other recipes write for ``if x.max() > 1:``.

    Also for a name that is only set to such a number. Without the ``if``, nothing needs the number. Unsafe: a number
    is a double, and a tensor may have fewer digits.

    Args:
        recipes: What can be written for a branch on a tensor, best first.
    """

    name: ClassVar = "condition-without-read"
    codes: ClassVar = frozenset({"GD103", "GD119"})

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self._recipes = tuple(recipes)

    def edit(self, place: Place) -> Edit:
        """The condition in the graph.

        Raises:
            DeclinedError: No condition reads a tensor there, or no recipe knows what to write for it.
        """
        test = _test(place)
        function = place.source.function_of(test)
        if function is None:
            raise DeclinedError("the condition isn't in a function")
        reads = _reads(place.source, test, Names(place.source, function))
        without = Place(_edited(place.source, reads), _on_line_alone(place, test))
        edit = first_edit(self._recipes, without)
        if isinstance(edit, Edit):
            words = f"without reading `{shortened(place.source, reads[0][0])}`"
            return replace(edit, title=f"{edit.title}, {words}", is_safe=False)
        raise DeclinedError(f"without reading the number, {edit[0]}" if edit else "nothing can be written for it")


def _test(place: Place) -> cst.BaseExpression:
    """The condition of an ``if`` that the place is in."""
    statement = place.statement
    child: cst.CSTNode | None = place.expression
    for parent in place.source.parents(child) if child is not None else ():
        match parent:
            case cst.If(test=test) if test is child:
                return test
            case cst.BaseStatement() | cst.Lambda() | cst.IfExp():
                break
        child = parent
    if isinstance(statement, cst.If) and place.expression in (None, statement.test):
        return statement.test
    raise DeclinedError("the number isn't part of an `if`")


def _reads(source: SourceFile, test: cst.BaseExpression, names: Names) -> list[Change]:
    """What a condition reads, each with the tensor to write in its place."""
    found: list[Change] = []
    waiting: list[cst.CSTNode] = [test]
    while waiting:
        node = waiting.pop(0)
        tensor = _tensor_of(source, node)
        if tensor is None and isinstance(node, cst.Name):
            values = names.values(node.value)
            tensor = _tensor_of(source, values[0]) if len(values) == 1 else None
        if tensor is None:
            waiting += node.children
            continue
        if any(isinstance(part, cst.NamedExpr | cst.Await) or is_in_place(part) for part in walk(tensor)):
            raise DeclinedError("reading the number has a side effect")
        found.append((node, tensor.deep_clone() if node is test else _enclosed(tensor)))
    if not found:
        raise DeclinedError("the condition reads no tensor")
    return found


def _tensor_of(source: SourceFile, node: cst.CSTNode) -> cst.BaseExpression | None:
    """``x.max()`` for ``x.max().item()`` and ``float(x.max())``."""
    match node:
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("item")), args=[]):
            return tensor
        case cst.Call(args=[cst.Arg(value=tensor, keyword=None, star="")]) if dotted_name(source, node.func) in _CASTS:
            return _tensor_of(source, tensor) or tensor
    return None


def _enclosed(tensor: cst.BaseExpression) -> cst.BaseExpression:
    copy = tensor.deep_clone()
    if copy.lpar or isinstance(copy, cst.Name | cst.Attribute | cst.Call | cst.Subscript):
        return copy
    return copy.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _edited(source: SourceFile, changes: Sequence[Change]) -> SourceFile:
    try:
        return SourceFile.parse(source.path, source.replaced(*changes))
    except UnreadableError as error:
        raise DeclinedError(error.reason) from error


def _on_line_alone(place: Place, test: cst.BaseExpression) -> Finding:
    """The finding at the beginning of the ``if``; its columns are those of the file before."""
    line = place.source.position(next(place.source.parents(test))).start.line
    location = place.finding.location.model_copy(update={"line": line, "column": None, "end_column": None})
    return place.finding.model_copy(update={"location": location})

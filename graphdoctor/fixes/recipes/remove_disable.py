"""A function for which torch.compile is disabled: enable it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.names import dotted
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import Change, SourceFile, walk

_DISABLE = frozenset(
    {"torch.compiler.disable", "torch._dynamo.disable", "compiler.disable", "_dynamo.disable", "disable"}
)


class RemoveDisable(Recipe):
    """Removes ``@torch.compiler.disable`` from the function that is called.

    Also ``torch.compiler.disable(f)(x)`` and ``g = torch.compiler.disable(f)``. Only if the called name leads to one
    definition in the same file. Unsafe: somebody disabled it for a reason.
    """

    name: ClassVar = "remove-disable"
    codes: ClassVar = frozenset({"GD106"})

    def edit(self, place: Place) -> Edit:
        """The file with the function enabled.

        Raises:
            DeclinedError: The source doesn't say which function is called, or the file doesn't disable it.
        """
        source = place.source
        call = _call(place)
        changes, name = _enabled(source, call)
        return Edit(
            title=f"Remove `torch.compiler.disable` from `{name}`",
            content=source.replaced(*changes),
            is_safe=False,
        )


def _call(place: Place) -> cst.Call:
    """The call that torch points to, or the only one of the statement that leads to a disabled function."""
    if isinstance(place.expression, cst.Call):
        return place.expression
    if place.expression is not None:
        raise DeclinedError("torch doesn't point to a call")
    found: list[cst.Call] = []
    for node in walk(place.statement):
        if isinstance(node, cst.Call):
            try:
                _enabled(place.source, node)
            except DeclinedError:
                continue
            found.append(node)
    if len(found) != 1:
        raise DeclinedError("the line doesn't say which call is meant")
    return found[0]


def _enabled(source: SourceFile, call: cst.Call) -> tuple[list[Change], str]:
    """What to change, and the name of the function."""
    function = call.func
    if isinstance(function, cst.Call):
        inner = _disabled(function)
        return [(function, inner)], source.code(inner)
    name = dotted(function)
    if name is None:
        raise DeclinedError("the source doesn't say which function is called")
    match name.split("."):
        case [plain]:
            found = list(_definitions(source, call, plain))
        case ["self", attribute] if (owner := source.class_of(call)) is not None:
            found = list(_members(owner, attribute))
        case _:
            raise DeclinedError(f"`{name}` isn't defined in this file")
    if not found:
        raise DeclinedError(f"`{name}` isn't defined in this file")
    if len(found) > 1:
        raise DeclinedError(f"`{name}` is defined more than once")
    definition = found[0]
    if isinstance(definition, cst.FunctionDef):
        return [(definition, _undecorated(definition))], name
    if not isinstance(definition, cst.Call):
        raise DeclinedError(f"`{name}` isn't disabled where it is defined")
    return [(definition, _disabled(definition))], name


def _definitions(source: SourceFile, call: cst.Call, name: str) -> Iterator[cst.CSTNode]:
    """The definitions of a name at a call, in the innermost scope that has any."""
    for scope in [*source.parents(call)]:
        if isinstance(scope, cst.FunctionDef | cst.Module):
            found = list(_in_scope(scope, name))
            if isinstance(scope, cst.FunctionDef) and any(
                isinstance(node, cst.Param) and node.name.value == name for node in walk(scope.params)
            ):
                found.append(scope.params)
            if found:
                yield from found
                return


def _in_scope(scope: cst.CSTNode, name: str) -> Iterator[cst.CSTNode]:
    """Functions and values that a name stands for in a scope, without those of inner scopes."""
    for child in scope.children:
        match child:
            case cst.FunctionDef() | cst.ClassDef():
                if child.name.value == name:
                    yield child
            case cst.Lambda():
                continue
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=target))], value=value):
                if target == name:
                    yield value
            case cst.AssignTarget() | cst.AugAssign() | cst.AnnAssign() | cst.NamedExpr() | cst.For():
                if any(isinstance(node, cst.Name) and node.value == name for node in walk(child.target)):
                    yield child
                if isinstance(child, cst.For):
                    yield from _in_scope(child, name)
            case cst.ImportAlias():
                bound = child.asname.name if child.asname is not None else child.name
                if dotted(bound) == name:
                    yield child
            case _:
                yield from _in_scope(child, name)


def _members(owner: cst.ClassDef, attribute: str) -> Iterator[cst.CSTNode]:
    """Methods of a class, and what its methods store into ``self``, under one name."""
    yield from _in_scope(owner.body, attribute)
    for node in walk(owner.body):
        if isinstance(node, cst.Assign):
            for target in node.targets:
                if dotted(target.target) == f"self.{attribute}":
                    yield node.value


def _undecorated(function: cst.FunctionDef) -> cst.FunctionDef:
    kept: list[cst.Decorator] = []
    above: list[cst.EmptyLine] = []
    is_found = False
    for decorator in function.decorators:
        target = decorator.decorator
        if _is_disable(target.func if isinstance(target, cst.Call) else target):
            is_found = True
            above.extend(decorator.leading_lines)
        else:
            leading = [*above, *decorator.leading_lines]
            kept.append(decorator.with_changes(leading_lines=leading))
            above = []
    if not is_found:
        raise DeclinedError(f"`{function.name.value}` isn't disabled where it is defined")
    return function.with_changes(decorators=kept, lines_after_decorators=[*above, *function.lines_after_decorators])


def _disabled(call: cst.Call) -> cst.BaseExpression:
    """The function ``f`` in ``torch.compiler.disable(f, reason="…")``."""
    if not _is_disable(call.func):
        raise DeclinedError("the source doesn't say which function is called")
    for arg in call.args:
        if not arg.star and (arg.keyword is None or arg.keyword.value == "fn"):
            inner = arg.value.deep_clone()
            is_atom = isinstance(inner, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
            return inner if is_atom or inner.lpar else _in_parentheses(inner)
    raise DeclinedError("`torch.compiler.disable` isn't given a function here")


def _in_parentheses(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _is_disable(node: cst.BaseExpression) -> bool:
    return dotted(node) in _DISABLE

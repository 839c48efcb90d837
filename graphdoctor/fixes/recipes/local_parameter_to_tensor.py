"""A parameter that a function creates for itself: use a plain tensor."""

from __future__ import annotations

from typing import ClassVar

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import SourceFile

_FACTORIES = {
    "arange", "empty", "eye", "full", "linspace", "ones", "ones_like", "rand", "rand_like", "randn", "randn_like",
    "tensor", "zeros", "zeros_like",
}  # fmt: skip
"""Functions whose results have no gradient to detach."""

_PARAMETER = matchers.Name("Parameter") | matchers.Attribute(attr=matchers.Name("Parameter"))


class LocalParameterToTensor(Recipe):
    """``scale = nn.Parameter(torch.ones(8))`` becomes ``scale = torch.ones(8)`` if only arithmetic uses it.

    The function creates a new one at each call, so no optimizer has it and its gradient is lost anyway. Unsafe: what is
    computed only from it no longer requires a gradient.
    """

    name: ClassVar = "local-parameter-to-tensor"
    codes: ClassVar = frozenset({"GD115"})

    def edit(self, place: Place) -> Edit:
        """The tensor in place of the parameter.

        Raises:
            DeclinedError: Other code may get the parameter.
        """
        call = _call(place)
        source = place.source
        tensor = call.args[0] if call.args else None
        options = call.args[1:]
        if tensor is None or tensor.star or (tensor.keyword is not None and tensor.keyword.value != "data"):
            raise DeclinedError("it doesn't say what the parameter is initialized with")
        if any(option.keyword is None or option.keyword.value != "requires_grad" for option in options):
            raise DeclinedError("it has arguments that a tensor doesn't take")
        parent = next(source.parents(call))
        if isinstance(parent, cst.AssignTarget | cst.Assign | cst.AnnAssign):
            _check_uses(source, call, parent)
        elif not _is_operand(source, call):
            raise DeclinedError("the parameter may be passed to other code")
        content = source.replaced((call, _plain(source, tensor.value)), imports=("torch",))
        return Edit(title="Use a plain tensor for the local parameter", content=content, is_safe=False)


def _call(place: Place) -> cst.Call:
    expressions = [place.expression] if place.expression is not None else []
    if not expressions:
        expressions = [node for node in matchers.findall(place.small_statement, matchers.Call()) if _is_parameter(node)]  # type: ignore[misc]
    if len(expressions) != 1 or not _is_parameter(expressions[0]):
        raise DeclinedError("the line doesn't create exactly one parameter")
    assert isinstance(expressions[0], cst.Call)  # it makes a parameter
    return expressions[0]


def _is_parameter(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and matchers.matches(node.func, _PARAMETER)


def _check_uses(source: SourceFile, call: cst.Call, assignment: cst.CSTNode) -> None:
    """Decline unless only arithmetic and calls to torch's functions use the variable."""
    targets = [target.target for target in assignment.targets] if isinstance(assignment, cst.Assign) else []
    if isinstance(assignment, cst.AnnAssign):
        targets = [assignment.target]
    name = targets[0] if len(targets) == 1 else None
    function = source.function_of(call)
    if not isinstance(name, cst.Name) or function is None:
        raise DeclinedError("the parameter outlives the call")
    for node in matchers.findall(function, matchers.Name(name.value)):
        if node is not name and not _is_operand(source, node):
            line = source.position(node).start.line
            raise DeclinedError(f"line {line} may pass `{name.value}` to other code")


def _is_operand(source: SourceFile, node: cst.CSTNode) -> bool:
    """``x * scale`` or ``torch.add(x, scale)``."""
    parents = source.parents(node)
    parent = next(parents)
    if isinstance(parent, cst.BinaryOperation):
        return True
    around = next(parents)
    return (
        isinstance(parent, cst.Arg)
        and isinstance(around, cst.Call)
        and source.code(around.func).partition(".")[0] in ("torch", "F", "nn")
        and "Parameter" not in source.code(around.func)
    )


def _plain(source: SourceFile, tensor: cst.BaseExpression) -> cst.BaseExpression:
    """The tensor, detached from what it was computed from, as a parameter is."""
    new = tensor.deep_clone()
    if isinstance(tensor, cst.Call) and source.code(tensor.func).rpartition(".")[2] in _FACTORIES:
        return new
    if not isinstance(tensor, cst.Name | cst.Attribute | cst.Call | cst.Subscript) and not new.lpar:
        new = new.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.Call(cst.Attribute(new, cst.Name("detach")))

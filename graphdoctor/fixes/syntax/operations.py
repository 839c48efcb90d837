"""Which expressions may be computed even though their result may not be used.

``torch.where`` computes both branches. Comes in: the value of one branch. Goes out: whether it can be a tensor, and
whether computing it can do harm.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.names import called, dotted, is_in_place
from graphdoctor.fixes.syntax.source import SourceFile, walk

_TOTAL = frozenset(
    {"abs", "add", "atan", "clamp", "cos", "erf", "hardtanh", "leaky_relu", "maximum", "minimum", "mul", "neg",
     "negative", "relu", "relu6", "sigmoid", "silu", "sin", "square", "sub", "tanh"}
)  # fmt: skip
"""Elementwise, defined for every finite number, with finite gradients."""
_MODULES = frozenset({"torch", "F", "torch.nn.functional", "functional"})
_EFFECTS = frozenset(
    {"append", "backward", "clear", "exec", "eval", "extend", "input", "insert", "next", "open", "pop", "popitem",
     "popleft", "print", "register_hook", "remove", "setattr", "setdefault", "step", "update", "warn", "write"}
)  # fmt: skip
_CONTAINERS = (
    cst.BaseList, cst.BaseSet, cst.BaseDict, cst.Tuple, cst.GeneratorExp, cst.Lambda,
)  # fmt: skip


def refuse_unless_tensor(value: cst.BaseExpression) -> None:
    """Decline a value that certainly isn't a tensor, or that has a side effect.

    Raises:
        DeclinedError: It is such a value.
    """
    match value:
        case cst.BaseString():
            raise DeclinedError("a branch yields a string, not a tensor")
        case cst.Name(value="None" | "True" | "False" | "Ellipsis") | cst.Ellipsis():
            raise DeclinedError(
                f"a branch yields `{value.value if isinstance(value, cst.Name) else '...'}`, not a tensor"
            )
        case cst.BooleanOperation() | cst.UnaryOperation(operator=cst.Not()):
            raise DeclinedError("a branch yields a Python bool, not a tensor")
    if isinstance(value, _CONTAINERS):
        raise DeclinedError("a branch yields several values or a container, not one tensor")
    for node in walk(value):
        match node:
            case cst.NamedExpr():
                raise DeclinedError("a value assigns a name")
            case cst.Await() | cst.Yield():
                raise DeclinedError("a branch awaits or yields")
            case cst.Call() if called(node) in _EFFECTS:
                raise DeclinedError(f"`{called(node)}(…)` has a side effect")
            case cst.Call() if is_in_place(node):
                raise DeclinedError(f"`{called(node)}(…)` changes a tensor in place")


def is_harmless(value: cst.BaseExpression, source: SourceFile) -> bool:
    """Whether computing an unused value changes nothing: it can't fail, and its gradients are finite.

    Args:
        value: The value.
        source: The file, whose imports distinguish modules from tensors.
    """
    match value:
        case cst.Integer() | cst.Float():
            return True
        case cst.Name() | cst.Attribute():
            return dotted(value) is not None
        case cst.UnaryOperation(operator=cst.Minus() | cst.Plus(), expression=expression):
            return is_harmless(expression, source)
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract() | cst.Multiply(), left=left, right=right):
            return is_harmless(left, source) and is_harmless(right, source)
        case cst.Call(func=cst.Attribute(value=base)) if called(value) in _TOTAL:
            is_known = dotted(base) in _MODULES or (not _is_module(base, source) and is_harmless(base, source))
            return is_known and all(is_harmless(arg.value, source) and not arg.star for arg in value.args)
        case _:
            return False


def operands(value: cst.BaseExpression) -> frozenset[str]:
    """The variables that a harmless value is computed from, which alone determine its shape."""
    return frozenset(_operands(value))


def _operands(value: cst.CSTNode) -> Iterator[str]:
    name = dotted(value)
    if name is not None:
        yield name
        return
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        if dotted(value.func.value) not in _MODULES:
            yield from _operands(value.func.value)
        for arg in value.args:
            yield from _operands(arg.value)
        return
    for child in value.children:
        yield from _operands(child)


def _is_module(base: cst.BaseExpression, source: SourceFile) -> bool:
    """Whether the name before the dot was imported: ``math.sin`` doesn't take a tensor."""
    name = dotted(base)
    if name is None:
        return False
    first = name.partition(".")[0]
    for node in walk(source.tree):
        if isinstance(node, cst.ImportAlias):
            bound = node.asname.name if node.asname is not None else node.name
            if (dotted(bound) or "").partition(".")[0] == first:
                return True
    return False

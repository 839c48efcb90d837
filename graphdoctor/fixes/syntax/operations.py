"""Which expressions may be computed although nobody asked for their result.

``torch.where`` computes both ways. Comes in: the value of one way. Goes out: whether it is a tensor at all, as far as
the text shows, and whether computing it can do harm.
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
"""One element from one element of each operand, defined for every finite number, with finite gradients."""
_MODULES = frozenset({"torch", "F", "torch.nn.functional", "functional"})
_EFFECTS = frozenset(
    {"append", "backward", "clear", "exec", "eval", "extend", "input", "insert", "next", "open", "pop", "popitem",
     "popleft", "print", "register_hook", "remove", "setattr", "setdefault", "step", "update", "warn", "write"}
)  # fmt: skip
_CONTAINERS = (
    cst.BaseList, cst.BaseSet, cst.BaseDict, cst.Tuple, cst.GeneratorExp, cst.Lambda,
)  # fmt: skip


def refuse_unless_tensor(value: cst.BaseExpression) -> None:
    """Raises where a value is plainly no tensor, or where computing it does more than give a value.

    Raises:
        DeclinedError: For such a value.
    """
    match value:
        case cst.BaseString():
            raise DeclinedError("a way gives a text, not a tensor")
        case cst.Name(value="None" | "True" | "False" | "Ellipsis") | cst.Ellipsis():
            raise DeclinedError(f"a way gives `{value.value if isinstance(value, cst.Name) else '...'}`, not a tensor")
        case cst.BooleanOperation() | cst.UnaryOperation(operator=cst.Not()):
            raise DeclinedError("a way gives a Python truth value, not a tensor")
    if isinstance(value, _CONTAINERS):
        raise DeclinedError("a way gives several values or a container, not one tensor")
    for node in walk(value):
        match node:
            case cst.NamedExpr():
                raise DeclinedError("a value assigns a name on the way")
            case cst.Await() | cst.Yield():
                raise DeclinedError("a way waits for something")
            case cst.Call() if called(node) in _EFFECTS:
                raise DeclinedError(f"`{called(node)}(…)` has a side effect")
            case cst.Call() if is_in_place(node):
                raise DeclinedError(f"`{called(node)}(…)` changes a tensor in place")


def is_harmless(value: cst.BaseExpression, source: SourceFile) -> bool:
    """Computing a value in vain changes nothing: it cannot fail, and its gradients are finite.

    Args:
        value: The value.
        source: The file, whose imports tell modules from tensors.
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
    """The variables that a harmless value is computed from: they alone decide on its shape."""
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
    """The name before the dot was imported: ``math.sin`` takes no tensor."""
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

"""Which names may stand for the same object, or for tensors that share memory.

Comes in: statements of a function. Goes out: for each name the others that a change in place of it may change too. An
assignment connects its target with what its value is made of, unless the value is new: a result of arithmetic, or of an
operation that is known to write its result into fresh memory. What is unknown (a helper, a layer, which may be
``nn.Identity``) connects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from graphdoctor.fixes.syntax.bindings import dotted_name
from graphdoctor.fixes.syntax.names import called, names_in
from graphdoctor.fixes.syntax.source import SourceFile, walk

_FRESH = frozenset(
    {"abs", "all", "amax", "amin", "any", "argmax", "argmin", "cat", "clamp", "clone", "cos", "cumsum", "dim", "div"}
    | {"eq", "exp", "ge", "gelu", "gt", "isfinite", "isinf", "isnan", "item", "le", "log", "log_softmax", "lt"}
    | {"masked_fill", "matmul", "max", "mean", "median", "min", "mm", "mul", "ne", "neg", "norm", "numel", "ones_like"}
    | {"pow", "prod", "rsqrt", "sigmoid", "sign", "sin", "size", "softmax", "sqrt", "stack", "std", "sub", "sum"}
    | {"tanh", "tolist", "topk", "tril", "triu", "var", "where", "zeros_like"}
)
"""Functions of torch and methods of tensors whose results share no memory with what they are given."""

_FRESH_BUILTINS = frozenset(f"builtins.{name}" for name in ("bool", "float", "int", "len", "range", "repr", "str"))


def sharing(source: SourceFile, statements: Sequence[cst.CSTNode], owner: str | None) -> dict[str, frozenset[str]]:
    """The names that may share memory, by name; ``self.cache`` is a name like any other.

    Args:
        source: The file.
        statements: Where names are bound.
        owner: The name of the method's object, such as ``self``; None for a function.
    """
    groups: dict[str, set[str]] = {}
    for statement in statements:
        for target, value in _bindings(statement):
            shared = {
                *_names(target, owner),
                *(name for part in _old(source, value, owner) for name in _names(part, owner)),
            }
            merged = set().union(shared, *(groups.get(name, ()) for name in shared))
            groups.update(dict.fromkeys(merged, merged))
    return {name: frozenset(group) for name, group in groups.items()}


def _bindings(statement: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    for node in walk(statement):
        match node:
            case cst.Assign(targets=targets, value=value):
                yield from ((target.target, value) for target in targets)
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                yield target, value
            case cst.NamedExpr(target=target, value=value) | cst.For(target=target, iter=value):
                yield target, value
            case cst.WithItem(item=value, asname=cst.AsName(name=target)):
                yield target, value
            case cst.Call(func=cst.Attribute(value=holder, attr=cst.Name(value=name))) if name not in _FRESH:
                # What is appended to a list is in the list.
                yield from ((holder, argument.value) for argument in node.args)


def _old(source: SourceFile, value: cst.BaseExpression, owner: str | None) -> Iterator[cst.BaseExpression]:
    """The parts of a value that it may be, contain or share memory with."""
    match value:
        case cst.BinaryOperation() | cst.UnaryOperation() | cst.Comparison() | cst.BaseNumber() | cst.BaseString():
            return
        case cst.Call() if _is_fresh(source, value, owner):
            return
        case _:
            yield value


def _is_fresh(source: SourceFile, call: cst.Call, owner: str | None) -> bool:
    name = dotted_name(source, call.func)
    if name:
        return name in _FRESH_BUILTINS or (name.startswith("torch.") and called(call) in _FRESH)
    match call.func:
        # `self.norm(x)` is a layer.
        case cst.Attribute(value=value):
            return called(call) in _FRESH and not (isinstance(value, cst.Name) and value.value == owner)
    return False


def _names(node: cst.CSTNode, owner: str | None) -> Iterator[str]:
    for found in walk(node):
        if isinstance(found, cst.Attribute) and isinstance(found.value, cst.Name) and found.value.value == owner:
            yield f"{owner}.{found.attr.value}"
    yield from (name.value for name in names_in(node) if name.value != owner)

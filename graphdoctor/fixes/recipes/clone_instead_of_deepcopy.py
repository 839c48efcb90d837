"""``copy.deepcopy`` of tensors: clone them."""

from __future__ import annotations

from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.bindings import (
    as_operand,
    attribute_values,
    dotted_name,
    has_comment,
    is_tensor,
    method_call,
    method_name,
    parameter,
    shortened,
    values,
)
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.place import Place, pointed
from graphdoctor.fixes.syntax.source import SourceFile

_CONTAINERS = {"dict": "dict", "Dict": "dict", "list": "list", "List": "list", "tuple": "tuple", "Tuple": "tuple"}


class CloneInsteadOfDeepcopy(Recipe):
    """``copy.deepcopy(t)`` becomes ``t.detach().clone()``; for a dict or list, a clone of each tensor in it.

    Safe for a tensor that is visibly detached. For others, ``deepcopy`` of a leaf returns a leaf that requires a
    gradient, which a detached clone doesn't; and objects that a container shares are no longer shared.
    """

    name: ClassVar = "clone-instead-of-deepcopy"
    codes: ClassVar = frozenset({"GD108"})

    def edit(self, place: Place) -> Edit:
        """Clones in place of the copy.

        Raises:
            DeclinedError: What is copied may be neither a tensor nor a flat container of tensors.
        """
        source = place.source
        call = pointed(place, lambda node: _copied(source, node) is not None, "a call to `copy.deepcopy`")
        copied = _copied(source, call)
        assert copied is not None  # pointed() says so
        if has_comment(call) and not has_comment(copied):
            raise DeclinedError("a comment inside it would be lost")
        is_detached = method_name(source, copied) == "detach"
        new = _clones(source, copied)
        return Edit(
            title=f"Clone `{shortened(source, copied)}` in place of `deepcopy`",
            content=source.replaced((call, new)),
            is_safe=is_detached,
        )


def _copied(source: SourceFile, node: cst.BaseExpression) -> cst.BaseExpression | None:
    match node:
        case cst.Call(args=[cst.Arg(value=copied, star="", keyword=None)]):
            return copied if dotted_name(source, node.func) == "copy.deepcopy" else None
    return None


def _clones(source: SourceFile, copied: cst.BaseExpression) -> cst.BaseExpression:
    """What makes the copy."""
    if isinstance(copied, cst.List | cst.Tuple | cst.Dict):
        return _cloned_display(source, copied)
    if isinstance(copied, cst.Attribute | cst.Name):
        kind, is_plain = _kind(source, copied)
        if kind:
            return _each(copied, kind, ("clone",) if is_plain else ("detach", "clone"))
    elif not is_tensor(source, copied) and not isinstance(copied, cst.Subscript):
        raise DeclinedError("what is copied may not be a tensor")
    if method_name(source, copied) == "detach":
        return method_call(copied, "clone")
    return method_call(copied, "detach", "clone")


def _kind(source: SourceFile, copied: cst.Attribute | cst.Name) -> tuple[str, bool]:
    """``dict``, ``list`` or ``tuple``, or an empty string for a tensor; and whether it can't require a gradient.

    Raises:
        DeclinedError: It may be something else.
    """
    given = parameter(source, copied) if isinstance(copied, cst.Name) else None
    if given is not None:
        return _annotated(given), False
    bound = attribute_values(source, copied) if isinstance(copied, cst.Attribute) else values(source, copied)
    if isinstance(copied, cst.Attribute) and not bound:
        raise DeclinedError(f"nothing in the file says what `{source.code(copied)}` is")
    kinds = {_kind_of(source, value) for value in bound} or {("", False)}
    if len(kinds) > 1:
        raise DeclinedError(f"`{source.code(copied)}` is set to values of different kinds")
    return kinds.pop()


def _kind_of(source: SourceFile, value: cst.BaseExpression | None) -> tuple[str, bool]:
    match value:
        case cst.Dict(elements=elements) | cst.List(elements=elements) | cst.Tuple(elements=elements):
            if not elements or not all(
                isinstance(element, cst.Element | cst.DictElement) and is_tensor(source, element.value)
                for element in elements
            ):
                raise DeclinedError("not everything in the container is a tensor")
            return type(value).__name__.lower(), all(_is_made(source, element.value) for element in elements)
        case cst.DictComp() | cst.ListComp():
            element = value.value if isinstance(value, cst.DictComp) else value.elt
            if not is_tensor(source, element):
                raise DeclinedError("not everything in the container is a tensor")
            return type(value).__name__.lower().removesuffix("comp"), False
        case None:
            return "", False
    if not is_tensor(source, value):
        raise DeclinedError("what is copied may not be a tensor")
    return "", False


def _is_made(source: SourceFile, value: cst.BaseExpression) -> bool:
    """Whether a function of torch creates the tensor without a gradient."""
    name = dotted_name(source, value.func) if isinstance(value, cst.Call) else ""
    return name.rpartition(".")[0] == "torch" and "requires_grad" not in source.code(value)


def _annotated(given: cst.Param) -> str:
    """What a parameter's annotation says; a parameter without one is taken to be a tensor."""
    match given.annotation.annotation if given.annotation is not None else None:
        case None:
            return ""
        case cst.Name("Tensor") | cst.Attribute(attr=cst.Name("Tensor")):
            return ""
        case cst.Subscript(value=cst.Name(name), slice=elements) if name in _CONTAINERS:
            inner = [found.slice.value for found in elements if isinstance(found.slice, cst.Index)]
            inner = [found for found in inner if not isinstance(found, cst.Ellipsis)]
            if inner and isinstance(inner[-1], cst.Name | cst.Attribute) and _annotated_tensor(inner[-1]):
                return _CONTAINERS[name]
    raise DeclinedError(f"`{given.name.value}` may not be a tensor")


def _annotated_tensor(node: cst.BaseExpression) -> bool:
    return (node.attr if isinstance(node, cst.Attribute) else node).deep_equals(cst.Name("Tensor"))


def _each(copied: cst.BaseExpression, kind: str, names: tuple[str, ...]) -> cst.BaseExpression:
    chain = "".join(f".{name}()" for name in names)
    items: cst.BaseExpression
    if kind == "dict":
        items = cst.Call(cst.Attribute(as_operand(copied), cst.Name("items")))
        new = cst.parse_expression(f"{{name: value{chain} for name, value in copied}}")
    else:
        items = copied.deep_clone()
        new = cst.parse_expression(
            f"[value{chain} for value in copied]" if kind == "list" else f"tuple(value{chain} for value in copied)"
        )
    comp = new.args[0].value if isinstance(new, cst.Call) else new
    assert isinstance(comp, cst.BaseComp)
    return new.with_deep_changes(comp.for_in, iter=items)


def _cloned_display(source: SourceFile, display: cst.List | cst.Tuple | cst.Dict) -> cst.BaseExpression:
    """``[a.detach().clone(), b.detach().clone()]`` for ``[a, b]``."""
    elements = []
    for element in display.elements:
        if not isinstance(element, cst.Element | cst.DictElement):
            raise DeclinedError("the container unpacks other containers")
        if isinstance(element.value, cst.BaseNumber | cst.BaseString):
            elements.append(element.deep_clone())
        else:
            elements.append(element.with_changes(value=_clones(source, element.value)))
    return display.with_changes(elements=elements)

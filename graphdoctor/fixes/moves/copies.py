"""Copies of tensors: ``copy.deepcopy``, which torch doesn't follow into tensors, becomes clones."""

from __future__ import annotations

from libcst import (
    Arg,
    Attribute,
    BaseExpression,
    BaseNumber,
    BaseString,
    Call,
    CSTNode,
    Dict,
    DictComp,
    DictElement,
    Element,
    Index,
    List,
    ListComp,
    Name,
    Param,
    Subscript,
    Tuple,
)

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.nodes import expression, method_call, refuse_comment
from graphdoctor.fixes.source.tree import (
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    known,
    last_name,
)

_NOT_A_TENSOR = "what is copied may not be a tensor"
_EACH = {
    "dict": "{name: value.detach().clone() for name, value in {copied}.items()}",
    "list": "[value.detach().clone() for value in {copied}]",
    "tuple": "tuple(value.detach().clone() for value in {copied})",
}


@recipe("GD108")
def clone_instead_of_deepcopy(place: Place) -> Edit:
    """``copy.deepcopy(t)`` becomes ``t.detach().clone()``; for a dict or list, a clone of each
    tensor in it.

    Safe for a tensor that is visibly detached. For others, ``deepcopy`` of a leaf returns a leaf
    that requires a gradient, which a detached clone doesn't; and objects that a container shares
    are no longer shared.
    """
    source = place.source

    def copied_by(node: CSTNode) -> BaseExpression | None:
        match node:
            case Call(args=[Arg(value=value, star="", keyword=None)]):
                return value if source.dotted_name(node) == "copy.deepcopy" else None
        return None

    call = place.pointed_call(copied_by, "a call to `copy.deepcopy`")
    copied = known(copied_by(call))
    refuse_comment(call, copied)
    title = f"Clone `{source.shortened(copied)}` in place of `deepcopy`"
    is_safe = source.method_name(copied) == "detach"
    return place.edit(title, (call, _clones(source, copied)), is_safe=is_safe)


def _clones(source: SourceFile, copied: BaseExpression) -> BaseExpression:
    match copied:
        case List() | Tuple() | Dict():
            elements = []
            for element in copied.elements:
                if not isinstance(element, Element | DictElement):
                    raise DeclinedError("the container unpacks other containers")
                is_kept = isinstance(element.value, BaseNumber | BaseString)
                value = element.value if is_kept else _clones(source, element.value)
                elements.append(element.with_changes(value=value))
            return copied.with_changes(elements=elements)
        case Attribute() | Name() if kind := _kind(source, copied):
            return expression(_EACH[kind], copied=copied)
        case Attribute() | Name():
            pass
        case _:
            is_tensor = source.is_tensor(copied) or isinstance(copied, Subscript)
            decline_if(not is_tensor, _NOT_A_TENSOR)
    is_detached = source.method_name(copied) == "detach"
    return method_call(copied, *([] if is_detached else ["detach"]), "clone")


def _kind(source: SourceFile, copied: Attribute | Name) -> str:
    """Return ``dict``, ``list`` or ``tuple``, or an empty string for a tensor."""
    parameter = source.parameter(copied)
    if parameter is not None:
        return _annotated(parameter)
    values, code = source.bound_to(copied), source.code(copied)
    is_unknown = isinstance(copied, Attribute) and not values
    decline_if(is_unknown, f"nothing in the file says what `{code}` is")
    kinds = {_kind_of(source, value) for value in values if value is not None} or {""}
    decline_if(len(kinds) > 1, f"`{code}` is set to values of different kinds")
    return kinds.pop()


def _kind_of(source: SourceFile, value: BaseExpression) -> str:
    match value:
        case Dict(elements=elements) | List(elements=elements) | Tuple(elements=elements):
            parts = [part.value for part in elements if isinstance(part, Element | DictElement)]
            is_whole = bool(parts) and len(parts) == len(elements)
        case DictComp(value=part) | ListComp(elt=part):
            parts, is_whole = [part], True
        case _:
            decline_if(not source.is_tensor(value), _NOT_A_TENSOR)
            return ""
    is_all = is_whole and all(map(source.is_tensor, parts))
    decline_if(not is_all, "not everything in the container is a tensor")
    return type(value).__name__.lower().removesuffix("comp")


def _annotated(parameter: Param) -> str:
    """Return what a parameter's annotation says; one without is taken to be a tensor."""
    annotation = parameter.annotation.annotation if parameter.annotation is not None else None
    match annotation:
        case Subscript(value=Name(value=name), slice=parts) if name.lower() in _EACH:
            inner = [part.slice.value for part in parts if isinstance(part.slice, Index)]
            if [last_name(part) for part in inner if dotted(part)][-1:] == ["Tensor"]:
                return name.lower()
    is_other = annotation is not None and last_name(annotation) != "Tensor"
    decline_if(is_other, f"`{parameter.name.value}` may not be a tensor")
    return ""

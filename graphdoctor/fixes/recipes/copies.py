"""Copies of tensors: clone them in place of ``deepcopy``, and make them on the device where they
are used.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.expressions import is_literal_number
from graphdoctor.fixes.source.nodes import (
    calls_in,
    expression,
    has_comment,
    keyword_argument,
    keyword_of,
    method_call,
)
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    known,
    need,
)

_NOT_A_TENSOR = "what is copied may not be a tensor"
_EACH = {
    "dict": "{{name: value{chain} for name, value in {{copied}}.items()}}",
    "list": "[value{chain} for value in {{copied}}]",
    "tuple": "tuple(value{chain} for value in {{copied}})",
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
    call = place.pointed_call(
        lambda node: _copied(source, node) is not None, "a call to `copy.deepcopy`"
    )
    copied = known(_copied(source, call))
    decline_if(has_comment(call) and not has_comment(copied), "a comment inside it would be lost")
    title = f"Clone `{source.shortened(copied)}` in place of `deepcopy`"
    return place.edit(
        title, (call, _clones(source, copied)), is_safe=source.method_name(copied) == "detach"
    )


def _copied(source: SourceFile, node: cst.CSTNode) -> cst.BaseExpression | None:
    match node:
        case cst.Call(args=[cst.Arg(value=copied, star="", keyword=None)]):
            return copied if source.dotted_name(node) == "copy.deepcopy" else None
    return None


def _clones(source: SourceFile, copied: cst.BaseExpression) -> cst.BaseExpression:
    match copied:
        case cst.List() | cst.Tuple() | cst.Dict():
            return _cloned_display(source, copied)
        case cst.Attribute() | cst.Name():
            kind, is_plain = _kind(source, copied)
            if kind:
                chain = ".clone()" if is_plain else ".detach().clone()"
                return expression(_EACH[kind].format(chain=chain), copied=copied)
        case _:
            decline_if(
                not source.is_tensor(copied) and not isinstance(copied, cst.Subscript),
                _NOT_A_TENSOR,
            )
    return method_call(
        copied, *(["clone"] if source.method_name(copied) == "detach" else ["detach", "clone"])
    )


def _kind(source: SourceFile, copied: cst.Attribute | cst.Name) -> tuple[str, bool]:
    """``dict``, ``list`` or ``tuple``, or an empty string for a tensor; and whether it can't
    require a gradient.
    """
    given = source.parameter(copied)
    if given is not None:
        return _annotated(given), False
    bound = source.bound_to(copied)
    if isinstance(copied, cst.Attribute) and not bound:
        raise DeclinedError(f"nothing in the file says what `{source.code(copied)}` is")
    kinds = {_kind_of(source, value) for value in bound} or {("", False)}
    decline_if(len(kinds) > 1, f"`{source.code(copied)}` is set to values of different kinds")
    return kinds.pop()


def _kind_of(source: SourceFile, value: cst.BaseExpression | None) -> tuple[str, bool]:
    parts: list[cst.BaseExpression]
    match value:
        case None:
            return "", False
        case (
            cst.Dict(elements=elements) | cst.List(elements=elements) | cst.Tuple(elements=elements)
        ):
            parts = [
                part.value for part in elements if isinstance(part, cst.Element | cst.DictElement)
            ]
            is_whole = bool(parts) and len(parts) == len(elements)
        case cst.DictComp(value=part) | cst.ListComp(elt=part):
            parts, is_whole = [part], True
        case _:
            decline_if(not source.is_tensor(value), _NOT_A_TENSOR)
            return "", False
    is_all = is_whole and all(source.is_tensor(part) for part in parts)
    decline_if(not is_all, "not everything in the container is a tensor")
    is_comp = isinstance(value, cst.BaseComp)
    is_plain = not is_comp and all(
        isinstance(part, cst.Call)
        and source.dotted_name(part).rpartition(".")[0] == "torch"
        and "requires_grad" not in source.code(part)
        for part in parts
    )
    return type(value).__name__.lower().removesuffix("comp"), is_plain


def _annotated(given: cst.Param) -> str:
    """What a parameter's annotation says; a parameter without one is taken to be a tensor."""
    annotation = given.annotation.annotation if given.annotation is not None else None
    match annotation:
        case cst.Subscript(value=cst.Name(value=name), slice=elements) if name.lower() in _EACH:
            inner = [found.slice.value for found in elements if isinstance(found.slice, cst.Index)]
            inner = [found for found in inner if not isinstance(found, cst.Ellipsis)]
            if inner and _is_tensor_type(inner[-1]):
                return name.lower()
    decline_if(
        annotation is not None and not _is_tensor_type(annotation),
        f"`{given.name.value}` may not be a tensor",
    )
    return ""


def _is_tensor_type(node: cst.BaseExpression) -> bool:
    return (dotted(node) or "").rpartition(".")[2] == "Tensor"


def _cloned_display(
    source: SourceFile, display: cst.List | cst.Tuple | cst.Dict
) -> cst.BaseExpression:
    elements = []
    for element in display.elements:
        if not isinstance(element, cst.Element | cst.DictElement):
            raise DeclinedError("the container unpacks other containers")
        is_plain = isinstance(element.value, cst.BaseNumber | cst.BaseString)
        elements.append(
            element if is_plain else element.with_changes(value=_clones(source, element.value))
        )
    return display.with_changes(elements=elements)


_MAKERS = frozenset(
    f"torch.{name}"
    for name in (
        "arange",
        "empty",
        "eye",
        "full",
        "linspace",
        "logspace",
        "ones",
        "scalar_tensor",
        "tensor",
        "zeros",
    )
) | {"torch.tril_indices", "torch.triu_indices"}
"""Functions that make a tensor of the same values on any device; random numbers differ between
devices."""


@recipe("GD504")
def create_on_device(place: Place) -> Edit:
    """Gives what makes a tensor the device that it is moved to, or that of what it is computed
    with.

    ``torch.arange(n).to(x.device)`` becomes ``torch.arange(n, device=x.device)``, and ``x *
    torch.tensor(2.0)`` becomes ``x * torch.full((), 2.0, device=x.device)``: ``torch.tensor``
    copies from the CPU, wherever it goes. A round trip, ``(x.cpu() + 1).cuda()``, stays on the GPU.
    Unsafe: devices round differently.
    """
    skip = place.finding.cuda_graph_skip
    if skip is not None and skip.kind != "cpu_device":
        raise DeclinedError("edits only move tensors from the CPU to the GPU")
    for change, title in _moves(place.source, place.small_statement):
        return place.edit(title, change)
    raise DeclinedError("the line doesn't say which device its tensors belong on")


def _moves(source: SourceFile, statement: cst.CSTNode) -> Iterator[tuple[Change, str]]:
    calls = calls_in(statement)
    open_calls = [
        call
        for call in calls
        if not any(given.star or keyword_of(given) == "device" for given in call.args)
    ]
    makers = [call for call in open_calls if source.dotted_name(call) in _MAKERS]
    moves = [(call, target) for call in calls if (target := _moved_to(call)) is not None]
    for call, target in moves:
        if isinstance(call.func, cst.Attribute) and call.func.value in makers:
            yield _made_on(source, call, call.func.value, target)
    for call in makers:
        if (tensor := _computed_with(source, call)) is not None:
            yield _made_on(
                source, call, call, cst.Attribute(tensor.deep_clone(), cst.Name("device"))
            )
    for call, _ in moves:
        yield from _round_trip(source, call)
    for target in _moves_of_its_value(source, statement):
        root = target.value if isinstance(target, cst.Attribute) else target
        # A device that is named later can be named here if it is a text, or that of a parameter.
        is_known = isinstance(root, cst.SimpleString) or source.parameter(root) is not None
        yield from (_made_on(source, call, call, target) for call in makers if is_known)
        yield from _round_trip(source, statement)


def _moved_to(call: cst.CSTNode) -> cst.BaseExpression | None:
    """The device that ``t.to(x.device)``, ``t.to("cuda")`` or ``t.cuda()`` moves a tensor to; None
    for other calls.
    """
    match call:
        case cst.Call(func=cst.Attribute(attr=cst.Name("cuda")), args=[]):
            return cst.SimpleString('"cuda"')
        case cst.Call(
            func=cst.Attribute(attr=cst.Name("to")),
            args=[cst.Arg(keyword=None | cst.Name("device"), star="", value=to)],
        ):
            is_text = (
                isinstance(to, cst.SimpleString)
                and str(to.evaluated_value).partition(":")[0] == "cuda"
            )
            return to if is_text or (dotted(to) or "").rpartition(".")[2] == "device" else None
    return None


def _made_on(
    source: SourceFile, old: cst.Call, made: cst.CSTNode, device: cst.BaseExpression
) -> tuple[Change, str]:
    call = need(made, cst.Call, "")
    where = keyword_argument("device", device.deep_clone())
    title = f"Make `{source.code(call)}` on the device where it is used"
    if source.dotted_name(call) != "torch.tensor":
        return (old, call.deep_clone().with_changes(args=[*call.deep_clone().args, where])), title
    # `torch.full` in place of `torch.tensor` of a number, which is made on the CPU and copied.
    first = call.args[0].value if call.args and call.args[0].keyword is None else None
    decline_if(
        not is_literal_number(first),
        "its values come from Python, so they are copied to the GPU in any case",
    )
    func = need(call.func, cst.Attribute, "`torch.tensor` has another name in the file")
    args = [cst.Arg(cst.Tuple([])), *(argument.deep_clone() for argument in call.args), where]
    return (old, cst.Call(func.deep_clone().with_changes(attr=cst.Name("full")), args)), title


def _computed_with(source: SourceFile, call: cst.Call) -> cst.BaseExpression | None:
    parent = source.parent(call)
    match source.parent(parent) if isinstance(parent, cst.ComparisonTarget) else parent:
        case cst.BinaryOperation(left=left, right=right):
            sides = [left, right]
        case cst.Comparison(left=left, comparisons=comparisons):
            sides = [left, *(each.comparator for each in comparisons)]
        case _:
            return None
    names = (side for side in sides if isinstance(side, cst.Name))
    return next(
        (name for name in names if source.is_tensor(name) or source.parameter(name) is not None),
        None,
    )


def _moves_of_its_value(source: SourceFile, statement: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    match statement:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]) if source.is_local(
            name
        ):
            for read in source.reads(name):
                method = source.parent(read)
                target = (
                    _moved_to(source.parent(method)) if isinstance(method, cst.Attribute) else None
                )
                if target is not None:
                    yield target


def _round_trip(source: SourceFile, back: cst.CSTNode) -> Iterator[tuple[Change, str]]:
    for node in calls_in(back):
        match node:
            case cst.Call(func=cst.Attribute(value=value, attr=cst.Name("cpu")), args=[]):
                pass
            case cst.Call(
                func=cst.Attribute(value=value, attr=cst.Name("to")),
                args=[cst.Arg(value=cst.SimpleString() as to)],
            ) if to.evaluated_value == "cpu":
                pass
            case _:
                continue
        if node is not back:
            yield (node, value.deep_clone()), f"Keep `{source.code(value)}` on the GPU"

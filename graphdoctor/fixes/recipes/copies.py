"""Copies of tensors: clone them in place of ``deepcopy``, and make them on the device where they are used."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import libcst as cst

from graphdoctor.fixes.recipe import Edit, recipe
from graphdoctor.fixes.source.names import (
    as_operand,
    attribute_values,
    dotted_name,
    has_comment,
    is_local,
    is_tensor,
    method_call,
    method_name,
    parameter,
    reads,
    shortened,
    values,
)
from graphdoctor.fixes.source.place import Place, pointed
from graphdoctor.fixes.source.tree import Change, DeclinedError, SourceFile, decline_if, walk

_CONTAINERS = {"dict": "dict", "Dict": "dict", "list": "list", "List": "list", "tuple": "tuple", "Tuple": "tuple"}


@recipe("GD108")
def clone_instead_of_deepcopy(place: Place) -> Edit:
    """``copy.deepcopy(t)`` becomes ``t.detach().clone()``; for a dict or list, a clone of each tensor in it.

    Safe for a tensor that is visibly detached. For others, ``deepcopy`` of a leaf returns a leaf that requires a
    gradient, which a detached clone doesn't; and objects that a container shares are no longer shared.
    """
    source = place.source
    call = pointed(place, lambda node: _copied(source, node) is not None, "a call to `copy.deepcopy`")
    copied = _copied(source, call)
    assert copied is not None  # pointed() says so
    decline_if(has_comment(call) and not has_comment(copied), "a comment inside it would be lost")
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
    """``dict``, ``list`` or ``tuple``, or an empty string for a tensor; and whether it can't require a gradient."""
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
            decline_if(not is_tensor(source, element), "not everything in the container is a tensor")
            return type(value).__name__.lower().removesuffix("comp"), False
        case None:
            return "", False
    decline_if(not is_tensor(source, value), "what is copied may not be a tensor")
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


_MAKERS = frozenset(
    {"torch.arange", "torch.empty", "torch.eye", "torch.full", "torch.linspace", "torch.logspace", "torch.ones"}
    | {"torch.scalar_tensor", "torch.tensor", "torch.tril_indices", "torch.triu_indices", "torch.zeros"}
)
"""Functions that make a tensor of the same values on any device; random numbers differ between devices."""

_OPERATORS = cst.BinaryOperation | cst.Comparison
_MOVES = frozenset({"cuda", "to"})


@recipe("GD504")
def create_on_device(place: Place) -> Edit:
    """Gives what makes a tensor the device that it is moved to, or that of what it is computed with.

    ``torch.arange(n).to(x.device)`` becomes ``torch.arange(n, device=x.device)``, and ``x * torch.tensor(2.0)``
    becomes ``x * torch.full((), 2.0, device=x.device)``: ``torch.tensor`` copies from the CPU, wherever it goes. A
    round trip, ``(x.cpu() + 1).cuda()``, stays on the GPU. Unsafe: devices round differently.
    """
    source, skip = place.source, place.finding.cuda_graph_skip
    if skip is not None and skip.kind != "cpu_device":
        raise DeclinedError("edits only move tensors from the CPU to the GPU")
    statement = place.small_statement
    change = next(_changes(source, statement), None)
    if change is None:
        raise DeclinedError("the line doesn't say which device its tensors belong on")
    (old, new), title = change
    return Edit(title=title, content=source.replaced((old, new), imports=("torch",)), is_safe=False)


def _changes(source: SourceFile, statement: cst.CSTNode) -> Iterator[tuple[Change, str]]:
    calls = [node for node in walk(statement) if isinstance(node, cst.Call)]
    for call in calls:
        if (target := _moved_to(call)) is not None and isinstance(call.func, cst.Attribute):
            made = call.func.value
            if isinstance(made, cst.Call) and _makes(source, made):
                yield (call, _made_on(source, made, target)), _title(source, made)
    for call in calls:
        if _makes(source, call) and (tensor := _computed_with(source, call)) is not None:
            target = cst.Attribute(tensor.deep_clone(), cst.Name("device"))
            yield (call, _made_on(source, call, target)), _title(source, call)
    for call in calls:
        if _moved_to(call) is not None:
            yield from _round_trip(source, call)
    for later in _moves_of_its_value(source, statement):
        target = _moved_to(later)
        for call in calls:
            if target is not None and _makes(source, call) and _is_known_before(source, target):
                yield (call, _made_on(source, call, target)), _title(source, call)
        yield from _round_trip(source, statement)


def _title(source: SourceFile, made: cst.Call) -> str:
    return f"Make `{source.code(made)}` on the device where it is used"


def _makes(source: SourceFile, call: cst.Call) -> bool:
    has_device = any(
        argument.star or (argument.keyword and argument.keyword.value == "device") for argument in call.args
    )
    return dotted_name(source, call.func) in _MAKERS and not has_device


def _moved_to(call: cst.Call) -> cst.BaseExpression | None:
    """The device that ``t.to(x.device)``, ``t.to("cuda")`` or ``t.cuda()`` moves a tensor to; None for other calls."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _MOVES or len(call.args) > 1:
        return None
    if call.func.attr.value == "cuda":
        return None if call.args else cst.SimpleString('"cuda"')
    match call.args:
        case [cst.Arg(keyword=None | cst.Name("device"), star="", value=value)] if _is_device(value):
            return value
    return None


def _is_device(value: cst.BaseExpression) -> bool:
    """Whether it is a device other than the CPU, and no dtype."""
    match value:
        case cst.Attribute(attr=cst.Name("device")) | cst.Name("device"):
            return True
        case cst.SimpleString():
            return str(value.evaluated_value).partition(":")[0] == "cuda"
    return False


def _made_on(source: SourceFile, made: cst.Call, device: cst.BaseExpression) -> cst.Call:
    where = cst.Arg(device.deep_clone(), cst.Name("device"), equal=cst.AssignEqual(_NOTHING, _NOTHING))
    call = made.deep_clone()
    if dotted_name(source, made.func) == "torch.tensor":
        return _filled(made, where)
    return call.with_changes(args=[*call.args, where])


def _filled(made: cst.Call, where: cst.Arg) -> cst.Call:
    """``torch.full`` in place of ``torch.tensor`` of a number, which is made on the CPU and copied."""
    first = made.args[0].value if made.args and made.args[0].keyword is None else None
    number = first.expression if isinstance(first, cst.UnaryOperation) else first
    if not isinstance(first, cst.BaseExpression) or not isinstance(number, cst.Float | cst.Integer):
        raise DeclinedError("its values come from Python, so they are copied to the GPU in any case")
    func = made.func.deep_clone()
    full = func.with_changes(attr=cst.Name("full")) if isinstance(func, cst.Attribute) else None
    if full is None:
        raise DeclinedError("`torch.tensor` has another name in the file")
    rest = [argument.deep_clone() for argument in made.args[1:]]
    return cst.Call(full, [cst.Arg(cst.Tuple([])), cst.Arg(first.deep_clone()), *rest, where])


_NOTHING = cst.SimpleWhitespace("")


def _computed_with(source: SourceFile, call: cst.Call) -> cst.BaseExpression | None:
    """The other side of an operator, where that is certainly a tensor or a parameter of the function."""
    parent = next(source.parents(call))
    if isinstance(parent, cst.ComparisonTarget):
        parent = next(source.parents(parent))
    if not isinstance(parent, _OPERATORS):
        return None
    sides = [parent.left, *([parent.right] if isinstance(parent, cst.BinaryOperation) else [])]
    sides += [each.comparator for each in parent.comparisons] if isinstance(parent, cst.Comparison) else []
    for side in sides:
        if isinstance(side, cst.Name) and (is_tensor(source, side) or parameter(source, side) is not None):
            return side
    return None


def _moves_of_its_value(source: SourceFile, statement: cst.CSTNode) -> Iterator[cst.Call]:
    """Where the function moves the value of a statement such as ``n = x.sum().cpu() + 1`` to a device later."""
    match statement:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]) if is_local(source, name):
            for read in reads(source, name):
                method, call = itertools.islice(source.parents(read), 2)
                if isinstance(call, cst.Call) and call.func is method and _moved_to(call) is not None:
                    yield call


def _is_known_before(source: SourceFile, device: cst.BaseExpression) -> bool:
    """Whether a device that is named later in a function can be named earlier: a text, or that of a parameter."""
    root = device.value if isinstance(device, cst.Attribute) else device
    return isinstance(root, cst.SimpleString) or (isinstance(root, cst.Name) and parameter(source, root) is not None)


def _round_trip(source: SourceFile, back: cst.CSTNode) -> Iterator[tuple[Change, str]]:
    """What goes to the CPU within what is moved back, without that."""
    for node in walk(back):
        if node is back or not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            continue
        match node:
            case (
                cst.Call(func=cst.Attribute(value=value, attr=cst.Name("cpu")), args=[])
                | cst.Call(
                    func=cst.Attribute(value=value, attr=cst.Name("to")), args=[cst.Arg(value=cst.SimpleString())]
                )
            ):
                asked = node.args[0].value if node.args else None
                if asked is None or (isinstance(asked, cst.SimpleString) and asked.evaluated_value == "cpu"):
                    yield (node, value.deep_clone()), f"Keep `{source.code(value)}` on the GPU"

"""A tensor that is made on the CPU within work on a GPU: make it where it is used."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.bindings import dotted_name, is_local, is_tensor, parameter, reads
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import Change, SourceFile, walk

_MAKERS = frozenset(
    {"torch.arange", "torch.empty", "torch.eye", "torch.full", "torch.linspace", "torch.logspace", "torch.ones"}
    | {"torch.scalar_tensor", "torch.tensor", "torch.tril_indices", "torch.triu_indices", "torch.zeros"}
)
"""Functions that make a tensor of the same values on any device; random numbers differ between devices."""

_OPERATORS = cst.BinaryOperation | cst.Comparison
_MOVES = frozenset({"cuda", "to"})


class CreateOnDevice(Recipe):
    """Gives what makes a tensor the device that it is moved to, or that of what it is computed with.

    ``torch.arange(n).to(x.device)`` becomes ``torch.arange(n, device=x.device)``, and ``x * torch.tensor(2.0)``
    becomes ``x * torch.full((), 2.0, device=x.device)``: ``torch.tensor`` copies from the CPU, wherever it goes. A
    round trip, ``(x.cpu() + 1).cuda()``, stays on the GPU. Unsafe: devices round differently.
    """

    name: ClassVar = "create-on-device"
    codes: ClassVar = frozenset({"GD504"})

    def edit(self, place: Place) -> Edit:
        """The statement with all of its tensors on one device.

        Raises:
            DeclinedError: Nothing in the statement makes or moves a tensor so that its device is known.
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
    """Whether a call makes a tensor on the CPU."""
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
    """``torch.full`` in place of ``torch.tensor`` of a number, which is made on the CPU and copied.

    Raises:
        DeclinedError: It is more than a number.
    """
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

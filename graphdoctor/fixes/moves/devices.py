"""Tensors that are made on the CPU, or go there and back, in code that runs on a GPU."""

from __future__ import annotations

from collections.abc import Iterator

from libcst import (
    Arg,
    Assign,
    AssignTarget,
    Attribute,
    BaseExpression,
    BinaryOperation,
    Call,
    Comparison,
    ComparisonTarget,
    CSTNode,
    Name,
    SimpleString,
    Tuple,
)

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.expressions import is_literal_number
from graphdoctor.fixes.source.nodes import calls_in, keyword_argument, keyword_of
from graphdoctor.fixes.source.torch_names import words
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    last_name,
    need,
)

_MAKERS = words(
    """
    arange empty eye full linspace logspace ones scalar_tensor tensor zeros tril_indices
    triu_indices
""",
    "torch.",
)
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
    is_other = skip is not None and skip.kind != "cpu_device"
    decline_if(is_other, "edits only move tensors from the CPU to the GPU")
    for change, title in _moves(place.source, place.small_statement):
        return place.edit(title, change)
    raise DeclinedError("the line doesn't say which device its tensors belong on")


def _moves(source: SourceFile, statement: CSTNode) -> Iterator[tuple[Change, str]]:
    calls = calls_in(statement)
    makers = [
        call
        for call in calls
        if source.dotted_name(call) in _MAKERS
        and not any(argument.star or keyword_of(argument) == "device" for argument in call.args)
    ]
    moves = [(call, target) for call in calls if (target := _moved_to(call)) is not None]
    for call, target in moves:
        if isinstance(call.func, Attribute) and call.func.value in makers:
            yield _made_on(source, call, call.func.value, target)
    for call in makers:
        if (tensor := _computed_with(source, call)) is not None:
            yield _made_on(source, call, call, Attribute(tensor.deep_clone(), Name("device")))
    for call, _ in moves:
        yield from _round_trip(source, call)
    for target in _moves_of_its_value(source, statement):
        root = target.value if isinstance(target, Attribute) else target
        # A device that is named later can be named here if it is a text, or that of a parameter.
        is_known = isinstance(root, SimpleString) or source.parameter(root) is not None
        yield from (_made_on(source, call, call, target) for call in makers if is_known)
        yield from _round_trip(source, statement)


def _moved_to(call: CSTNode) -> BaseExpression | None:
    """Return the device that ``t.to(x.device)``, ``t.to("cuda")`` or ``t.cuda()`` moves a tensor
    to; None for other calls.
    """
    match call:
        case Call(func=Attribute(attr=Name("cuda")), args=[]):
            return SimpleString('"cuda"')
        case Call(
            func=Attribute(attr=Name("to")),
            args=[Arg(keyword=None | Name("device"), star="", value=to)],
        ):
            text = str(to.evaluated_value) if isinstance(to, SimpleString) else ""
            is_device = last_name(to) == "device" or text.partition(":")[0] == "cuda"
            return to if is_device else None
    return None


def _made_on(
    source: SourceFile, old: Call, made: CSTNode, device: BaseExpression
) -> tuple[Change, str]:
    call = need(made, Call)
    where = keyword_argument("device", device.deep_clone())
    title = f"Make `{source.code(call)}` on the device where it is used"
    copy = call.deep_clone()
    if source.dotted_name(call) != "torch.tensor":
        return (old, copy.with_changes(args=[*copy.args, where])), title
    # `torch.full` in place of `torch.tensor` of a number, which is made on the CPU and copied.
    first = call.args[0].value if call.args and call.args[0].keyword is None else None
    decline_if(
        not is_literal_number(first),
        "its values come from Python, so they are copied to the GPU in any case",
    )
    func = need(copy.func, Attribute, "`torch.tensor` has another name in the file")
    args = [Arg(Tuple([])), *copy.args, where]
    return (old, Call(func.with_changes(attr=Name("full")), args)), title


def _computed_with(source: SourceFile, call: Call) -> BaseExpression | None:
    parent = source.parent(call)
    sides = []
    match source.parent(parent) if isinstance(parent, ComparisonTarget) else parent:
        case BinaryOperation(left=left, right=right):
            sides = [left, right]
        case Comparison(left=left, comparisons=comparisons):
            sides = [left, *(comparison.comparator for comparison in comparisons)]
    names = (side for side in sides if isinstance(side, Name))
    return next((name for name in names if source.is_tensor(name) or source.parameter(name)), None)


def _moves_of_its_value(source: SourceFile, statement: CSTNode) -> Iterator[BaseExpression]:
    match statement:
        case Assign(targets=[AssignTarget(target=Name() as name)]) if source.is_local(name):
            methods = [source.parent(read) for read in source.reads(name)]
            calls = [source.parent(method) for method in methods if isinstance(method, Attribute)]
            yield from filter(None, map(_moved_to, calls))


def _round_trip(source: SourceFile, back: CSTNode) -> Iterator[tuple[Change, str]]:
    for node in calls_in(back):
        match node:
            case Call(func=Attribute(value=value, attr=Name("cpu")), args=[]):
                is_away = True
            case Call(
                func=Attribute(value=value, attr=Name("to")), args=[Arg(value=SimpleString() as to)]
            ):
                is_away = to.evaluated_value == "cpu"
            case _:
                continue
        if is_away and node is not back:
            yield (node, value.deep_clone()), f"Keep `{source.code(value)}` on the GPU"

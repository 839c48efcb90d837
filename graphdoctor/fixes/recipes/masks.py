"""Values selected by a mask, or by the indices where it is true: keep the shape and select with
``torch.where``.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.expressions import is_boolean
from graphdoctor.fixes.source.nodes import (
    as_operand,
    assigned,
    bracketed,
    called,
    expression,
    has_comment,
    is_repeatable,
    keyword_of,
    method_call,
    targets_of,
    where,
)
from graphdoctor.fixes.source.torch_names import FRESH
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile, decline_if, known, need

_NEUTRAL = {
    "sum": "0",
    "mean": "0",
    "max": "-torch.inf",
    "amax": "-torch.inf",
    "min": "torch.inf",
    "amin": "torch.inf",
}
"""Reductions, and the value that doesn't change the result of each."""

_ELEMENTWISE = frozenset(
    {"abs", "neg", "square", "sin", "cos", "tanh", "sigmoid", "relu", "float", "detach"}
)
"""Elementwise methods whose gradient is finite everywhere."""

_FLATTENING = frozenset({"squeeze", "flatten", "view", "reshape", "ravel"})
_MASKS = cst.Name | cst.Attribute | cst.Comparison | cst.Call
_OF_MASKS = cst.BitInvert | cst.BitAnd | cst.BitOr | cst.BitXor | cst.Multiply
"""Operators that masks are made with; `x[-1]` and `x[n - 1]` select by a position."""

_BRACKETS = (
    cst.Arg | cst.Assign | cst.AugAssign | cst.Return | cst.Element | cst.Index | cst.NamedExpr
)
"""Statements and brackets around an expression."""

_DIRECT = "the selected values are used directly"
_INDICES = "the indices where the mask is true are used directly"
_COMMENT = "a comment inside it would be lost"


@dataclass(frozen=True)
class _Selection:
    """``x[mask]``, ``x.masked_select(mask)``, ``x.index_select(0, rows)``."""

    node: cst.BaseExpression
    tensor: cst.BaseExpression
    index: cst.BaseExpression


@recipe("GD104")
def mask_without_indexing(place: Place) -> Edit:
    """``x[mask].sum()`` becomes ``torch.where(mask, x, 0).sum()``, ``x[mask] *= 2`` a
    ``torch.where`` as well.

    Also for what ``torch.nonzero(mask)`` selects. Unsafe: it assumes that the mask has the shape of
    the tensor, or one value for each row, and sums add up in another order. Safe only for ``x[x >
    0] *= 2``, where neither applies.
    """
    source = place.source
    found = place.pointed(
        lambda node: _is_nonzero(source, node) or _is_masked(source, node),
        "a mask that selects values",
    )
    title = f"Select with `torch.where` in place of `{source.shortened(found)}`"
    if _is_nonzero(source, found):
        return place.edit(title, *_without_places(source, found).items())
    selection = _selection(source, found)
    assert selection is not None  # pointed() says so
    small = next(
        (node for node in source.parents(found) if isinstance(node, cst.BaseSmallStatement)), None
    )
    if isinstance(small, cst.Assign | cst.AugAssign) and (
        target := _target(source, small, selection.index)
    ):
        return _assigned(place, small, target)
    return place.edit(title, _reduced(source, selection, selection.index))


def _without_places(
    source: SourceFile, found: cst.BaseExpression
) -> dict[cst.CSTNode, cst.BaseExpression]:
    """``rows = torch.nonzero(mask).squeeze(-1)`` becomes ``rows = mask.bool()``, and uses of it
    become reductions.
    """
    tensor = known(source.receiver(found), _INDICES)
    mask = as_operand(tensor) if is_boolean(tensor, source) else method_call(tensor, "bool")
    places, is_tuple = _places(source, need(found, cst.Call, _INDICES))
    decline_if(has_comment(places), _COMMENT)
    match source.parent(places):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            if not source.is_local(name) or len(source.values(name)) != 1:
                raise DeclinedError(
                    "the indices where the mask is true are assigned more than once"
                )
            around = [(read, _around(source, read)) for read in source.reads(name)]
            used = [
                (read, selection)
                for read, selection in around
                if not _is_set_to_number(source, selection)
            ]
            changes: dict[cst.CSTNode, cst.BaseExpression] = dict(
                _reduced(source, selection, read, is_rows=not is_tuple) for read, selection in used
            )
            is_plain = isinstance(mask, cst.Comparison) and not source.spans_lines(tensor)
            return {**changes, places: mask.with_changes(lpar=(), rpar=()) if is_plain else mask}
        case cst.Index() | cst.Arg():
            return dict(
                [
                    _reduced(
                        source, _around(source, places), mask, is_rows=not is_tuple, given=places
                    )
                ]
            )
    raise DeclinedError(_INDICES)


def _places(source: SourceFile, found: cst.Call) -> tuple[cst.BaseExpression, bool]:
    given = {keyword_of(argument): source.code(argument.value) for argument in found.args}
    user, outer = source.parent(found), source.parent(source.parent(found))
    if source.method_name(found) == "where" or given.get("as_tuple", "False") != "False":
        first = matchers.Subscript(
            slice=[matchers.SubscriptElement(matchers.Index(matchers.Integer("0")))]
        )
        is_first = isinstance(user, cst.Subscript) and matchers.matches(user, first)
        return (user, False) if is_first and isinstance(user, cst.Subscript) else (found, True)
    is_flat = isinstance(user, cst.Attribute) and user.attr.value in _FLATTENING
    return need(outer if is_flat else None, cst.Call, _INDICES), False


def _around(source: SourceFile, index: cst.CSTNode) -> _Selection:
    parent = next(
        node
        for node in source.parents(index)
        if not isinstance(node, cst.Index | cst.SubscriptElement | cst.Arg)
    )
    selection = _selection(source, parent)
    if selection is None or selection.index is not index:
        raise DeclinedError(_INDICES)
    return selection


def _reduced(
    source: SourceFile,
    selection: _Selection,
    mask: cst.BaseExpression,
    *,
    is_rows: bool = False,
    given: cst.CSTNode | None = None,
) -> tuple[cst.Call, cst.BaseExpression]:
    index = source.code(given if given is not None else mask)
    node: cst.CSTNode = selection.node
    while True:
        inner = known(_picked(source, node, index), _DIRECT)
        call, user = _call_around(source, node), source.parent(node)
        if call is not None and source.method_name(call) in _NEUTRAL:
            break
        node = call if call is not None else user
        decline_if(
            not isinstance(node, cst.Call | cst.BinaryOperation | cst.UnaryOperation), _DIRECT
        )
    decline_if(has_comment(call), _COMMENT)
    name, axis = source.method_name(call), _axis(source, call)
    decline_if(is_rows and axis is None, "nothing shows that it selects rows of a matrix")
    if (
        axis is not None
        and isinstance(mask, cst.Comparison)
        and mask.left.deep_equals(selection.tensor)
    ):
        axis = None  # The mask has the tensor's shape, so the selected values have one dim.
    uncast = (
        mask.func.value if called(mask) == "bool" and isinstance(mask.func, cst.Attribute) else mask
    )  # type: ignore[attr-defined]
    decline_if(name == "mean" and not is_repeatable(uncast), "the mask would be computed twice")
    decline_if(
        axis is not None and name not in ("sum", "mean"),
        f"`{name}` over rows also returns their indices",
    )
    condition = (
        expression("{mask}.unsqueeze(-1)", mask=as_operand(mask)) if axis is not None else mask
    )
    picked = inner.with_changes(lpar=(), rpar=())
    text: cst.BaseExpression = expression(
        f"torch.where({{mask}}, {{picked}}, {_NEUTRAL[name]}).{'sum' if name == 'mean' else name}()",
        mask=condition,
        picked=picked,
    ).with_changes(args=[axis] if axis is not None else [])
    if name == "mean":
        text = cst.BinaryOperation(text, cst.Divide(), method_call(mask, "sum"))
        around = source.parent(call)
        is_sum = isinstance(around, cst.BinaryOperation) and isinstance(
            around.operator, cst.Add | cst.Subtract
        )
        if call.lpar:
            text = text.with_changes(lpar=call.lpar, rpar=call.rpar)
        elif not is_sum and not isinstance(around, _BRACKETS):
            text = bracketed(text)
    return call, text


def _axis(source: SourceFile, call: cst.Call) -> cst.Arg | None:
    match source.given_to(call):
        case []:
            return None
        case [cst.Arg(keyword=None | cst.Name("dim"), star="", value=cst.Integer("0")) as axis]:
            return axis.deep_clone()
    raise DeclinedError("its arguments aren't supported")


def _picked(source: SourceFile, node: cst.CSTNode, index: str) -> cst.BaseExpression | None:
    """A computation with the values that an index selects, on whole tensors; None if it isn't
    elementwise.
    """
    selection = _selection(source, node)
    if selection is not None and source.code(selection.index) == index:
        return as_operand(selection.tensor)
    match node:
        case cst.BaseNumber():
            return node.deep_clone()
        case cst.UnaryOperation(operator=cst.Minus(), expression=value):
            inner = _picked(source, value, index)
            return node.with_changes(expression=inner) if inner is not None else None
        case (
            cst.BinaryOperation(operator=cst.Power(), right=cst.Integer())
            | cst.BinaryOperation(operator=cst.Divide(), right=cst.BaseNumber())
            | cst.BinaryOperation(operator=cst.Add() | cst.Subtract() | cst.Multiply())
        ):
            left, right = _picked(source, node.left, index), _picked(source, node.right, index)
            return (
                node.with_changes(left=left, right=right)
                if left is not None and right is not None
                else None
            )
        case cst.Call(func=func) if source.method_name(
            node
        ) in _ELEMENTWISE and not source.given_to(node):
            inner = (
                _picked(source, tensor, index)
                if (tensor := source.receiver(node)) is not None
                else None
            )
            if inner is None:
                return None
            if node.args:
                return node.with_changes(func=func.deep_clone(), args=[cst.Arg(inner)])
            return node.with_changes(func=cst.Attribute(inner, cst.Name(source.method_name(node))))
    return None


def _call_around(source: SourceFile, node: cst.CSTNode) -> cst.Call | None:
    user, call = source.parent(node), source.parent(source.parent(node))
    is_it = isinstance(user, cst.Attribute | cst.Arg) and source.receiver(call) is node
    return call if is_it and isinstance(call, cst.Call) else None


def _assigned(place: Place, small: cst.Assign | cst.AugAssign, target: _Selection) -> Edit:
    """``x[mask] = …`` and ``x[mask] += …`` with values that the same mask selects, or numbers."""
    source, tensor = place.source, target.tensor
    decline_if(has_comment(small), _COMMENT)
    decline_if(not is_repeatable(tensor), "the tensor would be computed twice")
    picked = _picked(source, small.value, source.code(target.index))
    inner = known(picked, "the assigned values aren't selected by the same mask")
    if isinstance(small, cst.AugAssign):
        operator = known(
            _OPERATORS.get(type(small.operator)), "the operator isn't `+=`, `-=`, `*=` or `/=`"
        )
        if isinstance(small.operator, cst.DivideAssign) and not isinstance(
            small.value, cst.BaseNumber
        ):
            raise DeclinedError("it could divide by values that the mask leaves out")
        inner = cst.BinaryOperation(tensor.deep_clone(), operator, as_operand(inner))
    else:
        decline_if(not is_repeatable(target.index), "the mask would be computed twice")
    kept = where(target.index, inner.with_changes(lpar=(), rpar=()), tensor)
    # Other code may hold the same tensor, such as the caller that passed it in; then it has to
    # change in place.
    new = cst.Expr(cst.Call(cst.Attribute(as_operand(tensor), cst.Name("copy_")), [cst.Arg(kept)]))
    if isinstance(tensor, cst.Name) and _is_own(source, tensor):
        new = assigned(tensor.deep_clone(), kept).body[0]  # type: ignore[assignment]
    is_scaled = isinstance(small, cst.AugAssign) and isinstance(
        small.value, cst.Integer | cst.Float
    )
    title = f"Select with `torch.where` in place of `{source.shortened(target.node)}`"
    change = small, new.with_changes(semicolon=small.semicolon)
    return place.edit(title, change, is_safe=is_scaled and _compares(target.index, tensor))


_OPERATORS: dict[type[cst.BaseAugOp], cst.BaseBinaryOp] = {
    cst.AddAssign: cst.Add(),
    cst.SubtractAssign: cst.Subtract(),
    cst.MultiplyAssign: cst.Multiply(),
    cst.DivideAssign: cst.Divide(),
}


def _compares(mask: cst.BaseExpression, tensor: cst.BaseExpression) -> bool:
    match mask:
        case cst.Comparison(
            left=left, comparisons=[cst.ComparisonTarget(comparator=cst.BaseNumber())]
        ):
            return isinstance(tensor, cst.Name) and left.deep_equals(tensor)
    return False


def _is_own(source: SourceFile, tensor: cst.Name) -> bool:
    made = source.values(tensor)
    if not source.is_local(tensor) or source.parameter(tensor) is not None or None in made:
        return False
    holders = cst.Assign | cst.Element | cst.DictElement | cst.NamedExpr | cst.Yield | cst.Arg
    for read in source.reads(tensor):
        user = source.parent(read)
        is_passed = isinstance(user, cst.Arg) and source.dotted_name(source.parent(user)) in _TAKERS
        # A method may return a view of it.
        is_viewed = isinstance(user, cst.Attribute) and user.attr.value not in _KEEPING
        is_elsewhere = source.function_of(read) is not source.function_of(tensor)
        if is_elsewhere or is_viewed or (isinstance(user, holders) and not is_passed):
            return False
    return all(
        isinstance(value, cst.BinaryOperation) or source.method_name(value) in FRESH
        for value in made
        if value
    )


_TAKERS = ("torch.where", "torch.sum", "torch.mean")
_KEEPING = _ELEMENTWISE | set(_NEUTRAL) | {"shape", "dtype"}


def _target(
    source: SourceFile, small: cst.Assign | cst.AugAssign, index: cst.BaseExpression
) -> _Selection | None:
    targets = targets_of(small)
    found = (
        _selection(source, targets[0])
        if isinstance(targets[0], cst.Subscript) and len(targets) == 1
        else None
    )
    return found if found is not None and source.code(found.index) == source.code(index) else None


def _is_set_to_number(source: SourceFile, selection: _Selection) -> bool:
    target = source.parent(selection.node)
    assignment = source.parent(target) if isinstance(target, cst.AssignTarget) else None
    return isinstance(assignment, cst.Assign) and isinstance(assignment.value, cst.BaseNumber)


def _selection(source: SourceFile, node: cst.CSTNode) -> _Selection | None:
    match node:
        case cst.Subscript(
            value=tensor, slice=[cst.SubscriptElement(slice=cst.Index(value=index, star=None))]
        ):
            return _Selection(node, tensor, index)
        case cst.Call() if (name := source.method_name(node)) in ("masked_select", "index_select"):
            taken, given = (
                source.receiver(node),
                [argument.value for argument in source.given_to(node)],
            )
            if name == "index_select" and given and source.code(given[0]) == "0":
                given = given[1:]
            elif name == "index_select":
                return None
            return (
                _Selection(node, taken, given[0]) if taken is not None and len(given) == 1 else None
            )
    return None


def _is_masked(source: SourceFile, node: cst.BaseExpression) -> bool:
    """Whether it selects by what may be a mask: neither a number nor a string nor a slice."""
    selection = _selection(source, node)
    match None if selection is None else selection.index:
        case cst.UnaryOperation(operator=operator) | cst.BinaryOperation(operator=operator):
            return isinstance(operator, _OF_MASKS)
        case index:
            return isinstance(index, _MASKS)


def _is_nonzero(source: SourceFile, node: cst.BaseExpression) -> bool:
    if not isinstance(node, cst.Call) or source.receiver(node) is None:
        return False
    given = [argument for argument in source.given_to(node) if argument.keyword is None]
    is_where = source.method_name(node) == "where" and bool(source.dotted_name(node))
    return not given and (is_where or source.method_name(node) == "nonzero")

"""Values selected by a mask, or by the indices where it is true: keep the shape and select with ``torch.where``."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
from libcst.helpers import parse_template_expression

from graphdoctor.fixes.recipe import Edit, recipe
from graphdoctor.fixes.source.names import (
    as_operand,
    dotted_name,
    has_comment,
    is_local,
    is_repeatable,
    method_call,
    method_name,
    parameter,
    reads,
    receiver,
    shortened,
    spans_lines,
    values,
)
from graphdoctor.fixes.source.place import Place, pointed
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile, decline_if

_NEUTRAL = {"sum": "0", "mean": "0", "max": "-torch.inf", "amax": "-torch.inf", "min": "torch.inf", "amin": "torch.inf"}
"""Reductions, and the value that doesn't change the result of each."""

_ELEMENTWISE = frozenset({"abs", "neg", "square", "sin", "cos", "tanh", "sigmoid", "relu", "float", "detach"})
"""Elementwise methods whose gradient is finite everywhere."""

_FRESH = _ELEMENTWISE - {"detach", "float"} | frozenset({"clone", "exp", "softmax", "log_softmax", "zeros", "ones"})
"""Methods and functions whose result shares no memory with another tensor."""

_FLATTENING = frozenset({"squeeze", "flatten", "view", "reshape", "ravel"})
_BRACKETS = cst.Arg | cst.Assign | cst.AugAssign | cst.Return | cst.Element | cst.Index | cst.NamedExpr
"""Statements and brackets around an expression."""


@dataclass(frozen=True)
class _Selection:
    """``x[mask]``, ``x.masked_select(mask)``, ``x.index_select(0, rows)``."""

    node: cst.BaseExpression
    tensor: cst.BaseExpression
    index: cst.BaseExpression


@recipe("GD104")
def mask_without_indexing(place: Place) -> Edit:
    """``x[mask].sum()`` becomes ``torch.where(mask, x, 0).sum()``, ``x[mask] *= 2`` a ``torch.where`` as well.

    Also for what ``torch.nonzero(mask)`` selects. Unsafe: it assumes that the mask has the shape of the tensor, or one
    value for each row, and sums add up in another order. Safe only for ``x[x > 0] *= 2``, where neither applies.
    """
    source = place.source
    found = pointed(
        place,
        lambda node: _is_nonzero(source, node) or _is_masked(_selection(source, node)),
        "a mask that selects values",
    )
    if _is_nonzero(source, found):
        return _without_places(source, found)
    selection = _selection(source, found)
    assert selection is not None  # pointed() says so
    small = next((node for node in source.parents(found) if isinstance(node, cst.BaseSmallStatement)), None)
    if isinstance(small, cst.Assign | cst.AugAssign) and (target := _target(source, small, selection.index)):
        return _assigned(source, small, target)
    whole, text = _reduced(source, selection, selection.index)
    return Edit(
        title=f"Select with `torch.where` in place of `{shortened(source, found)}`",
        content=source.replaced((whole, text), imports=("torch",)),
        is_safe=False,
    )


def _without_places(source: SourceFile, found: cst.BaseExpression) -> Edit:
    """``rows = torch.nonzero(mask).squeeze(-1)`` becomes ``rows = mask.bool()``, and uses of it become reductions."""
    assert isinstance(found, cst.Call)
    tensor = receiver(source, found)
    assert tensor is not None  # _is_nonzero says so
    mask = as_operand(tensor) if _is_boolean(source, tensor) else method_call(tensor, "bool")
    places, is_tuple = _places(source, found)
    decline_if(has_comment(places), "a comment inside it would be lost")
    user = next(source.parents(places))
    changes: dict[cst.CSTNode, cst.BaseExpression] = {}
    match user:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as name)]):
            if not is_local(source, name) or len(values(source, name)) != 1:
                raise DeclinedError("the indices where the mask is true are assigned more than once")
            for read in reads(source, name):
                selection = _around(source, read)
                if not _is_set_to_number(source, selection):
                    whole, text = _reduced(source, selection, read, is_rows=not is_tuple)
                    changes[whole] = text
            is_plain = isinstance(mask, cst.Comparison) and not spans_lines(source, tensor)
            changes[places] = mask.with_changes(lpar=(), rpar=()) if is_plain else mask
        case cst.Index() | cst.Arg():
            selection = _around(source, places)
            whole, text = _reduced(source, selection, mask, is_rows=not is_tuple, given=places)
            changes[whole] = text
        case _:
            raise DeclinedError("the indices where the mask is true are used directly")
    return Edit(
        title=f"Select with `torch.where` in place of `{shortened(source, found)}`",
        content=source.replaced(*changes.items(), imports=("torch",)),
        is_safe=False,
    )


def _places(source: SourceFile, found: cst.Call) -> tuple[cst.BaseExpression, bool]:
    """The expression that is used as an index, and whether it is a tuple with an index for each dim."""
    is_tuple = method_name(source, found) == "where" or any(
        argument.keyword is not None and argument.keyword.value == "as_tuple" and source.code(argument.value) != "False"
        for argument in found.args
    )
    parents = source.parents(found)
    user, outer = next(parents), next(parents)
    if is_tuple:
        match user:
            case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer("0")))]):
                return user, False
        return found, True
    is_flat = isinstance(user, cst.Attribute) and user.attr.value in _FLATTENING and isinstance(outer, cst.Call)
    if not is_flat or not isinstance(outer, cst.Call):
        raise DeclinedError("the indices where the mask is true are used directly")
    return outer, False


def _around(source: SourceFile, index: cst.CSTNode) -> _Selection:
    for parent in source.parents(index):
        if isinstance(parent, cst.Subscript | cst.Call):
            selection = _selection(source, parent)
            if selection is not None and selection.index is index:
                return selection
            break
    raise DeclinedError("the indices where the mask is true are used directly")


def _reduced(
    source: SourceFile,
    selection: _Selection,
    mask: cst.BaseExpression,
    *,
    is_rows: bool = False,
    given: cst.CSTNode | None = None,
) -> tuple[cst.Call, cst.BaseExpression]:
    index = source.code(given if given is not None else mask)
    node: cst.BaseExpression = selection.node
    while True:
        inner = _picked(source, node, index)
        if inner is None:
            raise DeclinedError("the selected values are used directly")
        call = _call_around(source, node)
        if call is not None and method_name(source, call) in _NEUTRAL:
            break
        user = next(source.parents(node))
        outer = call if call is not None else user
        if not isinstance(outer, cst.Call | cst.BinaryOperation | cst.UnaryOperation):
            raise DeclinedError("the selected values are used directly")
        node = outer
    decline_if(has_comment(call), "a comment inside it would be lost")
    name, axis = method_name(source, call), _axis(source, call)
    if is_rows and axis is None:
        raise DeclinedError("nothing shows that it selects rows of a matrix")
    if axis is not None and isinstance(mask, cst.Comparison) and mask.left.deep_equals(selection.tensor):
        axis = None  # The mask has the tensor's shape, so the selected values have one dim.
    decline_if(name == "mean" and not _is_cheap(mask), "the mask would be computed twice")
    if axis is not None and name not in ("sum", "mean"):
        raise DeclinedError(f"`{name}` over rows also returns their indices")
    condition = method_call(mask, "unsqueeze") if axis is not None else mask.deep_clone()
    if axis is not None and isinstance(condition, cst.Call):
        condition = condition.with_changes(args=[cst.Arg(cst.parse_expression("-1"))])
    kept = parse_template_expression(
        "torch.where({mask}, {picked}, {neutral})",
        mask=condition,
        picked=inner.with_changes(lpar=(), rpar=()),
        neutral=cst.parse_expression(_NEUTRAL[name]),
    )
    reduction = "sum" if name == "mean" else name
    text: cst.BaseExpression = cst.Call(cst.Attribute(kept, cst.Name(reduction)), [axis] if axis is not None else [])
    if name == "mean":
        text = cst.BinaryOperation(text, cst.Divide(), method_call(mask, "sum"))
        if call.lpar:
            text = text.with_changes(lpar=call.lpar, rpar=call.rpar)
        elif not _is_bracketed(next(source.parents(call))):
            text = as_operand(text)
    return call, text


def _is_bracketed(user: cst.CSTNode) -> bool:
    """Whether a quotient needs no parentheses there."""
    is_sum = isinstance(user, cst.BinaryOperation) and isinstance(user.operator, cst.Add | cst.Subtract)
    return is_sum or isinstance(user, _BRACKETS)


def _is_cheap(mask: cst.BaseExpression) -> bool:
    """Whether the mask may be written twice."""
    match mask:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("bool")), args=[]):
            return is_repeatable(inner)
    return is_repeatable(mask)


def _axis(source: SourceFile, call: cst.Call) -> cst.Arg | None:
    """The argument that makes a call a reduction over rows, or None."""
    given = call.args[1:] if dotted_name(source, call.func) else call.args
    if not given:
        return None
    first = given[0]
    is_axis = (first.keyword is None or first.keyword.value == "dim") and source.code(first.value) == "0"
    decline_if(len(given) != 1 or not is_axis or first.star, "its arguments aren't supported")
    return first.deep_clone()


def _picked(source: SourceFile, node: cst.BaseExpression, index: str) -> cst.BaseExpression | None:
    """The same computation on whole tensors, if it is elementwise; None for any other.

    Args:
        source: The file.
        node: The computation with selected values.
        index: The text of the index that selects all of them.
    """
    selection = _selection(source, node)
    if selection is not None and source.code(selection.index) == index:
        return as_operand(selection.tensor)
    match node:
        case cst.BaseNumber():
            return node.deep_clone()
        case cst.UnaryOperation(operator=cst.Minus()):
            inner = _picked(source, node.expression, index)
            return node.with_changes(expression=inner) if inner is not None else None
        case cst.BinaryOperation(operator=cst.Power(), right=cst.Integer()):
            inner = _picked(source, node.left, index)
            return node.with_changes(left=inner, right=node.right.deep_clone()) if inner is not None else None
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract() | cst.Multiply()):
            left, right = _picked(source, node.left, index), _picked(source, node.right, index)
            return node.with_changes(left=left, right=right) if left is not None and right is not None else None
        case cst.BinaryOperation(operator=cst.Divide(), right=cst.BaseNumber()):
            inner = _picked(source, node.left, index)
            return node.with_changes(left=inner, right=node.right.deep_clone()) if inner is not None else None
        case cst.Call() if method_name(source, node) in _ELEMENTWISE:
            tensor = receiver(source, node)
            inner = _picked(source, tensor, index) if tensor is not None else None
            is_function = bool(dotted_name(source, node.func))
            if inner is None or len(node.args) != is_function:
                return None
            if is_function:
                return node.with_changes(func=node.func.deep_clone(), args=[cst.Arg(inner)])
            return node.with_changes(func=cst.Attribute(inner, cst.Name(method_name(source, node))))
    return None


def _call_around(source: SourceFile, node: cst.CSTNode) -> cst.Call | None:
    """The call to a method of a node, or to a function of torch with the node as its first argument."""
    parents = source.parents(node)
    user, call = next(parents), next(parents)
    if isinstance(user, cst.Attribute | cst.Arg) and isinstance(call, cst.Call) and receiver(source, call) is node:
        return call
    return None


def _assigned(source: SourceFile, small: cst.Assign | cst.AugAssign, target: _Selection) -> Edit:
    """``x[mask] = …`` and ``x[mask] += …`` with values that the same mask selects, or numbers."""
    decline_if(has_comment(small), "a comment inside it would be lost")
    decline_if(not is_repeatable(target.tensor), "the tensor would be computed twice")
    inner = _picked(source, small.value, source.code(target.index))
    if inner is None:
        raise DeclinedError("the assigned values aren't selected by the same mask")
    tensor = target.tensor
    if isinstance(small, cst.AugAssign):
        operator = _OPERATORS.get(type(small.operator))
        if operator is None:
            raise DeclinedError("the operator isn't `+=`, `-=`, `*=` or `/=`")
        if isinstance(small.operator, cst.DivideAssign) and not isinstance(small.value, cst.BaseNumber):
            raise DeclinedError("it could divide by values that the mask leaves out")
        inner = cst.BinaryOperation(tensor.deep_clone(), operator, as_operand(inner))
    elif not is_repeatable(target.index):
        raise DeclinedError("the mask would be computed twice")
    kept = parse_template_expression(
        "torch.where({mask}, {picked}, {tensor})",
        mask=target.index.deep_clone(),
        picked=inner.with_changes(lpar=(), rpar=()),
        tensor=tensor.deep_clone(),
    )
    new: cst.BaseSmallStatement
    if isinstance(tensor, cst.Name) and _is_own(source, tensor):
        new = cst.Assign([cst.AssignTarget(tensor.deep_clone())], kept)
    else:
        # Other code may hold the same tensor, such as the caller that passed it in, so it has to change in place.
        new = cst.Expr(cst.Call(cst.Attribute(as_operand(tensor), cst.Name("copy_")), [cst.Arg(kept)]))
    return Edit(
        title=f"Select with `torch.where` in place of `{shortened(source, target.node)}`",
        content=source.replaced((small, new.with_changes(semicolon=small.semicolon)), imports=("torch",)),
        is_safe=isinstance(small, cst.AugAssign)
        and isinstance(small.value, cst.Integer | cst.Float)
        and _compares(target.index, tensor),
    )


_OPERATORS: dict[type[cst.BaseAugOp], cst.BaseBinaryOp] = {
    cst.AddAssign: cst.Add(),
    cst.SubtractAssign: cst.Subtract(),
    cst.MultiplyAssign: cst.Multiply(),
    cst.DivideAssign: cst.Divide(),
}


def _compares(mask: cst.BaseExpression, tensor: cst.BaseExpression) -> bool:
    """Whether the mask compares the same tensor with a number, so that it has its shape."""
    match mask:
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(comparator=cst.BaseNumber())]):
            return isinstance(tensor, cst.Name) and left.deep_equals(tensor)
    return False


def _is_own(source: SourceFile, tensor: cst.Name) -> bool:
    """Whether the function creates the variable's tensor and no other code holds it."""
    if not is_local(source, tensor) or parameter(source, tensor) is not None:
        return False
    here = source.function_of(tensor)
    made = [value for value in values(source, tensor) if value is not None]
    if len(made) != len(values(source, tensor)):
        return False
    holders = (cst.Assign, cst.Element, cst.DictElement, cst.NamedExpr, cst.Yield, cst.Arg)
    for read in reads(source, tensor):
        if source.function_of(read) is not here:
            return False
        user = next(source.parents(read))
        if isinstance(user, holders) and not _is_call_of_torch(source, user):
            return False
        # A method may return a view of it.
        if isinstance(user, cst.Attribute) and user.attr.value not in _ELEMENTWISE | set(_NEUTRAL) | {"shape", "dtype"}:
            return False
    return all(
        isinstance(value, cst.BinaryOperation) or method_name(source, value) in _FRESH | {"where"} for value in made
    )


def _is_call_of_torch(source: SourceFile, argument: cst.CSTNode) -> bool:
    call = next(source.parents(argument), None)
    return (
        isinstance(argument, cst.Arg)
        and isinstance(call, cst.Call)
        and dotted_name(source, call.func) in ("torch.where", "torch.sum", "torch.mean")
    )


def _target(source: SourceFile, small: cst.Assign | cst.AugAssign, index: cst.BaseExpression) -> _Selection | None:
    if isinstance(small, cst.Assign):
        target = small.targets[0].target if len(small.targets) == 1 else None
    else:
        target = small.target
    found = _selection(source, target) if isinstance(target, cst.Subscript) else None
    return found if found is not None and source.code(found.index) == source.code(index) else None


def _is_set_to_number(source: SourceFile, selection: _Selection) -> bool:
    """``x[rows] = 0``, which works with a mask too."""
    parents = source.parents(selection.node)
    target, assignment = next(parents), next(parents)
    is_number = isinstance(assignment, cst.Assign) and isinstance(assignment.value, cst.BaseNumber)
    return isinstance(target, cst.AssignTarget) and is_number


def _selection(source: SourceFile, node: cst.BaseExpression) -> _Selection | None:
    match node:
        case cst.Subscript(value=tensor, slice=[cst.SubscriptElement(slice=cst.Index(value=index, star=None))]):
            return _Selection(node, tensor, index)
        case cst.Call() if method_name(source, node) in ("masked_select", "index_select"):
            tensor_or_none = receiver(source, node)
            given = node.args[1:] if dotted_name(source, node.func) else node.args
            is_rows = method_name(source, node) == "index_select"
            if tensor_or_none is None or len(given) != 1 + is_rows or (is_rows and source.code(given[0].value) != "0"):
                return None
            return _Selection(node, tensor_or_none, given[-1].value)
    return None


def _is_masked(selection: _Selection | None) -> bool:
    """Whether its index may be a mask: neither a number nor a string nor a slice."""
    masks = cst.Name | cst.Attribute | cst.Comparison | cst.UnaryOperation | cst.BinaryOperation | cst.Call
    return selection is not None and isinstance(selection.index, masks)


def _is_nonzero(source: SourceFile, node: cst.BaseExpression) -> bool:
    if not isinstance(node, cst.Call) or method_name(source, node) not in ("nonzero", "where"):
        return False
    is_function = bool(dotted_name(source, node.func))
    given = [argument for argument in node.args if argument.keyword is None]
    has_mask = receiver(source, node) is not None and len(given) == is_function
    return has_mask and (is_function or method_name(source, node) == "nonzero")


def _is_boolean(source: SourceFile, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Comparison() | cst.UnaryOperation(operator=cst.BitInvert()):
            return True
        case cst.Name():
            bound = values(source, node)
            return bool(bound) and all(isinstance(value, cst.Comparison) for value in bound)
        case cst.Call():
            return method_name(source, node) in ("bool", "isfinite", "isnan", "isinf", "logical_not", "logical_and")
    return False

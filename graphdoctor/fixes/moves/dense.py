"""Dense forms: what a mask selects becomes the whole tensor with its shape, and what reduces it
leaves the rest out.
"""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass, replace

from libcst import (
    Add,
    AddAssign,
    Arg,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseAugOp,
    BaseBinaryOp,
    BaseExpression,
    BaseNumber,
    BaseSmallStatement,
    BinaryOperation,
    BitAnd,
    BitInvert,
    BitOr,
    BitXor,
    BooleanOperation,
    Call,
    Comparison,
    ComparisonTarget,
    CSTNode,
    Divide,
    DivideAssign,
    Element,
    Expr,
    Float,
    If,
    IfExp,
    Index,
    Integer,
    Minus,
    Multiply,
    MultiplyAssign,
    Name,
    NamedExpr,
    Power,
    Return,
    SimpleString,
    Subscript,
    Subtract,
    SubtractAssign,
    Tuple,
    UnaryOperation,
    parse_expression,
)

from graphdoctor.fixes.moves.select import select
from graphdoctor.fixes.moves.stay import roots_of
from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.expressions import (
    asks_for_any,
    is_boolean,
    is_by_dim,
    tests_for_finite,
)
from graphdoctor.fixes.source.nodes import (
    as_operand,
    bare,
    bracketed,
    expression,
    index_of,
    is_repeatable,
    keyword_argument,
    keyword_of,
    method_call,
    refuse_comment,
    targets_of,
    where,
)
from graphdoctor.fixes.source.spread import CASTS, Spread, traced_from
from graphdoctor.fixes.source.torch_names import words
from graphdoctor.fixes.source.tree import (
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    find,
    holds,
    known,
    need,
    only,
    walk,
)

_NEUTRAL = {
    **dict.fromkeys(("sum", "mean"), "0"),
    **dict.fromkeys(("max", "amax"), "-torch.inf"),
    **dict.fromkeys(("min", "amin"), "torch.inf"),
}
"""Reductions, and the value that doesn't change the result of each."""

_ELEMENTWISE = words("abs neg square sin cos tanh sigmoid relu float detach bool")
"""Elementwise methods whose gradient is finite everywhere."""

_IN_ROWS = words("argmax log_softmax softmax sum logsumexp")
"""Methods that stay within a row, with ``-1`` alone."""

_LOSSES = words("mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits")
"""Elementwise losses, defined for all numbers."""

_ZERO_AT_EQUAL = _LOSSES - {"binary_cross_entropy_with_logits"}
_BY_CLASS = words("cross_entropy nll_loss")
"""Losses that leave out an index of their targets."""

_MASKS = Name | Attribute | Comparison | Call
_OF_MASKS = BitInvert | BitAnd | BitOr | BitXor | Multiply
"""Operators that masks are made with; `x[-1]` and `x[n - 1]` select by a position."""

_OF_ELEMENTS = (Call, BinaryOperation, UnaryOperation, Comparison)
_ZERO_AT_ZERO = words("abs neg square sin tanh relu float detach")
_BRACKETS = Arg | Assign | AugAssign | Return | Element | IfExp | Index | NamedExpr
"""Statements and brackets around an expression."""

_DIRECT = "the selected values are used directly"
_INDICES = "the indices where the mask is true are used directly"
_TWICE = "the mask would be computed twice"
_ASKED_TWICE = "several branches ask whether the mask selects anything"


@dataclass(frozen=True)
class _Selection:
    """``x[mask]``, ``x.masked_select(mask)``."""

    node: BaseExpression
    tensor: BaseExpression
    index: BaseExpression


@recipe("GD104")
def mask_without_indexing(place: Place) -> Edit:
    """``x[mask].sum()`` becomes ``torch.where(mask, x, 0).sum()``, ``x[mask] *= 2`` a
    ``torch.where`` as well, and ``len(x[mask])`` becomes ``mask.sum()``.

    Also for losses, and for names that keep what is selected. Unsafe: it assumes that the mask has
    the shape of the tensor, or one value for each row, and sums add up in another order. Safe only
    for ``x[x > 0] *= 2``, where neither applies.
    """
    return _edit(place, is_rows=False)


@recipe("GD104")
def rows_without_indexing(place: Place) -> Edit:
    """``boxes[mask].sum()`` becomes ``torch.where(mask.unsqueeze(-1), boxes, 0).sum()``, for a mask
    with one value for each row.
    """
    return _edit(place, is_rows=True)


def _edit(place: Place, *, is_rows: bool) -> Edit:
    source = place.source
    node = _pointed(place)
    title = f"Select with `torch.where` in place of `{source.shortened(node)}`"
    selection = known(_selection(source, node))
    small = source.around(node, BaseSmallStatement)
    if isinstance(small, Assign | AugAssign):
        targets = targets_of(small)
        target = _selection(source, targets[0]) if len(targets) == 1 else None
        is_same = target and source.code(target.index) == source.code(selection.index)
        if target and is_same and isinstance(target.node, Subscript):
            return _assigned(place, small, target, is_rows=is_rows)
    dense = _Dense(place, selection.index, is_rows=is_rows)
    dense.follow(selection.node)
    return dense.edit(title)


def _pointed(place: Place) -> BaseExpression:
    """Return what torch points to, or the first of those that the line selects by one mask."""
    source = place.source
    try:
        return place.pointed(lambda node: _is_masked(source, node), "a mask that selects values")
    except DeclinedError:
        nodes = walk(place.statement) if place.expression is None else ()
        found = [selection for node in nodes if (selection := _selection(source, node))]
        masked = [selection for selection in found if _is_masked(source, selection.node)]
        if len({source.code(selection.index) for selection in masked}) != 1:
            raise
        return masked[0].node


@recipe("GD104")
def first_place(place: Place) -> Edit:
    """``(ids == end).nonzero()[0]`` becomes ``(ids == end).int().argmax(0, keepdim=True)``.

    Also where the only place is read. Unsafe: where the mask is true nowhere, that is 0, and an
    error before.
    """
    source = place.source
    node = place.pointed(lambda node: _is_nonzero(source, node), "the places where a mask is true")
    title = f"Find the place with `argmax` in place of `{source.shortened(node)}`"
    tensor, user = known(source.receiver(node), _INDICES), source.parent(node)
    mask = as_operand(tensor) if is_boolean(tensor, source) else method_call(tensor, "bool")
    is_tuple = is_by_dim(need(node, Call), source)
    if is_tuple:
        decline_if(source.code(known(index_of(user), _INDICES)) != "0", _INDICES)
        if source.read_of(source.parent(source.parent(user)), CASTS) is user:
            return place.edit(title, (user, expression("{mask}.int().argmax(0)", mask=mask)))
        user = source.parent(user)
    at = source.code(known(index_of(user), _INDICES))
    is_read = source.read_of(source.parent(source.parent(user)), CASTS) is user
    kept = "" if is_tuple or is_read else ", keepdim=True"
    template = f"{{mask}}.int().argmax(0{kept})"
    if at == "-1":
        decline_if(not is_repeatable(tensor), _TWICE)
        template = f"{{mask}}.shape[0] - 1 - {{mask}}.flip(0).int().argmax(0{kept})"
    decline_if(at not in ("0", "-1"), _INDICES)
    return place.edit(title, (user, _beside(source, user, expression(template, mask=mask))))


class _Dense:
    """Writes computations with selected values on whole tensors, up to what reduces them."""

    def __init__(self, place: Place, mask: BaseExpression, *, is_rows: bool) -> None:
        self._place = place
        self._source, self._mask, self._is_rows = place.source, mask, is_rows
        made_of = place.source.set_values(mask) if isinstance(mask, Name) else []
        for test in (mask, *made_of):
            decline_if(tests_for_finite(test), "what the mask leaves out may not be finite")
        self.spread = Spread(place.source, traced_from(place.source, roots_of(place)))
        self._index = place.source.code(mask)
        self._wholes = set[str]()
        """Names that hold whole tensors now."""
        self._guarded: dict[str, bool] = {}
        """Those in which what is left out is harmless, and whether it's zero."""
        self._axis: Arg | None = None
        self._tensor: BaseExpression | None = None
        """What it selects from."""
        self._choices: list[If | IfExp] = []
        """What asks whether anything is selected."""

    def edit(self, title: str) -> Edit:
        """Write what was followed; where a branch asks whether anything is selected, choose with
        ``torch.where``.
        """
        changes = self.spread.changes()
        if not self._choices:
            return self._place.edit(title, *changes)
        source, choice = self._source, only(list(dict.fromkeys(self._choices)), _ASKED_TWICE)
        changed = source.changed(*changes)
        at = find(source.tree, type(choice)).index(choice)
        line, _ = changed.start(find(changed.tree, type(choice))[at])
        without = select.edit(self._place.moved(changed, line))
        return replace(without, title=f"{without.title}, and {title[0].lower()}{title[1:]}")

    def follow(self, node: BaseExpression) -> None:
        """Follow selected values up to what reduces them."""
        source = self._source
        while True:
            decline_if(self.picked(node) is None, _DIRECT)
            if (counted := _length_of(source, node)) is not None:
                self._count(counted)
                return
            if (name := _set_to(source, node)) is not None:
                self._follow_names(name, node)
                return
            user = source.parent(node)
            outer = source.parent(user)
            is_given = isinstance(user, Attribute | Arg) and isinstance(outer, Call)
            call = outer if is_given and isinstance(outer, Call) else None
            if call is not None and _is_reduction(source, call, node):
                self._reduce(call, node)
                return
            if call is not None and self._follow_loss(call):
                return
            around = outer if isinstance(user, ComparisonTarget) else user
            node = call or need(around, BaseExpression, _DIRECT)
            decline_if(not isinstance(node, _OF_ELEMENTS), _DIRECT)

    def _follow_names(self, name: Name, node: BaseExpression) -> None:
        """Follow the reads of a name that is set to selected values, and of others that are set to
        what the mask selects.
        """
        source = self._source
        named = [(name, node)]
        function = known(source.function_of(node), "the line isn't in a function")
        for part in find(function, Subscript):
            other = _set_to(source, part)
            is_alike = source.code(index_of(part) or part) == self._index
            if other is not None and is_alike and other.value not in self._wholes:
                named += [(other, part)] if part is not node else []
        for kept, value in named:
            is_once = source.is_local(kept) and len(source.values(kept)) == 1
            decline_if(not is_once or not is_repeatable(self._mask), _DIRECT)
            is_guarded = self._has_gradient(value)
            self.spread.put(value, bare(known(self.picked(value, is_guarded=is_guarded))))
            self._wholes.add(kept.value)
            if is_guarded:
                self._guarded[kept.value] = self._is_zero(value)
        for read in itertools.chain.from_iterable(self._reads(kept) for kept, _ in named):
            self.follow(read)

    def _reads(self, name: Name) -> list[Name]:
        """Return what reads a name: what asks how many are selected comes first."""
        source = self._source
        return sorted(source.reads(name), key=lambda read: _length_of(source, read) is None)

    def _follow_loss(self, call: Call) -> bool:
        source = self._source
        name = source.dotted_name(call).removeprefix("torch.nn.functional.")
        kinds = [arg.value for arg in call.args if keyword_of(arg) == "reduction"]
        kind = source.code(kinds[0]).strip("\"'") if kinds else "mean"
        if name not in _LOSSES | _BY_CLASS or kind not in ("mean", "sum"):
            return False
        rest = [arg.deep_clone() for arg in call.args[2:] if keyword_of(arg) != "reduction"]
        decline_if(len(call.args) < 2 or not all(map(keyword_of, rest)), _DIRECT)
        decline_if(not is_repeatable(self._mask), _TWICE)
        is_guarded = name in _LOSSES
        given, target = (
            bare(known(self.picked(arg.value, is_guarded=is_guarded), _DIRECT))
            for arg in call.args[:2]
        )
        if name in _BY_CLASS:
            ignored = [arg.value for arg in rest if keyword_of(arg) == "ignore_index"]
            kept = where(self._mask, target, (*ignored, parse_expression("-100"))[0])
            flat = expression("{given}.flatten(0, -2)", given=as_operand(given))
            args = [Arg(flat), Arg(method_call(kept, "flatten")), *call.args[2:]]
            self.spread.put(call, call.with_changes(args=args).deep_clone())
            return True
        is_zero = name in _ZERO_AT_EQUAL and all(self._is_zero(arg.value) for arg in call.args[:2])
        reduction = SimpleString('"sum"' if is_zero else '"none"')
        args = [Arg(given), Arg(target), *rest, keyword_argument("reduction", reduction)]
        loss = call.with_changes(func=call.func.deep_clone(), args=args, lpar=[], rpar=[])
        text = loss if is_zero else self._where(loss, "sum")
        self._put(call, text, kind)
        return True

    def _choice(self, counted: BaseExpression) -> If | IfExp | None:
        """Return the branch that depends on whether anything is selected; None if the number is
        for something else.
        """
        asked = self._source.parent(counted)
        test = asked if asks_for_any(asked, self._source) is not None else counted
        parents = [test, *self._source.parents(test)]
        operators = UnaryOperation, BooleanOperation
        at = next(at for at, node in enumerate(parents[1:], 1) if not isinstance(node, operators))
        choice = parents[at]
        if isinstance(choice, If | IfExp) and choice.test is parents[at - 1]:
            return choice
        return None

    def _count(self, counted: BaseExpression) -> None:
        mask = as_operand(self._mask)
        if (choice := self._choice(counted)) is not None:
            self._choices.append(choice)
            asked = self._source.parent(counted)
            is_any = asks_for_any(asked, self._source)
            some: BaseExpression = method_call(mask, "any")
            some = UnaryOperation(BitInvert(), some) if is_any is False else some
            self.spread.put(counted if is_any is None else asked, some)
            return
        self.spread.put(counted, method_call(mask, "sum"))
        self.spread.follow(counted)

    def _reduce(self, call: Call, node: BaseExpression) -> None:
        source, mask = self._source, self._mask
        refuse_comment(call)
        self._axis = _axis(source, call)
        name = source.method_name(call)
        has_places = self._axis is not None and name in ("max", "min")
        decline_if(has_places, f"`{name}` over rows also returns their indices")
        if isinstance(mask, Comparison) and mask.left.deep_equals(known(self.picked(node))):
            self._axis = None  # The mask has the tensor's shape: what is selected has one dim.
        is_guarded = self._has_gradient(node) and is_repeatable(mask)
        inner = bare(known(self.picked(node, is_guarded=is_guarded)))
        is_zero = (is_guarded or dotted(node) in self._guarded) and self._is_zero(node)
        if is_zero and name in ("sum", "mean"):
            text: BaseExpression = method_call(inner, "sum")
        else:
            text = self._where(inner, "sum" if name == "mean" else name)
        axis = [self._axis] if self._axis is not None else []
        self._put(call, need(text, Call).with_changes(args=axis), name)

    def _where(self, inner: BaseExpression, name: str) -> Call:
        neutral = parse_expression(_NEUTRAL[name])
        return need(method_call(where(self._condition, inner, neutral), name), Call)

    @property
    def _condition(self) -> BaseExpression:
        if self._axis is None and not self._is_rows:
            return self._mask
        return expression("{mask}.unsqueeze(-1)", mask=as_operand(self._mask))

    def _put(self, call: Call, text: BaseExpression, name: str) -> None:
        """Write a sum, or for a mean, divide it by how many values are selected."""
        mask = self._mask
        if name == "mean":
            decline_if(not is_repeatable(mask), _TWICE)
            count = method_call(mask, "sum")
            if self._choices:
                # Where nothing is selected, another value is chosen.
                count = expression("{count}.clamp(min=1)", count=count)
            if self._is_rows and self._axis is None:
                width = expression("{x}.shape[-1]", x=as_operand(known(self._tensor, _DIRECT)))
                count = bracketed(BinaryOperation(count, Multiply(), width))
            text = BinaryOperation(text, Divide(), count)
        self.spread.put(call, _beside(self._source, call, text))

    def _has_gradient(self, node: BaseExpression) -> bool:
        """Check whether gradients flow through a computation with what is selected: where that is
        left out, they must be finite, too.
        """
        is_plain = _selection(self._source, node) is not None or isinstance(node, Name)
        is_cut = holds(node, Comparison) or any(
            self._source.method_name(call) == "argmax" for call in find(node, Call)
        )
        return not is_plain and not is_cut

    def _is_zero(self, node: BaseExpression) -> bool:
        """Check whether a computation with selected values gives zero where they are zero."""
        match node:
            case Integer(value=number) | Float(value=number):
                return float(ast.literal_eval(number)) == 0
            case Name(value=name):
                return self._guarded.get(name, name in self._wholes)
            case Subscript():
                return True
            case BinaryOperation(left=left, operator=Multiply(), right=right):
                return self._is_zero(left) or self._is_zero(right)
            case BinaryOperation(left=left, operator=Add() | Subtract(), right=right):
                return self._is_zero(left) and self._is_zero(right)
            case BinaryOperation(left=left):
                return self._is_zero(left)
            case Call() if (inner := self._source.receiver(node)) is not None:
                return self._source.method_name(node) in _ZERO_AT_ZERO and self._is_zero(inner)
        return False

    def picked(self, node: CSTNode | None, *, is_guarded: bool = False) -> BaseExpression | None:
        """Write a computation with selected values on whole tensors; None if it isn't
        elementwise. What is left out is zero in it if it is guarded.
        """
        source = self._source
        selection = _selection(source, node) if node is not None else None
        if selection is not None and source.code(selection.index) == self._index:
            self._tensor = selection.tensor
            tensor = as_operand(selection.tensor)
            return where(self._condition, tensor, Integer("0")) if is_guarded else tensor
        match node:
            case BaseNumber():
                return node.deep_clone()
            case Name(value=name) if name in self._wholes:
                is_raw = is_guarded and name not in self._guarded
                copy = node.deep_clone()
                return where(self._condition, copy, Integer("0")) if is_raw else copy
            case UnaryOperation(operator=Minus() | BitInvert(), expression=value):
                inner = self.picked(value, is_guarded=is_guarded)
                return node.with_changes(expression=inner) if inner is not None else None
            case Comparison(left=left, comparisons=[ComparisonTarget(comparator=right) as target]):
                sides = [self.picked(side, is_guarded=is_guarded) for side in (left, right)]
                if sides[0] is None or sides[1] is None:
                    return None
                pair = target.with_changes(comparator=sides[1])
                return node.with_changes(left=sides[0], comparisons=[pair])
            case (
                BinaryOperation(operator=Power(), right=Integer())
                | BinaryOperation(operator=Divide(), right=BaseNumber())
                | BinaryOperation(operator=Add() | Subtract() | Multiply())
            ):
                both = [
                    self.picked(side, is_guarded=is_guarded) for side in (node.left, node.right)
                ]
                left_, right_ = both
                is_whole = left_ is not None and right_ is not None
                return node.with_changes(left=left_, right=right_) if is_whole else None
            case Call() if _is_elementwise(source, node):
                inner = self.picked(source.receiver(node), is_guarded=is_guarded)
                if inner is None:
                    return None
                func = node.func.deep_clone()
                if source.dotted_name(node):
                    return node.with_changes(func=func, args=[Arg(inner), *node.args[1:]])
                return node.with_changes(func=need(func, Attribute).with_changes(value=inner))
        return None


def _is_elementwise(source: SourceFile, call: Call) -> bool:
    name = source.method_name(call)
    return _is_within_rows(source, call) or (name in _ELEMENTWISE and not source.given_to(call))


def _is_reduction(source: SourceFile, call: Call, node: CSTNode) -> bool:
    is_of_it = source.receiver(call) is node and not _is_within_rows(source, call)
    return is_of_it and source.method_name(call) in _NEUTRAL


def _is_within_rows(source: SourceFile, call: Call) -> bool:
    given = [source.code(arg).replace(" ", "") for arg in source.given_to(call)]
    return source.method_name(call) in _IN_ROWS and given in (["-1"], ["dim=-1"])


def _length_of(source: SourceFile, node: CSTNode) -> BaseExpression | None:
    """Return what gives the length of a node: ``len(x)``, ``x.shape[0]``, ``x.numel()``."""
    user = source.parent(node)
    outer = source.parent(user)
    match user, outer:
        case Arg(), Call() if source.dotted_name(outer) == "builtins.len":
            return outer
        case Attribute(attr=Name("numel" | "nelement")), Call(args=[]):
            return outer
        case Attribute(attr=Name("size")), Call(args=[Arg(value=Integer("0"))]):
            return outer
        case Attribute(attr=Name("shape")), Subscript() if source.code(outer).endswith("[0]"):
            return outer
    return None


def _set_to(source: SourceFile, node: BaseExpression) -> Name | None:
    """Return the name that is set to an expression, alone or beside others."""
    match source.parent(node), source.parent(source.parent(node)):
        case Assign(targets=[AssignTarget(target=Name() as name)]), _:
            return name
        case Assign(), _:
            raise DeclinedError(_DIRECT)
        case Element() as part, Tuple(elements=values) as whole:
            match source.parent(whole):
                case Assign(targets=[AssignTarget(target=Tuple(elements=names))]) if len(
                    names
                ) == len(values):
                    target = names[[*values].index(part)].value
                    return target if isinstance(target, Name) else None
    return None


def _beside(source: SourceFile, old: CSTNode, new: BaseExpression) -> BaseExpression:
    """Put brackets around what takes the place of a node where operators need them."""
    had = need(old, BaseExpression)
    if had.lpar:
        return new.with_changes(lpar=had.lpar, rpar=had.rpar)
    around = source.parent(old)
    is_sum = isinstance(around, BinaryOperation) and isinstance(around.operator, Add | Subtract)
    is_product = isinstance(new, BinaryOperation) and isinstance(new.operator, Divide | Multiply)
    is_alone = isinstance(around, _BRACKETS) or (is_sum and is_product)
    return new if is_alone or not isinstance(new, BinaryOperation) else bracketed(new)


def _axis(source: SourceFile, call: Call) -> Arg | None:
    match source.given_to(call):
        case []:
            return None
        case [Arg(keyword=None | Name("dim"), star="", value=Integer("0")) as axis]:
            return axis.deep_clone()
    raise DeclinedError("its arguments aren't supported")


_AUGMENTED: dict[type[BaseAugOp], BaseBinaryOp] = {
    AddAssign: Add(),
    SubtractAssign: Subtract(),
    MultiplyAssign: Multiply(),
    DivideAssign: Divide(),
}


def _assigned(
    place: Place, small: Assign | AugAssign, target: _Selection, *, is_rows: bool
) -> Edit:
    """Write ``x[mask] = …`` and ``x[mask] += …`` with values that the same mask selects, or
    numbers.
    """
    source, tensor = place.source, target.tensor
    refuse_comment(small)
    decline_if(not is_repeatable(tensor), "the tensor would be computed twice")
    picked = _Dense(place, target.index, is_rows=False).picked(small.value)
    inner = known(picked, "the assigned values aren't selected by the same mask")
    is_safe = False
    if isinstance(small, AugAssign):
        operator = _AUGMENTED.get(type(small.operator))
        operator = known(operator, "the operator isn't `+=`, `-=`, `*=` or `/=`")
        is_divided = isinstance(operator, Divide) and not isinstance(small.value, BaseNumber)
        decline_if(is_divided, "it could divide by values that the mask leaves out")
        inner = BinaryOperation(tensor.deep_clone(), operator, as_operand(inner))
        is_number = isinstance(small.value, Integer | Float)
        is_safe = is_number and not is_rows and _compares(target.index, tensor)
    else:
        decline_if(not is_repeatable(target.index), _TWICE)
    rows = expression("{mask}.unsqueeze(-1)", mask=as_operand(target.index))
    kept = where(rows if is_rows else target.index, bare(inner), tensor)
    # The caller, or other code, may hold the same tensor, so it changes in place.
    new = Expr(Call(Attribute(as_operand(tensor), Name("copy_")), [Arg(kept)]))
    title = f"Select with `torch.where` in place of `{source.shortened(target.node)}`"
    return place.edit(title, (small, new.with_changes(semicolon=small.semicolon)), is_safe=is_safe)


def _compares(mask: BaseExpression, tensor: BaseExpression) -> bool:
    match mask:
        case Comparison(left=left, comparisons=[ComparisonTarget(comparator=BaseNumber())]):
            return isinstance(tensor, Name) and left.deep_equals(tensor)
    return False


def _selection(source: SourceFile, node: CSTNode) -> _Selection | None:
    if isinstance(node, Subscript) and (index := index_of(node)) is not None:
        return _Selection(node, node.value, index)
    if isinstance(node, Call) and (tensor := source.receiver(node)) is not None:
        match source.method_name(node), source.given_to(node):
            case "masked_select", [Arg(value=mask)]:
                return _Selection(node, tensor, mask)
    return None


def _is_masked(source: SourceFile, node: BaseExpression) -> bool:
    """Check whether the index may be a mask: neither a number nor a string nor a slice."""
    selection = _selection(source, node)
    match selection and selection.index:
        case UnaryOperation(operator=operator) | BinaryOperation(operator=operator):
            return isinstance(operator, _OF_MASKS)
        case index:
            return isinstance(index, _MASKS)


def _is_nonzero(source: SourceFile, node: BaseExpression) -> bool:
    if not isinstance(node, Call) or source.receiver(node) is None:
        return False
    is_where = source.dotted_name(node) == "torch.where"
    is_method = is_where or source.method_name(node) == "nonzero"
    return is_method and all(argument.keyword for argument in source.given_to(node))

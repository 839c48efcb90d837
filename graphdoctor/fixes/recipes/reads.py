"""Values that Python or a mask picks out of tensors: a number that is read, with everything that is
computed from it, and what a mask selects. Keep the tensor, and its shape.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import cast

from libcst import (
    Add,
    AddAssign,
    AnnAssign,
    Arg,
    Assert,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseAugOp,
    BaseBinaryOp,
    BaseExpression,
    BaseNumber,
    BaseSmallStatement,
    BaseString,
    BinaryOperation,
    BitAnd,
    BitInvert,
    BitOr,
    BitXor,
    BooleanOperation,
    Call,
    ClassDef,
    Comparison,
    ComparisonTarget,
    CSTNode,
    DictElement,
    Divide,
    DivideAssign,
    Element,
    Expr,
    Float,
    FormattedStringExpression,
    FunctionDef,
    If,
    IfExp,
    Index,
    Integer,
    Lambda,
    List,
    Minus,
    Multiply,
    MultiplyAssign,
    Name,
    NamedExpr,
    Plus,
    Power,
    Return,
    SimpleString,
    Slice,
    Subscript,
    SubscriptElement,
    Subtract,
    SubtractAssign,
    Tuple,
    UnaryOperation,
    While,
    With,
    Yield,
    parse_expression,
)
from libcst.metadata import Assignment

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.expressions import is_boolean, is_literal_number
from graphdoctor.fixes.source.extraction import call_of_part
from graphdoctor.fixes.source.nodes import (
    ARITHMETIC,
    ORDERS,
    as_operand,
    assigned,
    bare,
    bracketed,
    expression,
    index_of,
    is_repeatable,
    keyword_of,
    method_call,
    refuse_comment,
    targets_of,
    where,
    without_parentheses,
)
from graphdoctor.fixes.source.torch_names import FRESH, REDUCED, words
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    find,
    known,
    last_name,
    need,
)

_CASTS = {"builtins.float": "float", "builtins.int": "int"}
_ANY_CAST = {*_CASTS, "builtins.bool"}
_MATH = words("sqrt exp log log2 log10 log1p expm1 sin cos tan tanh sinh cosh atan", "math.")
"""Functions of ``math`` that torch has under the same name, for one tensor."""

_REDUCTIONS = REDUCED - {"all", "any", "prod", "sum"}
"""Methods of a tensor that return one zero-dim tensor of the same dtype if they are called without
arguments."""

_SAME_DTYPE = _REDUCTIONS | {"abs", "detach"}
"""Methods of a tensor whose result has the same dtype."""

_WHOLE = words("argmax argmin count_nonzero long int")
"""Methods whose result is an integer, through which no gradient can flow."""

_TAKES_TENSOR = words("""
    add sub subtract mul multiply div divide true_divide floor_divide pow fmod remainder where lerp
    masked_fill eq ne lt le gt ge
""")
"""Functions and methods of torch that compute the same with a number and with a zero-dim tensor."""

_CHOOSING = (If, While, Assert, BooleanOperation, UnaryOperation)
_NEEDS: tuple[tuple[tuple[type[CSTNode], ...], str], ...] = (
    ((*_CHOOSING, IfExp), "the number decides which branch runs"),
    ((Return, Yield, Lambda), "the number is returned"),
    ((Index, Slice), "the number is an index"),
    ((FormattedStringExpression,), "the number is formatted as text"),
    ((Element, DictElement, AnnAssign), "the number is stored"),
    ((Expr,), "nothing uses the number"),
)
_STORED = "the number is stored"


@recipe("GD103")
def keep_tensor(place: Place) -> Edit:
    """``y / y.max().item()`` becomes ``y / y.max().detach()``.

    ``detach()`` keeps gradients as they are, because a number has none; it is left out if no
    gradient can flow. Safe only for a maximum, a mean and the like of the same tensor that the
    number is combined with, so that the dtype stays the same.
    """
    read = _Read(place)
    kept = "a detached tensor" if read.needs_detach else "the tensor"
    title = f"Keep {kept} in place of the number that `{read.words}` reads"
    return place.edit(title, *read.changes(is_detached=True), is_safe=read.keeps_dtype)


@recipe("GD103")
def drop_item(place: Place) -> Edit:
    """``y / y.max().item()`` becomes ``y / y.max()``, so that gradients flow through the value."""
    read = _Read(place)
    decline_if(not read.needs_detach, "no gradient can flow through the value")
    title = f"Keep the tensor that `{read.words}` reads, and let gradients flow through it"
    return place.edit(title, *read.changes(is_detached=False))


@recipe("GD103")
def equal_number(place: Place) -> Edit:
    """``idx[-1].item() + 1`` becomes ``charge.shape[0]``, if they were the same in each call.

    Unsafe: other inputs may have others.
    """
    source = place.source
    first = place.pointed(lambda node: source.read_of(node, _CASTS), "`.item()` or `int(…)`")
    outer = [node for node in source.parents(first) if isinstance(node, BaseExpression)]
    equals = [(node, equal) for node in (first, *outer) if (equal := place.equal_to(node))]
    decline_if(not equals, "no size or number in scope equals it")
    node, equal = equals[-1]
    shown = source.shortened(without_parentheses(node))
    title = f"Use `{equal.names[0]}` in place of `{shown}`{equal.words}"
    return place.edit(title, (node, parse_expression(equal.names[0])))


@recipe("GD103", "GD119")
def keep_number(place: Place) -> Edit:
    """``data["mode"] = torch.tensor(1)`` becomes ``data["mode"] = 1``, where it's only read by
    ``.item()`` and casts.

    The same for attributes of ``self`` and for variables. Unsafe: other files may read a tensor
    there.
    """
    source = place.source
    kept = place.pointed(
        lambda node: source.read_of(node, _ANY_CAST), "`.item()`, `int(…)` or `bool(…)`"
    )
    while (inner := source.read_of(kept, _ANY_CAST)) is not None:
        kept = inner
    same = _same(source, kept)
    is_set = any(isinstance(source.parent(node), AssignTarget) for node in same)
    decline_if(not is_set, "nothing in the file sets it to a tensor of one number")
    changes = [change for node in same for change in _as_number(source, node)]
    title = f"Keep the number itself in `{source.shortened(kept)}`, in place of a tensor of it"
    return place.edit(title, *changes)


def _same(source: SourceFile, node: BaseExpression) -> list[CSTNode]:
    """Return where the file names what a node stands for: an item of any dictionary, an attribute
    of ``self``, a variable.
    """
    match node, index_of(node):
        case Name(), _:
            bindings = source.assignments(node)
            set_ = [binding.node for binding in bindings if isinstance(binding, Assignment)]
            return [*set_, *source.reads(node)]
        case Attribute(value=Name("self")), _:
            unclear = "the attribute isn't of a class in the file"
            owner = known(source.around(node, ClassDef), unclear)
            return [
                attribute
                for attribute in find(owner, Attribute)
                if dotted(attribute) == dotted(node)
            ]
        case _, SimpleString(value=key):
            texts = [(subscript, index_of(subscript)) for subscript in find(source.tree, Subscript)]
            return [
                subscript
                for subscript, text in texts
                if isinstance(text, SimpleString)
                and ast.literal_eval(text.value) == ast.literal_eval(key)
            ]
    raise DeclinedError("it isn't an item, an attribute or a variable")


def _as_number(source: SourceFile, node: CSTNode) -> list[Change]:
    parent = source.parent(node)
    outer = source.parent(parent)
    match parent, outer:
        case AssignTarget(), Assign(value=Call(args=[Arg(value=value, keyword=None, star="")])):
            is_tensor = source.dotted_name(outer.value) == "torch.tensor"
            if is_tensor and (is_literal_number(value) or dotted(value) in ("True", "False")):
                return [(outer.value, value)]
        case If(test=test) | IfExp(test=test), _ if test is node:
            return []
        case _, Call() if source.read_of(outer, _ANY_CAST) is node:
            return [] if isinstance(parent, Arg) else [(outer, node)]
    is_set = isinstance(parent, AssignTarget)
    written = "it isn't always a tensor of one number that is written there"
    raise DeclinedError(written if is_set else "it's used as a tensor, too")


class _Read:
    def __init__(self, place: Place) -> None:
        source = self._source = place.source
        first = place.pointed(self._read_by, "`.item()`, `float(…)` or `int(…)`")
        self._is_math = source.dotted_name(first) in _MATH
        self._call = self._tensor = known(self._read_by(first))
        self._cast = ""
        if not self._is_math:
            outer: CSTNode = first
            while self._tensor_of(outer) is not None:
                self._call = cast("BaseExpression", outer)
                argument = source.parent(outer)
                outer = source.parent(argument) if isinstance(argument, Arg) else argument
            self._cast = _CASTS.get(source.dotted_name(self._call), "")
            while (inner := self._tensor_of(self._tensor)) is not None:
                self._tensor = inner
        self._chain: list[Call] = []
        """The calls that produce the tensor, last first: ``max`` and ``abs`` for
        ``y.abs().max()``."""
        node: BaseExpression | None = self._tensor
        while isinstance(node, Call):
            self._chain.append(node)
            node = source.receiver(node)
        self._root = node
        self._methods = [source.method_name(call) for call in self._chain]
        self._seen: set[CSTNode] = {self._call}
        self._math: list[BaseExpression] = []
        self._read_late: list[Name] = []
        """Uses of the number in the function that calls the compiled part, which read it there."""
        self._follow(self._call)

    def _read_by(self, node: BaseExpression) -> BaseExpression | None:
        """Return what a node reads: a tensor, or what ``math.sqrt(x)`` takes unless it is a number
        already.
        """
        match node:
            case Call(args=[Arg(value=value, keyword=None, star="")]) if self._source.dotted_name(
                node
            ) in _MATH and not _is_number(self._source, value):
                return value
        return self._tensor_of(node)

    def _tensor_of(self, node: CSTNode) -> BaseExpression | None:
        return self._source.read_of(node, _CASTS)

    @property
    def words(self) -> str:
        return self._source.shortened(self._call)

    @property
    def needs_detach(self) -> bool:
        if self._cast == "int" or self._is_under_no_grad():
            return False
        for call, name in zip(self._chain, self._methods, strict=True):
            if name in _WHOLE | {"detach"}:
                return False
            arguments = self._source.given_to(call)
            if not all(_is_number(self._source, argument.value) for argument in arguments):
                return True  # through another argument
        return True

    def _is_under_no_grad(self) -> bool:
        managers: list[CSTNode] = []
        for parent in self._source.parents(self._call):
            if isinstance(parent, With):
                managers += [item.item for item in parent.items]
            if isinstance(parent, FunctionDef):
                managers += [decorator.decorator for decorator in parent.decorators]
                break
        return any(map(self._source.is_without_grad, managers))

    def changes(self, *, is_detached: bool) -> list[Change]:
        source, tensor, user = self._source, self._tensor, self._source.parent(self._call)
        refuse_comment(self._call, tensor)
        names = ["detach"] if is_detached and self.needs_detach else []
        is_whole = bool(_WHOLE.intersection(self._methods))
        if self._cast == "int" and not is_whole:
            names.append("long")
        if self._cast == "float" and (is_whole or isinstance(tensor, Comparison)):
            names.append("float")
        # A number doesn't change after it was read; a tensor that shares memory would.
        is_computed = isinstance(tensor, BinaryOperation | UnaryOperation | Comparison)
        is_fresh = is_computed or source.method_name(tensor) in FRESH
        if isinstance(user, Assign | NamedExpr) and not is_fresh:
            names.append("clone")
        kept = method_call(tensor, *names) if names else as_operand(tensor)
        if isinstance(user, Arg | Assign) and not source.spans_lines(tensor):
            kept = bare(kept)
        math: list[Change] = [
            (func, Attribute(Name("torch"), Name(last_name(func)))) for func in self._math
        ]
        late = [(read, method_call(read, "item")) for read in self._read_late]
        return [(self._call, kept), *math, *late]

    def _follow(self, node: CSTNode) -> None:
        parent = self._source.parent(node)
        match parent:
            case BinaryOperation(operator=operator) if isinstance(operator, ARITHMETIC):
                other = parent.right if parent.left is node else parent.left
                decline_if(isinstance(other, BaseString | List | Tuple), "it isn't arithmetic")
                if other in self._seen or _is_number(self._source, other):
                    self._seen.add(parent)
                    self._follow(parent)
            case UnaryOperation(operator=Minus() | Plus()):
                self._seen.add(parent)
                self._follow(parent)
            case Comparison():
                self._follow_comparison(parent, node)
            case ComparisonTarget():
                self._follow_comparison(self._source.parent(parent), node)
            case Arg():
                self._follow_argument(parent)
            case Assign():
                for target in parent.targets:
                    self._follow_name(target.target)
            case AugAssign():
                name = need(parent.target, Name, _STORED)
                if _is_number(self._source, name):
                    self._follow_name(name)
            case NamedExpr():
                self._follow_name(parent.target)
                self._follow(parent)
            case IfExp() if parent.test is not node:
                self._follow(parent)
            case Element() if (received := self._received(parent)) is not None:
                self._read_late += self._source.reads(received)
            case _:
                needs = (reason for kinds, reason in _NEEDS if isinstance(parent, kinds))
                raise DeclinedError(next(needs, "it's unclear what uses the number"))

    def _follow_comparison(self, comparison: CSTNode, node: CSTNode) -> None:
        user = self._source.parent(comparison)
        is_test = isinstance(user, If | IfExp | Assert) and user.test is comparison
        is_truth = isinstance(user, _CHOOSING) or is_test
        match comparison:
            case Comparison(
                left=left, comparisons=[ComparisonTarget(operator=operator, comparator=right)]
            ):
                if is_test and isinstance(node, Name):
                    return  # the branch on the tensor is the next break to fix
                other = right if left is node else left
                is_tensors = isinstance(operator, ORDERS) and not is_truth
                if is_tensors and not _is_number(self._source, other):
                    return
        raise DeclinedError("the number is compared in Python")

    def _follow_argument(self, argument: Arg) -> None:
        passed_on = "the number is passed on"
        call = need(self._source.parent(argument), Call, passed_on)
        decline_if(argument.star, passed_on)
        name, method = self._source.dotted_name(call), self._source.method_name(call).rstrip("_")
        if name == "builtins.abs" or name in _MATH:
            self._math += [call.func] if name in _MATH else []
            self._seen.add(call)
            self._follow(call)
            return
        code = self._source.code(call.func)
        decline_if(name and not name.startswith("torch."), f"`{code}` needs a Python number")
        # Either both bounds are tensors, or one is missing.
        is_bound = method in ("clamp", "clip") and len(self._source.given_to(call)) == 1
        others = {"alpha", "rounding_mode", "out"}.intersection(map(keyword_of, call.args))
        is_taken = method in _TAKES_TENSOR and not others
        decline_if(not is_bound and not is_taken, f"`{code}` may need a Python number")

    def _follow_name(self, target: BaseExpression) -> None:
        name = need(target, Name, _STORED)
        decline_if(not self._source.is_local(name), _STORED)
        reads = [read for read in self._source.reads(name) if read not in self._seen]
        self._seen.update((name, *reads))
        for read in reads:
            self._follow(read)

    def _received(self, element: CSTNode) -> Name | None:
        """Return the name that gets a value which a compiled part returns beside others; None if
        it's no such value.
        """
        values, function = self._source.parent(element), self._source.function_of(element)
        is_returned = isinstance(self._source.parent(values), Return)
        if not isinstance(function, FunctionDef) or not is_returned:
            return None
        line = call_of_part(self._source, function)
        match values, line and line.body[0]:
            case Tuple(elements=elements), Assign(
                targets=[AssignTarget(target=Tuple(elements=taken))]
            ):
                pairs = zip(elements, taken, strict=True)
                return need(
                    next(to.value for received, to in pairs if received is element), Name, _STORED
                )
        return None

    @property
    def keeps_dtype(self) -> bool:
        root, methods = self._root, self._methods
        is_made = self._cast or self._is_math or self._math or not methods
        if is_made or not isinstance(root, Name) or len(self._source.values(root)) != 1:
            return False
        if methods[0] not in _REDUCTIONS or not _SAME_DTYPE.issuperset(methods):
            return False
        users = map(self._source.parent, self._seen)
        has_arguments = any(self._source.given_to(call) for call in self._chain)
        return not has_arguments and all(
            _is_with(user, root.value)
            for user in users
            if not isinstance(user, AssignTarget | Assign)
        )


def _is_with(user: CSTNode, name: str) -> bool:
    match user:
        case BinaryOperation(operator=Add() | Subtract() | Multiply() | Divide()):
            return name in (dotted(user.left), dotted(user.right))
    return False


def _is_number(source: SourceFile, node: BaseExpression | None, depth: int = 0) -> bool:
    match node:
        case BaseNumber():
            return True
        case UnaryOperation():
            return _is_number(source, node.expression, depth)
        case BinaryOperation():
            return _is_number(source, node.left, depth) and _is_number(source, node.right, depth)
        case Subscript(value=Attribute(attr=Name("shape"))) | Attribute(attr=Name("ndim")):
            return True
        case Call():
            name = source.dotted_name(node)
            is_builtin = name in {"builtins.len", "builtins.round", *_CASTS}
            is_method = source.method_name(node) in ("item", "numel", "size", "dim")
            return is_builtin or is_method or name.startswith("math.")
        case Name() if (parameter := source.parameter(node)) is not None:
            annotation = (
                parameter.annotation.annotation if parameter.annotation is not None else None
            )
            is_number = isinstance(parameter.default, BaseNumber)
            return is_number or dotted(annotation) in ("float", "int")
        case Name() | Attribute() if depth < 4:
            values = source.bound_to(node)
            return source.dotted_name(node).startswith("math.") or (
                bool(values) and all(_is_number(source, value, depth + 1) for value in values)
            )
    return False


_NEUTRAL = {
    **dict.fromkeys(("sum", "mean"), "0"),
    **dict.fromkeys(("max", "amax"), "-torch.inf"),
    **dict.fromkeys(("min", "amin"), "torch.inf"),
}
"""Reductions, and the value that doesn't change the result of each."""

_ELEMENTWISE = words("abs neg square sin cos tanh sigmoid relu float detach")
"""Elementwise methods whose gradient is finite everywhere."""

_FLATTENING = words("squeeze flatten view reshape ravel")
_MASKS = Name | Attribute | Comparison | Call
_OF_MASKS = BitInvert | BitAnd | BitOr | BitXor | Multiply
"""Operators that masks are made with; `x[-1]` and `x[n - 1]` select by a position."""

_BRACKETS = Arg | Assign | AugAssign | Return | Element | Index | NamedExpr
"""Statements and brackets around an expression."""

_DIRECT = "the selected values are used directly"
_INDICES = "the indices where the mask is true are used directly"
_TWICE = "the mask would be computed twice"


@dataclass(frozen=True)
class _Selection:
    """``x[mask]``, ``x.masked_select(mask)``, ``x.index_select(0, rows)``."""

    node: BaseExpression
    tensor: BaseExpression
    index: BaseExpression


@recipe("GD104")
def mask_without_indexing(place: Place) -> Edit:
    """``x[mask].sum()`` becomes ``torch.where(mask, x, 0).sum()``, ``x[mask] *= 2`` a
    ``torch.where`` as well.

    Also for what ``torch.nonzero(mask)`` selects. Unsafe: it assumes that the mask has the shape of
    the tensor, or one value for each row, and sums add up in another order. Safe only for ``x[x >
    0] *= 2``, where neither applies.
    """
    source = place.source
    node = place.pointed(
        lambda node: _is_nonzero(source, node) or _is_masked(source, node),
        "a mask that selects values",
    )
    title = f"Select with `torch.where` in place of `{source.shortened(node)}`"
    if _is_nonzero(source, node):
        return place.edit(title, *_without_places(source, node).items())
    selection = known(_selection(source, node))
    small = source.around(node, BaseSmallStatement)
    if isinstance(small, Assign | AugAssign):
        targets = targets_of(small)
        target = _selection(source, targets[0]) if len(targets) == 1 else None
        is_same = target and source.code(target.index) == source.code(selection.index)
        if target and is_same and isinstance(target.node, Subscript):
            return _assigned(place, small, target)
    return place.edit(title, _reduced(source, selection, selection.index))


def _without_places(source: SourceFile, node: BaseExpression) -> dict[CSTNode, BaseExpression]:
    """Write ``rows = torch.nonzero(mask).squeeze(-1)`` as ``rows = mask.bool()``, and uses of it as
    reductions.
    """
    tensor = known(source.receiver(node), _INDICES)
    mask = as_operand(tensor) if is_boolean(tensor, source) else method_call(tensor, "bool")
    places, is_tuple = _places(source, need(node, Call, _INDICES))
    refuse_comment(places)
    match source.parent(places):
        case Assign(targets=[AssignTarget(target=Name() as name)]):
            is_once = source.is_local(name) and len(source.values(name)) == 1
            more = "the indices where the mask is true are assigned more than once"
            decline_if(not is_once, more)
            around = [(read, _around(source, read)) for read in source.reads(name)]
            changes: dict[CSTNode, BaseExpression] = dict(
                _reduced(source, selection, read, is_rows=not is_tuple)
                for read, selection in around
                if not _is_set_to_number(source, selection)
            )
            is_plain = isinstance(mask, Comparison) and not source.spans_lines(tensor)
            return {**changes, places: bare(mask) if is_plain else mask}
        case Index() | Arg():
            selection = _around(source, places)
            return dict(
                [_reduced(source, selection, mask, is_rows=not is_tuple, index_node=places)]
            )
    raise DeclinedError(_INDICES)


def _places(source: SourceFile, call: Call) -> tuple[BaseExpression, bool]:
    keywords = {keyword_of(argument): source.code(argument.value) for argument in call.args}
    user = source.parent(call)
    if source.method_name(call) == "where" or keywords.get("as_tuple", "False") != "False":
        match user, index_of(user):
            case Subscript(), Integer(value="0"):
                return user, False
        return call, True
    is_flat = isinstance(user, Attribute) and user.attr.value in _FLATTENING
    return need(source.parent(user) if is_flat else None, Call, _INDICES), False


def _around(source: SourceFile, index: CSTNode) -> _Selection:
    holders = Index | SubscriptElement | Arg
    parent = next(parent for parent in source.parents(index) if not isinstance(parent, holders))
    selection = known(_selection(source, parent), _INDICES)
    decline_if(selection.index is not index, _INDICES)
    return selection


def _reduced(
    source: SourceFile,
    selection: _Selection,
    mask: BaseExpression,
    *,
    is_rows: bool = False,
    index_node: CSTNode | None = None,
) -> tuple[Call, BaseExpression]:
    index = source.code(index_node if index_node is not None else mask)
    node: CSTNode = selection.node
    while True:
        inner = known(_picked(source, node, index), _DIRECT)
        user = source.parent(node)
        outer = source.parent(user)
        is_it = isinstance(user, Attribute | Arg) and source.receiver(outer) is node
        call = outer if is_it and isinstance(outer, Call) else None
        if call is not None and source.method_name(call) in _NEUTRAL:
            break
        node = call if call is not None else user
        decline_if(not isinstance(node, Call | BinaryOperation | UnaryOperation), _DIRECT)
    refuse_comment(call)
    name, axis = source.method_name(call), _axis(source, call)
    decline_if(is_rows and axis is None, "nothing shows that it selects rows of a matrix")
    if isinstance(mask, Comparison) and mask.left.deep_equals(selection.tensor):
        axis = None  # The mask has the tensor's shape, so the selected values have one dim.
    match mask:
        case Call(func=Attribute(value=uncast, attr=Name("bool"))):
            pass
        case uncast:
            pass
    decline_if(name == "mean" and not is_repeatable(uncast), _TWICE)
    has_places = axis is not None and name not in ("sum", "mean")
    decline_if(has_places, f"`{name}` over rows also returns their indices")
    condition = mask
    if axis is not None:
        condition = expression("{mask}.unsqueeze(-1)", mask=as_operand(mask))
    reduction = "sum" if name == "mean" else name
    template = f"torch.where({{mask}}, {{picked}}, {_NEUTRAL[name]}).{reduction}()"
    text: BaseExpression = expression(template, mask=condition, picked=bare(inner)).with_changes(
        args=[axis] if axis is not None else []
    )
    if name == "mean":
        text = BinaryOperation(text, Divide(), method_call(mask, "sum"))
        around = source.parent(call)
        is_sum = isinstance(around, BinaryOperation) and isinstance(around.operator, Add | Subtract)
        if call.lpar:
            text = text.with_changes(lpar=call.lpar, rpar=call.rpar)
        elif not is_sum and not isinstance(around, _BRACKETS):
            text = bracketed(text)
    return call, text


def _axis(source: SourceFile, call: Call) -> Arg | None:
    match source.given_to(call):
        case []:
            return None
        case [Arg(keyword=None | Name("dim"), star="", value=Integer("0")) as axis]:
            return axis.deep_clone()
    raise DeclinedError("its arguments aren't supported")


def _picked(source: SourceFile, node: CSTNode | None, index: str) -> BaseExpression | None:
    """Write a computation with the values that an index selects on whole tensors; None if it isn't
    elementwise.
    """
    selection = _selection(source, node) if node is not None else None
    if selection is not None and source.code(selection.index) == index:
        return as_operand(selection.tensor)
    match node:
        case BaseNumber():
            return node.deep_clone()
        case UnaryOperation(operator=Minus(), expression=value):
            inner = _picked(source, value, index)
            return node.with_changes(expression=inner) if inner is not None else None
        case (
            BinaryOperation(operator=Power(), right=Integer())
            | BinaryOperation(operator=Divide(), right=BaseNumber())
            | BinaryOperation(operator=Add() | Subtract() | Multiply())
        ):
            left, right = (_picked(source, side, index) for side in (node.left, node.right))
            is_whole = left is not None and right is not None
            return node.with_changes(left=left, right=right) if is_whole else None
        case Call(func=func) if source.method_name(node) in _ELEMENTWISE and not source.given_to(
            node
        ):
            inner = _picked(source, source.receiver(node), index)
            if inner is None:
                return None
            if node.args:
                return node.with_changes(func=func.deep_clone(), args=[Arg(inner)])
            return node.with_changes(func=Attribute(inner, Name(source.method_name(node))))
    return None


_AUGMENTED: dict[type[BaseAugOp], BaseBinaryOp] = {
    AddAssign: Add(),
    SubtractAssign: Subtract(),
    MultiplyAssign: Multiply(),
    DivideAssign: Divide(),
}


def _assigned(place: Place, small: Assign | AugAssign, target: _Selection) -> Edit:
    """Write ``x[mask] = …`` and ``x[mask] += …`` with values that the same mask selects, or
    numbers.
    """
    source, tensor = place.source, target.tensor
    refuse_comment(small)
    decline_if(not is_repeatable(tensor), "the tensor would be computed twice")
    picked = _picked(source, small.value, source.code(target.index))
    inner = known(picked, "the assigned values aren't selected by the same mask")
    is_safe = False
    if isinstance(small, AugAssign):
        operator = _AUGMENTED.get(type(small.operator))
        operator = known(operator, "the operator isn't `+=`, `-=`, `*=` or `/=`")
        is_divided = isinstance(operator, Divide) and not isinstance(small.value, BaseNumber)
        decline_if(is_divided, "it could divide by values that the mask leaves out")
        inner = BinaryOperation(tensor.deep_clone(), operator, as_operand(inner))
        is_safe = isinstance(small.value, Integer | Float) and _compares(target.index, tensor)
    else:
        decline_if(not is_repeatable(target.index), _TWICE)
    kept = where(target.index, bare(inner), tensor)
    # Other code may hold the same tensor, such as the caller that passed it in; then it has to
    # change in place.
    new: BaseSmallStatement = Expr(Call(Attribute(as_operand(tensor), Name("copy_")), [Arg(kept)]))
    if isinstance(tensor, Name) and _is_own(source, tensor):
        new = assigned(tensor.deep_clone(), kept).body[0]
    title = f"Select with `torch.where` in place of `{source.shortened(target.node)}`"
    return place.edit(title, (small, new.with_changes(semicolon=small.semicolon)), is_safe=is_safe)


def _compares(mask: BaseExpression, tensor: BaseExpression) -> bool:
    match mask:
        case Comparison(left=left, comparisons=[ComparisonTarget(comparator=BaseNumber())]):
            return isinstance(tensor, Name) and left.deep_equals(tensor)
    return False


def _is_own(source: SourceFile, tensor: Name) -> bool:
    made = source.values(tensor)
    if not source.is_local(tensor) or source.parameter(tensor) is not None or None in made:
        return False
    holders = Assign | Element | DictElement | NamedExpr | Yield | Arg
    for read in source.reads(tensor):
        user = source.parent(read)
        is_passed = isinstance(user, Arg) and source.dotted_name(source.parent(user)) in _TAKERS
        # A method may return a view of it.
        is_viewed = isinstance(user, Attribute) and user.attr.value not in _KEEPING
        is_elsewhere = source.function_of(read) is not source.function_of(tensor)
        if is_elsewhere or is_viewed or (isinstance(user, holders) and not is_passed):
            return False
    return all(
        isinstance(value, BinaryOperation) or source.method_name(value) in FRESH
        for value in made
        if value
    )


_TAKERS = ("torch.where", "torch.sum", "torch.mean")
_KEEPING = _ELEMENTWISE | set(_NEUTRAL) | {"shape", "dtype"}


def _is_set_to_number(source: SourceFile, selection: _Selection) -> bool:
    target = source.parent(selection.node)
    assignment = source.parent(target) if isinstance(target, AssignTarget) else None
    return isinstance(assignment, Assign) and isinstance(assignment.value, BaseNumber)


def _selection(source: SourceFile, node: CSTNode) -> _Selection | None:
    if isinstance(node, Subscript) and (index := index_of(node)) is not None:
        return _Selection(node, node.value, index)
    if isinstance(node, Call) and (tensor := source.receiver(node)) is not None:
        arguments = [argument.value for argument in source.given_to(node)]
        match source.method_name(node), arguments:
            case "masked_select", [mask]:
                return _Selection(node, tensor, mask)
            case "index_select", [dim, rows] if source.code(dim) == "0":
                return _Selection(node, tensor, rows)
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
    is_where = source.method_name(node) == "where" and bool(source.dotted_name(node))
    is_method = is_where or source.method_name(node) == "nonzero"
    return is_method and all(argument.keyword for argument in source.given_to(node))

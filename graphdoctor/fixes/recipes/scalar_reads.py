"""A tensor's value read into Python, and everything that is computed from the number: keep the
tensor.
"""

from __future__ import annotations

import ast
from typing import cast

import libcst as cst
from libcst import matchers
from libcst.metadata import Assignment

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.extraction import call_of_part
from graphdoctor.fixes.source.nodes import (
    as_operand,
    has_comment,
    keyword_of,
    method_call,
    without_parentheses,
)
from graphdoctor.fixes.source.torch_names import FRESH, REDUCED
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    known,
    need,
    walk,
)

_CASTS = {"builtins.float": "float", "builtins.int": "int"}
_ANY_CAST = {*_CASTS, "builtins.bool"}
_MATH = frozenset(
    f"math.{name}"
    for name in (
        "sqrt",
        "exp",
        "log",
        "log2",
        "log10",
        "log1p",
        "expm1",
        "sin",
        "cos",
        "tan",
        "tanh",
        "sinh",
        "cosh",
    )
) | {"math.atan"}
"""Functions of ``math`` that torch has under the same name, for one tensor."""

_REDUCTIONS = REDUCED - {"all", "any", "prod", "sum"}
"""Methods of a tensor that return one zero-dim tensor of the same dtype if they are called without
arguments."""

_SAME_DTYPE = _REDUCTIONS | {"abs", "detach"}
"""Methods of a tensor whose result has the same dtype."""

_WHOLE = frozenset({"argmax", "argmin", "count_nonzero", "long", "int"})
"""Methods whose result is an integer, through which no gradient can flow."""

_TAKES_TENSOR = frozenset(
    {
        "add",
        "sub",
        "subtract",
        "mul",
        "multiply",
        "div",
        "divide",
        "true_divide",
        "floor_divide",
        "pow",
        "fmod",
    }
    | {"remainder", "where", "lerp", "masked_fill", "eq", "ne", "lt", "le", "gt", "ge"}
)
"""Functions and methods of torch that compute the same with a number and with a zero-dim tensor."""

_BOUNDS = frozenset({"clamp", "clip"})
"""The same, as long as both bounds are tensors or one is missing."""

_ARITHMETIC = (
    cst.Add,
    cst.Subtract,
    cst.Multiply,
    cst.Divide,
    cst.FloorDivide,
    cst.Modulo,
    cst.Power,
)
_COMPARING = (
    cst.LessThan,
    cst.LessThanEqual,
    cst.GreaterThan,
    cst.GreaterThanEqual,
    cst.Equal,
    cst.NotEqual,
)
_CHOOSING = (cst.If, cst.While, cst.Assert, cst.BooleanOperation, cst.UnaryOperation)

_NEEDS: tuple[tuple[type[cst.CSTNode] | tuple[type[cst.CSTNode], ...], str], ...] = (
    ((*_CHOOSING, cst.IfExp), "the number decides which branch runs"),
    ((cst.Return, cst.Yield, cst.Lambda), "the number is returned"),
    ((cst.Index, cst.Slice), "the number is an index"),
    (cst.FormattedStringExpression, "the number is formatted as text"),
    ((cst.Element, cst.DictElement, cst.AnnAssign), "the number is stored"),
    (cst.Expr, "nothing uses the number"),
)


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
    first = place.pointed(
        lambda node: source.read_of(node, _CASTS) is not None, "`.item()` or `int(…)`"
    )
    outer = [node for node in source.parents(first) if isinstance(node, cst.BaseExpression)]
    found = [node for node in (first, *outer) if place.equal_to(node) is not None]
    decline_if(not found, "no size or number in scope equals it")
    equal = known(place.equal_to(found[-1]))
    title = f"Use `{equal.names[0]}` in place of `{source.shortened(without_parentheses(found[-1]))}`{equal.words}"
    return place.edit(title, (found[-1], cst.parse_expression(equal.names[0])))


@recipe("GD103", "GD119")
def keep_number(place: Place) -> Edit:
    """``data["mode"] = torch.tensor(1)`` becomes ``data["mode"] = 1``, where it's only read by
    ``.item()`` and casts.

    The same for attributes of ``self`` and for variables. Unsafe: other files may read a tensor
    there.
    """
    source = place.source
    first = place.pointed(
        lambda node: source.read_of(node, _ANY_CAST) is not None, "`.item()`, `int(…)` or `bool(…)`"
    )
    kept = known(source.read_of(first, _ANY_CAST))
    while (inner := source.read_of(kept, _ANY_CAST)) is not None:
        kept = inner
    same = _same(source, kept)
    is_set = any(isinstance(source.parent(node), cst.AssignTarget) for node in same)
    decline_if(not is_set, "nothing in the file sets it to a tensor of one number")
    changes = [change for node in same for change in _as_number(source, node)]
    return place.edit(
        f"Keep the number itself in `{source.shortened(kept)}`, in place of a tensor of it",
        *changes,
    )


def _same(source: SourceFile, node: cst.BaseExpression) -> list[cst.CSTNode]:
    """Where the file names what a node stands for: an item of any dictionary, an attribute of
    ``self``, a variable.
    """
    match node:
        case cst.Name():
            set_ = [
                found.node for found in source.assignments(node) if isinstance(found, Assignment)
            ]
            return [*set_, *source.reads(node)]
        case cst.Attribute(value=cst.Name("self")):
            owner = known(source.class_of(node), "the attribute isn't of a class in the file")
            return [
                one
                for one in walk(owner)
                if isinstance(one, cst.Attribute) and dotted(one) == dotted(node)
            ]
        case cst.Subscript(
            slice=[cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString(value=key)))]
        ):
            items = [one for one in walk(source.tree) if isinstance(one, cst.Subscript)]
            return [one for one in items if matchers.matches(one, _item(ast.literal_eval(key)))]
    raise DeclinedError("it isn't an item, an attribute or a variable")


def _item(key: object) -> matchers.Subscript:
    is_key: matchers.MatchIfTrue[str] = matchers.MatchIfTrue(
        lambda text: ast.literal_eval(text) == key
    )
    index = matchers.Index(value=matchers.SimpleString(value=is_key))
    return matchers.Subscript(slice=[matchers.SubscriptElement(slice=index)])


def _as_number(source: SourceFile, node: cst.CSTNode) -> list[Change]:
    parent = source.parent(node)
    if isinstance(parent, cst.AssignTarget):
        line = need(source.parent(parent), cst.Assign, "")
        match line.value:
            case cst.Call(args=[cst.Arg(value=value, keyword=None, star="")]) if source.dotted_name(
                line.value
            ) == "torch.tensor" and _is_literal(value):
                return [(line.value, value)]
        raise DeclinedError("it isn't always a tensor of one number that is written there")
    if isinstance(parent, cst.If | cst.IfExp) and parent.test is node:
        return []
    outer = source.parent(parent)
    if isinstance(outer, cst.Call) and source.read_of(outer, _ANY_CAST) is node:
        is_cast = isinstance(parent, cst.Arg)
        return [] if is_cast else [(outer, node)]
    raise DeclinedError("it's used as a tensor, too")


def _is_literal(value: cst.BaseExpression) -> bool:
    match value:
        case cst.UnaryOperation(operator=cst.Minus()):
            return _is_literal(value.expression)
        case cst.Name("True") | cst.Name("False") | cst.Integer() | cst.Float():
            return True
    return False


class _Read:
    def __init__(self, place: Place) -> None:
        source = self._source = place.source
        found = place.pointed(self._read_by, "`.item()`, `float(…)` or `int(…)`")
        self._is_math = source.dotted_name(found) in _MATH
        self._call = self._tensor = known(self._read_by(found))
        self._cast = ""
        if not self._is_math:
            outer: cst.CSTNode = found
            while self._tensor_of(outer) is not None:
                self._call = cast("cst.BaseExpression", outer)
                argument = source.parent(outer)
                outer = source.parent(argument) if isinstance(argument, cst.Arg) else argument
            self._cast = _CASTS.get(source.dotted_name(self._call), "")
            while (inner := self._tensor_of(self._tensor)) is not None:
                self._tensor = inner
        self._chain: list[cst.Call] = []
        """The calls that produce the tensor, last first: ``max`` and ``abs`` for
        ``y.abs().max()``."""
        node: cst.BaseExpression | None = self._tensor
        while isinstance(node, cst.Call):
            self._chain.append(node)
            node = source.receiver(node)
        self._root = node
        self._methods = [source.method_name(call) for call in self._chain]
        self._seen: set[cst.CSTNode] = {self._call}
        self._math: list[cst.BaseExpression] = []
        self._read_late: list[cst.Name] = []
        """Uses of the number in the function that calls the compiled part, which read it there."""
        self._follow(self._call)

    def _read_by(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """What a node reads: a tensor, or what ``math.sqrt(x)`` takes unless it is a number
        already.
        """
        match node:
            case cst.Call(args=[cst.Arg(value=value, keyword=None, star="")]) if (
                self._source.dotted_name(node) in _MATH and not _is_number(self._source, value)
            ):
                return value
        return self._tensor_of(node)

    def _tensor_of(self, node: cst.CSTNode) -> cst.BaseExpression | None:
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
            if not all(
                _is_number(self._source, given.value) for given in self._source.given_to(call)
            ):
                return True  # through another argument
        return True

    def _is_under_no_grad(self) -> bool:
        for parent in self._source.parents(self._call):
            if isinstance(parent, cst.With) and any(
                self._source.is_without_grad(item.item) for item in parent.items
            ):
                return True
            if isinstance(parent, cst.FunctionDef):
                return any(
                    self._source.is_without_grad(decorator.decorator)
                    for decorator in parent.decorators
                )
        return False

    def changes(self, *, is_detached: bool) -> list[Change]:
        source, tensor, user = self._source, self._tensor, self._source.parent(self._call)
        decline_if(
            has_comment(self._call) and not has_comment(tensor), "a comment inside it would be lost"
        )
        names = ["detach"] if is_detached and self.needs_detach else []
        is_whole = bool(_WHOLE.intersection(self._methods))
        if self._cast == "int" and not is_whole:
            names.append("long")
        if self._cast == "float" and (is_whole or isinstance(tensor, cst.Comparison)):
            names.append("float")
        # A number doesn't change after it was read; a tensor that shares memory would.
        is_computed = isinstance(tensor, cst.BinaryOperation | cst.UnaryOperation | cst.Comparison)
        is_fresh = is_computed or source.method_name(tensor) in FRESH
        if isinstance(user, cst.Assign | cst.NamedExpr) and not is_fresh:
            names.append("clone")
        kept = method_call(tensor, *names) if names else as_operand(tensor)
        if isinstance(user, cst.Arg | cst.Assign) and not source.spans_lines(tensor):
            kept = kept.with_changes(lpar=(), rpar=())
        names = [(dotted(func) or "").rpartition(".")[2] for func in self._math]
        in_torch = [cst.Attribute(cst.Name("torch"), cst.Name(name)) for name in names]
        late = [(read, method_call(read, "item")) for read in self._read_late]
        return [(self._call, kept), *zip(self._math, in_torch, strict=True), *late]

    def _follow(self, node: cst.CSTNode) -> None:
        parent = self._source.parent(node)
        match parent:
            case cst.BinaryOperation(operator=operator) if isinstance(operator, _ARITHMETIC):
                other = parent.right if parent.left is node else parent.left
                decline_if(
                    isinstance(other, cst.BaseString | cst.List | cst.Tuple), "it isn't arithmetic"
                )
                if other in self._seen or _is_number(self._source, other):
                    self._seen.add(parent)
                    self._follow(parent)
            case cst.UnaryOperation(operator=cst.Minus() | cst.Plus()):
                self._seen.add(parent)
                self._follow(parent)
            case cst.Comparison():
                self._follow_comparison(parent, node)
            case cst.ComparisonTarget():
                self._follow_comparison(self._source.parent(parent), node)
            case cst.Arg():
                self._follow_argument(parent)
            case cst.Assign():
                for target in parent.targets:
                    self._follow_name(target.target)
            case cst.AugAssign():
                name = need(parent.target, cst.Name, "the number is stored")
                if _is_number(self._source, name):
                    self._follow_name(name)
            case cst.NamedExpr():
                self._follow_name(parent.target)
                self._follow(parent)
            case cst.IfExp() if parent.test is not node:
                self._follow(parent)
            case cst.Element() if (received := self._received(parent)) is not None:
                self._read_late += self._source.reads(received)
            case _:
                needs = (words for kind, words in _NEEDS if isinstance(parent, kind))
                raise DeclinedError(next(needs, "it's unclear what uses the number"))

    def _follow_comparison(self, comparison: cst.CSTNode, node: cst.CSTNode) -> None:
        user = self._source.parent(comparison)
        is_truth = isinstance(user, _CHOOSING) or (
            isinstance(user, cst.IfExp) and user.test is comparison
        )
        match comparison:
            case cst.Comparison(
                left=left, comparisons=[cst.ComparisonTarget(operator=operator, comparator=right)]
            ):
                other = right if left is node else left
                if (
                    is_truth
                    and isinstance(node, cst.Name)
                    and isinstance(user, cst.If | cst.IfExp | cst.Assert)
                ):
                    return  # the branch on the tensor is the next break to fix
                if (
                    isinstance(operator, _COMPARING)
                    and not is_truth
                    and not _is_number(self._source, other)
                ):
                    return
        raise DeclinedError("the number is compared in Python")

    def _follow_argument(self, argument: cst.Arg) -> None:
        call = need(self._source.parent(argument), cst.Call, "the number is passed on")
        decline_if(argument.star, "the number is passed on")
        name, method = self._source.dotted_name(call), self._source.method_name(call).rstrip("_")
        if name == "builtins.abs" or name in _MATH:
            self._math += [call.func] if name in _MATH else []
            self._seen.add(call)
            self._follow(call)
            return
        code = self._source.code(call.func)
        decline_if(name and not name.startswith("torch."), f"`{code}` needs a Python number")
        keywords = set(map(keyword_of, call.args))
        is_bound = method in _BOUNDS and len(self._source.given_to(call)) == 1
        if not is_bound and (
            method not in _TAKES_TENSOR or keywords & {"alpha", "rounding_mode", "out"}
        ):
            raise DeclinedError(f"`{code}` may need a Python number")

    def _follow_name(self, target: cst.BaseExpression) -> None:
        name = need(target, cst.Name, "the number is stored")
        decline_if(not self._source.is_local(name), "the number is stored")
        found = [read for read in self._source.reads(name) if read not in self._seen]
        self._seen.update((name, *found))
        for read in found:
            self._follow(read)

    def _received(self, element: cst.CSTNode) -> cst.Name | None:
        """The name that gets a value which a compiled part returns beside others; None if it's no
        such value.
        """
        values, function = self._source.parent(element), self._source.function_of(element)
        if not isinstance(function, cst.FunctionDef) or not isinstance(
            self._source.parent(values), cst.Return
        ):
            return None
        line = call_of_part(self._source, function)
        match values, line and line.body[0]:
            case cst.Tuple(elements=given), cst.Assign(
                targets=[cst.AssignTarget(target=cst.Tuple(elements=taken))]
            ):
                found = [to.value for one, to in zip(given, taken, strict=True) if one is element]
                return need(found[0], cst.Name, "the number is stored")
        return None

    @property
    def keeps_dtype(self) -> bool:
        root, methods = self._root, self._methods
        if (
            self._cast
            or self._is_math
            or self._math
            or not methods
            or not isinstance(root, cst.Name)
        ):
            return False
        if (
            methods[0] not in _REDUCTIONS
            or not _SAME_DTYPE.issuperset(methods)
            or len(self._source.values(root)) != 1
        ):
            return False
        users = [self._source.parent(node) for node in self._seen]
        users = [user for user in users if not isinstance(user, cst.AssignTarget | cst.Assign)]
        has_arguments = any(self._source.given_to(call) for call in self._chain)
        return not has_arguments and all(_is_with(user, root.value) for user in users)


def _is_with(user: cst.CSTNode, name: str) -> bool:
    match user:
        case cst.BinaryOperation(
            operator=cst.Add() | cst.Subtract() | cst.Multiply() | cst.Divide()
        ):
            return name in (dotted(user.left), dotted(user.right))
    return False


def _is_number(source: SourceFile, node: cst.BaseExpression, depth: int = 0) -> bool:
    match node:
        case cst.BaseNumber():
            return True
        case cst.UnaryOperation():
            return _is_number(source, node.expression, depth)
        case cst.BinaryOperation():
            return _is_number(source, node.left, depth) and _is_number(source, node.right, depth)
        case (
            cst.Subscript(value=cst.Attribute(attr=cst.Name("shape")))
            | cst.Attribute(attr=cst.Name("ndim"))
        ):
            return True
        case cst.Call():
            name = source.dotted_name(node)
            is_builtin = name in {"builtins.len", "builtins.round", *_CASTS} or name.startswith(
                "math."
            )
            return is_builtin or source.method_name(node) in {"item", "numel", "size", "dim"}
        case cst.Name() if (given := source.parameter(node)) is not None:
            annotation = (
                dotted(given.annotation.annotation) if given.annotation is not None else None
            )
            return annotation in ("float", "int") or isinstance(given.default, cst.BaseNumber)
        case cst.Name() | cst.Attribute() if depth < 4:
            if source.dotted_name(node).startswith("math."):
                return True
            bound = source.bound_to(node)
            return bool(bound) and all(
                value is not None and _is_number(source, value, depth + 1) for value in bound
            )
    return False

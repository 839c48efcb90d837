"""A tensor's value read into Python, and everything that is computed from the number: keep the tensor.

Comes in: a place where torch stopped at ``x.item()``, ``float(x)`` or the like. Goes out: the file with the tensor in
place of the number, or ``DeclinedError`` if something needs a Python number.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from graphdoctor.fixes.recipe import Edit, recipe
from graphdoctor.fixes.source.names import (
    as_operand,
    attribute_values,
    dotted_name,
    has_comment,
    is_local,
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
from graphdoctor.fixes.source.tree import Change, DeclinedError, SourceFile, decline_if

_CASTS = {"builtins.float": "float", "builtins.int": "int"}
_MATH = frozenset(
    {"sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "tanh", "sinh", "cosh", "atan"}
)
"""Functions of ``math`` that torch has under the same name, for one tensor."""

_SAME_DTYPE = frozenset({"abs", "max", "min", "amax", "amin", "mean", "std", "var", "norm", "median", "detach"})
"""Methods of a tensor whose result has the same dtype."""

_REDUCTIONS = frozenset({"max", "min", "amax", "amin", "mean", "std", "var", "norm", "median"})
"""Those that return one zero-dim tensor if they are called without arguments."""

_FRESH = _SAME_DTYPE - {"detach"} | frozenset(
    {
        "sum",
        "prod",
        "exp",
        "log",
        "sqrt",
        "square",
        "sigmoid",
        "tanh",
        "argmax",
        "argmin",
        "count_nonzero",
        "any",
        "all",
    }
)
"""Methods whose result doesn't share memory with what they are called on."""

_WHOLE = frozenset({"argmax", "argmin", "count_nonzero", "long", "int"})
"""Methods whose result is an integer, through which no gradient can flow."""

_TAKES_TENSOR = frozenset(
    {"add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide", "pow", "fmod"}
    | {"remainder", "where", "lerp", "masked_fill", "eq", "ne", "lt", "le", "gt", "ge"}
)
"""Functions and methods of torch that compute the same with a number and with a zero-dim tensor."""

_BOUNDS = frozenset({"clamp", "clip"})
"""The same, as long as both bounds are tensors or one is missing."""


class ScalarRead:
    """One read of a tensor's value, and everything that is computed from the number."""

    def __init__(self, source: SourceFile, call: cst.BaseExpression, tensor: cst.BaseExpression, cast: str) -> None:
        self._source = source
        self._call = call
        self._tensor = tensor
        self._cast = cast
        self._seen: set[cst.CSTNode] = {call}
        self._math: list[cst.BaseExpression] = []
        self.is_same = False
        """Whether results stay the same for every input."""

    @classmethod
    def at(cls, place: Place) -> ScalarRead:
        """The read that torch points to."""
        source = place.source
        found = pointed(
            place,
            lambda node: _read_tensor(source, node) is not None or _math_argument(source, node) is not None,
            "`.item()`, `float(…)` or `int(…)`",
        )
        argument = _math_argument(source, found)
        if argument is not None:
            read = cls(source, argument, argument, "")
            read._follow(argument)
            return read
        tensor = _read_tensor(source, found)
        assert tensor is not None  # pointed() says so
        cast = _cast_of(source, found)
        while (outer := _cast_around(source, found)) is not None:
            found, cast = outer, _cast_of(source, outer)
        while (inner := _read_tensor(source, tensor)) is not None:
            tensor = inner
        read = cls(source, found, tensor, cast)
        read._follow(found)
        read.is_same = read._keeps_dtype()
        return read

    @property
    def words(self) -> str:
        """The read as in the source, shortened."""
        return shortened(self._source, self._call)

    @property
    def needs_detach(self) -> bool:
        """Whether a gradient could flow through the tensor that stays."""
        if self._cast == "int" or _is_without_grad(self._source, self._call):
            return False
        for call in _chain(self._source, self._tensor):
            if method_name(self._source, call) in _WHOLE | {"detach"}:
                return False
            given = call.args[1:] if dotted_name(self._source, call.func) else call.args
            if not all(_is_number(self._source, argument.value) for argument in given):
                return True  # through another argument
        return True

    def replaced(self, *, is_detached: bool) -> bytes:
        """The file with the tensor in place of the number.

        Raises:
            DeclinedError: A comment would be lost.
        """
        decline_if(has_comment(self._call) and not has_comment(self._tensor), "a comment inside it would be lost")
        names = ["detach"] if is_detached and self.needs_detach else []
        whole = _WHOLE & {method_name(self._source, call) for call in _chain(self._source, self._tensor)}
        if self._cast == "int" and not whole:
            names.append("long")
        if self._cast == "float" and (whole or isinstance(self._tensor, cst.Comparison)):
            names.append("float")
        # A number doesn't change after it was read; a tensor that shares memory would.
        is_named = isinstance(next(self._source.parents(self._call)), cst.Assign | cst.NamedExpr)
        if is_named and not _is_fresh(self._source, self._tensor):
            names.append("clone")
        kept = method_call(self._tensor, *names) if names else as_operand(self._tensor)
        is_bracketed = isinstance(next(self._source.parents(self._call)), cst.Arg | cst.Assign)
        if is_bracketed and not spans_lines(self._source, self._tensor):
            kept = kept.with_changes(lpar=(), rpar=())
        changes: list[Change] = [(self._call, kept)]
        changes += [(func, cst.Attribute(cst.Name("torch"), _last(func))) for func in self._math]
        return self._source.replaced(*changes, imports=("torch",) if self._math else ())

    def _follow(self, node: cst.CSTNode) -> None:
        """Follow a number to the operations that turn it into a tensor."""
        parent = next(self._source.parents(node))
        match parent:
            case cst.BinaryOperation(
                operator=cst.Add()
                | cst.Subtract()
                | cst.Multiply()
                | cst.Divide()
                | cst.FloorDivide()
                | cst.Modulo()
                | cst.Power()
            ):
                other = parent.right if parent.left is node else parent.left
                if isinstance(other, cst.BaseString | cst.List | cst.Tuple):
                    raise DeclinedError("it isn't arithmetic")
                if other in self._seen or _is_number(self._source, other):
                    self._seen.add(parent)
                    self._follow(parent)
            case cst.UnaryOperation(operator=cst.Minus() | cst.Plus()):
                self._seen.add(parent)
                self._follow(parent)
            case cst.Comparison():
                self._follow_comparison(parent, node)
            case cst.ComparisonTarget():
                comparison = next(self._source.parents(parent))
                assert isinstance(comparison, cst.Comparison)
                self._follow_comparison(comparison, node)
            case cst.Arg():
                self._follow_argument(parent)
            case cst.Assign():
                for target in parent.targets:
                    self._follow_name(target.target)
            case cst.AugAssign():
                if not isinstance(parent.target, cst.Name):
                    raise DeclinedError("the number is stored")
                if _is_number(self._source, parent.target):
                    self._follow_name(parent.target)
            case cst.NamedExpr():
                self._follow_name(parent.target)
                self._follow(parent)
            case cst.IfExp() if parent.test is not node:
                self._follow(parent)
            case _:
                raise DeclinedError(_need(parent))

    def _follow_comparison(self, comparison: cst.Comparison, node: cst.CSTNode) -> None:
        operands = [comparison.left, *(target.comparator for target in comparison.comparisons)]
        others = [operand for operand in operands if operand is not node]
        is_order = isinstance(
            comparison.comparisons[0].operator,
            cst.LessThan | cst.LessThanEqual | cst.GreaterThan | cst.GreaterThanEqual | cst.Equal | cst.NotEqual,
        )
        user = next(self._source.parents(comparison))
        is_truth = isinstance(user, cst.If | cst.While | cst.Assert | cst.BooleanOperation | cst.UnaryOperation)
        is_truth = is_truth or (isinstance(user, cst.IfExp) and user.test is comparison)
        if not is_order or len(others) != 1 or is_truth or _is_number(self._source, others[0]):
            raise DeclinedError("the number is compared in Python")

    def _follow_argument(self, argument: cst.Arg) -> None:
        call = next(self._source.parents(argument))
        if not isinstance(call, cst.Call) or argument.star:
            raise DeclinedError("the number is passed on")
        name, method = dotted_name(self._source, call.func), method_name(self._source, call).rstrip("_")
        if name == "builtins.abs" or _is_math(self._source, call):
            if name != "builtins.abs":
                self._math.append(call.func)
            self._seen.add(call)
            self._follow(call)
            return
        if name and not name.startswith("torch."):
            raise DeclinedError(f"`{self._source.code(call.func)}` needs a Python number")
        keywords = {given.keyword.value for given in call.args if given.keyword is not None}
        if method in _BOUNDS and len(call.args) == (2 if name else 1):
            return
        if method in _TAKES_TENSOR and not keywords & {"alpha", "rounding_mode", "out"}:
            return
        raise DeclinedError(f"`{self._source.code(call.func)}` may need a Python number")

    def _follow_name(self, target: cst.BaseExpression) -> None:
        if not isinstance(target, cst.Name) or not is_local(self._source, target):
            raise DeclinedError("the number is stored")
        if target.value in {node.value for node in self._seen if isinstance(node, cst.Name)}:
            return
        found = reads(self._source, target)
        self._seen.update((target, *found))
        for name in found:
            self._follow(name)

    def _keeps_dtype(self) -> bool:
        """Whether the number is a reduction of a tensor and is only combined with that same tensor."""
        calls = list(_chain(self._source, self._tensor))
        names = [method_name(self._source, call) for call in calls]
        root = receiver(self._source, calls[-1]) if calls else None
        if self._cast or self._math or not names or names[0] not in _REDUCTIONS or not _SAME_DTYPE.issuperset(names):
            return False
        if not isinstance(root, cst.Name) or len(values(self._source, root)) != 1:
            return False
        if any(len(call.args) > (1 if dotted_name(self._source, call.func) else 0) for call in calls):
            return False
        users = [next(self._source.parents(node)) for node in self._seen]
        users = [user for user in users if not isinstance(user, cst.AssignTarget | cst.Assign)]
        return all(isinstance(user, cst.BinaryOperation) and _is_with(user, root) for user in users)


def _is_with(operation: cst.BinaryOperation, root: cst.Name) -> bool:
    sides = (operation.left, operation.right)
    is_simple = isinstance(operation.operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide)
    return is_simple and any(isinstance(side, cst.Name) and side.value == root.value for side in sides)


def _read_tensor(source: SourceFile, node: cst.BaseExpression) -> cst.BaseExpression | None:
    match node:
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("item")), args=[]):
            return tensor
        case cst.Call(args=[cst.Arg(value=tensor, keyword=None, star="")]) if dotted_name(source, node.func) in _CASTS:
            return tensor
    return None


def _math_argument(source: SourceFile, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What ``math.sqrt(x)`` reads, unless it is a number already."""
    match node:
        case cst.Call(args=[cst.Arg(value=tensor, keyword=None, star="")]) if _is_math(source, node):
            return None if _is_number(source, tensor) else tensor
    return None


def _is_math(source: SourceFile, call: cst.Call) -> bool:
    module, _, name = dotted_name(source, call.func).rpartition(".")
    return module == "math" and name in _MATH


def _cast_of(source: SourceFile, node: cst.BaseExpression) -> str:
    return _CASTS.get(dotted_name(source, node.func), "") if isinstance(node, cst.Call) else ""


def _cast_around(source: SourceFile, node: cst.CSTNode) -> cst.Call | None:
    parents = source.parents(node)
    argument, call = next(parents, None), next(parents, None)
    is_cast = isinstance(argument, cst.Arg) and isinstance(call, cst.Call) and _read_tensor(source, call) is node
    return call if is_cast and isinstance(call, cst.Call) else None


def _chain(source: SourceFile, node: cst.BaseExpression | None) -> Iterator[cst.Call]:
    """The calls that produce a tensor, last first: ``max`` and ``abs`` for ``y.abs().max()``."""
    while isinstance(node, cst.Call):
        yield node
        node = receiver(source, node)


def _is_fresh(source: SourceFile, tensor: cst.BaseExpression) -> bool:
    is_computed = isinstance(tensor, cst.BinaryOperation | cst.UnaryOperation | cst.Comparison)
    return is_computed or method_name(source, tensor) in _FRESH


def _is_without_grad(source: SourceFile, node: cst.CSTNode) -> bool:
    """Whether it runs under ``torch.no_grad()``, as a ``with`` or a decorator."""
    off = {"torch.no_grad", "torch.inference_mode"}

    def is_off(expression: cst.BaseExpression) -> bool:
        return dotted_name(source, expression.func if isinstance(expression, cst.Call) else expression) in off

    for parent in source.parents(node):
        if isinstance(parent, cst.With) and any(is_off(item.item) for item in parent.items):
            return True
        if isinstance(parent, cst.FunctionDef):
            return any(is_off(decorator.decorator) for decorator in parent.decorators)
    return False


def _is_number(source: SourceFile, node: cst.BaseExpression, depth: int = 0) -> bool:
    match node:
        case cst.BaseNumber():
            return True
        case cst.UnaryOperation():
            return _is_number(source, node.expression, depth)
        case cst.BinaryOperation():
            return _is_number(source, node.left, depth) and _is_number(source, node.right, depth)
        case cst.Subscript(value=cst.Attribute(attr=cst.Name("shape"))) | cst.Attribute(attr=cst.Name("ndim")):
            return True
        case cst.Call():
            name = dotted_name(source, node.func)
            is_builtin = name in {"builtins.len", "builtins.round", *_CASTS} or name.startswith("math.")
            return is_builtin or method_name(source, node) in {"item", "numel", "size", "dim"}
        case cst.Attribute():
            found = attribute_values(source, node) if depth < 4 else []
            is_constant = dotted_name(source, node).startswith("math.")
            return is_constant or (bool(found) and all(_is_number(source, value, depth + 1) for value in found))
        case cst.Name():
            given = parameter(source, node)
            if given is not None:
                annotation = given.annotation.annotation if given.annotation is not None else None
                is_told = isinstance(annotation, cst.Name) and annotation.value in ("float", "int")
                return is_told or isinstance(given.default, cst.BaseNumber)
            bound = values(source, node) if depth < 4 else []
            return bool(bound) and all(value is not None and _is_number(source, value, depth + 1) for value in bound)
    return False


def _last(func: cst.BaseExpression) -> cst.Name:
    assert isinstance(func, cst.Attribute | cst.Name)
    return cst.Name((func.attr if isinstance(func, cst.Attribute) else func).value)


_NEEDS: tuple[tuple[type[cst.CSTNode] | tuple[type[cst.CSTNode], ...], str], ...] = (
    (
        (cst.If, cst.While, cst.Assert, cst.IfExp, cst.BooleanOperation, cst.UnaryOperation),
        "the number decides which branch runs",
    ),
    ((cst.Return, cst.Yield, cst.Lambda), "the number is returned"),
    ((cst.Index, cst.Slice), "the number is an index"),
    (cst.FormattedStringExpression, "the number is formatted as text"),
    ((cst.Element, cst.DictElement, cst.AnnAssign), "the number is stored"),
    (cst.Expr, "nothing uses the number"),
)


def _need(user: cst.CSTNode) -> str:
    return next((words for kind, words in _NEEDS if isinstance(user, kind)), "it's unclear what uses the number")


@recipe("GD103")
def keep_tensor(place: Place) -> Edit:
    """``y / y.max().item()`` becomes ``y / y.max().detach()``.

    ``detach()`` keeps gradients as they are, because a number has none; it is left out if no gradient can flow. Safe
    only for a maximum, a mean and the like of the same tensor that the number is combined with, so that the dtype stays
    the same.
    """
    read = ScalarRead.at(place)
    kept = "a detached tensor" if read.needs_detach else "the tensor"
    return Edit(
        title=f"Keep {kept} in place of the number that `{read.words}` reads",
        content=read.replaced(is_detached=True),
        is_safe=read.is_same,
    )


@recipe("GD103")
def drop_item(place: Place) -> Edit:
    """``y / y.max().item()`` becomes ``y / y.max()``, so that gradients flow through the value."""
    read = ScalarRead.at(place)
    decline_if(not read.needs_detach, "no gradient can flow through the value")
    return Edit(
        title=f"Keep the tensor that `{read.words}` reads, and let gradients flow through it",
        content=read.replaced(is_detached=False),
        is_safe=False,
    )

"""What an expression certainly is, and a test as a tensor: ``and``, ``or`` and ``not`` become
operations of torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.source.nodes import (
    bracketed,
    called,
    enclosed,
    is_in_place,
    torch_call,
    where,
    with_parentheses_of,
)
from graphdoctor.fixes.source.torch_names import BOOLEAN_METHODS, INTEGER_METHODS, REDUCED
from graphdoctor.fixes.source.tree import (
    DeclinedError,
    SourceFile,
    bound_by,
    decline_if,
    dotted,
    walk,
)

_PYTHON_CALLS = frozenset(
    {"all", "any", "bool", "callable", "getattr", "hasattr", "isinstance", "issubclass", "len"}
)  # fmt: skip
_TIGHTER_THAN_BITS = (
    cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.FloorDivide, cst.Modulo, cst.Power, cst.MatrixMultiply,
    cst.LeftShift, cst.RightShift,
)  # fmt: skip


def as_tensor(test: cst.BaseExpression, source: SourceFile) -> cst.BaseExpression:
    """A test without Python's operators: ``a > 0 and not b`` becomes ``(a > 0) &
    torch.logical_not(b)``.
    """
    match test:
        case cst.BooleanOperation():
            return _joined(test, source)
        case cst.UnaryOperation(operator=cst.Not()):
            return with_parentheses_of(test, negated(test.expression, source))
        case cst.Call(
            func=cst.Name(value="bool"), args=[cst.Arg(keyword=None, star="", value=value)]
        ):
            return as_tensor(value, source)
    for node in walk(test):
        _refuse(node)
    if not isinstance(test, cst.Comparison) or len(test.comparisons) == 1:
        return test.deep_clone()
    # `a < b < c` becomes two comparisons.
    lefts = [test.left, *(target.comparator for target in test.comparisons)]
    both = zip(lefts, test.comparisons, strict=False)
    pairs = [
        bracketed(cst.Comparison(left.deep_clone(), [right.deep_clone()])) for left, right in both
    ]
    joined: cst.BaseExpression = pairs[0]
    for pair in pairs[1:]:
        joined = cst.BinaryOperation(joined, cst.BitAnd(), pair)
    return with_parentheses_of(test, joined)


_OF_PYTHON = (
    matchers.Comparison(comparisons=[matchers.ComparisonTarget(matchers.Is() | matchers.IsNot())])
    | matchers.Call(
        func=matchers.Name("isinstance") | matchers.Name("hasattr") | matchers.Name("callable")
    )
    | matchers.Attribute(attr=matchers.Name("training"))
)
"""What Python answers whatever a tensor's values are."""


def without_python(
    test: cst.BaseExpression,
) -> tuple[cst.BaseExpression | None, cst.BaseExpression]:
    """What a test asks Python first, None if nothing, and the rest: ``m is not None and
    m.any()``.
    """
    operands = list(_anded(test))
    of_python = _OF_PYTHON | matchers.UnaryOperation(operator=matchers.Not(), expression=_OF_PYTHON)
    count = next(
        (at for at, operand in enumerate(operands) if not matchers.matches(operand, of_python)), 0
    )
    return (_all_of(operands[:count]), _all_of(operands[count:])) if count else (None, test)


def _anded(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The operands of a chain of ``and`` without parentheses, in order."""
    if (
        isinstance(test, cst.BooleanOperation)
        and isinstance(test.operator, cst.And)
        and not test.lpar
    ):
        yield from _anded(test.left)
        yield from _anded(test.right)
    else:
        yield test


def _all_of(operands: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    if len(operands) == 1:
        return operands[0]
    return cst.BooleanOperation(_all_of(operands[:-1]), cst.And(), operands[-1])


def as_boolean_tensor(test: cst.BaseExpression, source: SourceFile) -> cst.BaseExpression:
    """A test as a tensor of dtype bool, which ``torch.where`` needs."""
    tensor = as_tensor(test, source)
    if is_boolean(test, source):
        return tensor
    zero = cst.ComparisonTarget(cst.NotEqual(), cst.Integer("0"))
    return cst.Comparison(enclosed(tensor, (cst.BinaryOperation,)), [zero])


def negated(test: cst.BaseExpression, source: SourceFile) -> cst.BaseExpression:
    """The opposite of a test: another comparison, ``~`` if it is certainly boolean, otherwise
    ``torch.logical_not``.

    With NaN, ``a < b`` and ``a >= b`` are both false, so one takes the place of the other among
    integers only.
    """
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return as_boolean_tensor(test.expression, source)
    tensor = as_tensor(test, source)
    match test:
        case cst.Comparison(
            left=left,
            comparisons=[cst.ComparisonTarget(operator=operator, comparator=right) as pair],
        ):
            opposite = _OPPOSITE.get(type(operator))
            if opposite is None and is_integer(left, source) and is_integer(right, source):
                opposite = _OPPOSITE_OF_INTEGERS.get(type(operator))
            if opposite is not None:
                spaces = {
                    name: getattr(operator, name)
                    for name in ("whitespace_before", "whitespace_after")
                }
                return test.with_changes(
                    comparisons=[pair.with_changes(operator=opposite(**spaces))]
                )
    if is_boolean(test, source):
        return cst.UnaryOperation(cst.BitInvert(), enclosed(tensor, (cst.UnaryOperation,)))
    return torch_call("logical_not", [tensor])


_OPPOSITE: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.Equal: cst.NotEqual,
    cst.NotEqual: cst.Equal,
}
_OPPOSITE_OF_INTEGERS: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThan: cst.GreaterThanEqual,
    cst.LessThanEqual: cst.GreaterThan,
    cst.GreaterThan: cst.LessThanEqual,
    cst.GreaterThanEqual: cst.LessThan,
}


def is_integer(
    value: cst.BaseExpression, source: SourceFile, within: frozenset[str] = frozenset()
) -> bool:
    """Whether it certainly has no NaN, being integers or bools."""
    match value:
        case cst.Integer():
            return True
        case cst.UnaryOperation(operator=cst.Minus() | cst.Plus(), expression=expression):
            return is_integer(expression, source, within)
        case cst.BinaryOperation(
            operator=cst.Add() | cst.Subtract() | cst.Multiply(), left=left, right=right
        ):
            return is_integer(left, source, within) and is_integer(right, source, within)
        case cst.Call(func=cst.Attribute(value=base, attr=cst.Name(value=name))):
            is_count = name == "sum" and not value.args and is_boolean(base, source)
            return is_count or name in INTEGER_METHODS | {"numel", "size"}
        case cst.Call(func=cst.Name(value=name)):
            return name in ("int", "len")
        case cst.Name(value=name) if name not in within and (values := source.set_values(value)):
            return all(is_integer(one, source, within | {name}) for one in values)
    return is_boolean(value, source, within)


def is_boolean(
    test: cst.BaseExpression, source: SourceFile, within: frozenset[str] = frozenset()
) -> bool:
    """Whether the test's tensor certainly has dtype bool."""
    match test:
        case cst.Comparison() | cst.BooleanOperation() | cst.UnaryOperation(operator=cst.Not()):
            return True
        case cst.UnaryOperation(operator=cst.BitInvert(), expression=expression):
            return is_boolean(expression, source, within)
        case cst.BinaryOperation(
            operator=cst.BitAnd() | cst.BitOr() | cst.BitXor(), left=left, right=right
        ):
            return is_boolean(left, source, within) and is_boolean(right, source, within)
        case cst.Call():
            return called(test) in BOOLEAN_METHODS | {"all", "any"}
        case cst.Name(value=name) if name not in within and (values := source.set_values(test)):
            return all(is_boolean(value, source, within | {name}) for value in values)
    return False


def is_one_number(
    test: cst.BaseExpression, source: SourceFile, within: frozenset[str] = frozenset()
) -> bool:
    """Whether the test's tensor certainly has no dims, so that it chooses for a whole tensor at
    once.
    """
    match test:
        case cst.Comparison(left=left, comparisons=comparisons):
            parts = [left, *(item.comparator for item in comparisons)]
        case (
            cst.BooleanOperation(left=left, right=right)
            | cst.BinaryOperation(left=left, right=right)
        ):
            parts = [left, right]
        case cst.UnaryOperation(expression=expression):
            parts = [expression]
        case cst.Call(
            func=cst.Attribute(value=cst.Name(value="torch"), attr=cst.Name(value=name)), args=[_]
        ):
            return name in REDUCED
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name)), args=[]):
            return name in REDUCED
        case cst.Name(value=name) if name not in within and (values := source.set_values(test)):
            return all(is_one_number(value, source, within | {name}) for value in values)
        case _:
            return False
    tensors = [part for part in parts if not is_literal_number(part)]
    return bool(tensors) and all(is_one_number(part, source, within) for part in tensors)


def is_evaluated_alike(tests: Sequence[cst.BaseExpression]) -> bool:
    """Whether evaluating all of it, some of it twice, does no more than Python's evaluation in
    order.

    Python stops as soon as it knows the result; what it then leaves out must be harmless.
    """
    parts = [part for test in tests for part in walk(test)]
    is_plain = len(tests) == 1 and not any(
        isinstance(part, cst.BooleanOperation)
        or (isinstance(part, cst.Comparison) and len(part.comparisons) > 1)
        for part in parts
    )
    harmless = {"all", "any", "isfinite", "isinf", "isnan", "mean", "sum", "abs"}
    calls = [part for part in parts if isinstance(part, cst.Subscript | cst.Call)]
    return is_plain or all(called(part) in harmless for part in calls)


def tests_for_finite(test: cst.BaseExpression) -> bool:
    """Whether the test is for infinity or NaN: they may occur, and gradients of the other branch
    may become NaN.
    """
    names = {"isfinite", "isinf", "isnan", "isposinf", "isneginf", "inf", "nan"}
    return any(
        (isinstance(part, cst.Name) and part.value in names)
        or isinstance(part, cst.SimpleString)  # float("inf")
        or (
            isinstance(part, cst.Comparison)
            and part.left.deep_equals(part.comparisons[0].comparator)
        )
        for part in walk(test)
    )


def _joined(test: cst.BooleanOperation, source: SourceFile) -> cst.BaseExpression:
    left, right = as_tensor(test.left, source), as_tensor(test.right, source)
    is_and = isinstance(test.operator, cst.And)
    if not (is_boolean(test.left, source) and is_boolean(test.right, source)):
        return torch_call("logical_and" if is_and else "logical_or", [left, right])
    before, after = _space(test.operator.whitespace_before), _space(test.operator.whitespace_after)
    operator: cst.BaseBinaryOp = cst.BitAnd(before, after) if is_and else cst.BitOr(before, after)
    tighter = (
        (cst.BitAnd, *_TIGHTER_THAN_BITS)
        if is_and
        else (cst.BitOr, cst.BitAnd, *_TIGHTER_THAN_BITS)
    )
    sides = (
        side
        if isinstance(side, cst.BinaryOperation) and isinstance(side.operator, tighter)
        else enclosed(side, (cst.UnaryOperation,))
        for side in (left, right)
    )
    return with_parentheses_of(test, cst.BinaryOperation(next(sides), operator, next(sides)))


def _refuse(node: cst.CSTNode) -> None:
    match node:
        case cst.Is() | cst.IsNot() | cst.In() | cst.NotIn():
            raise DeclinedError("part of the condition is about Python objects, not tensors")
        case cst.Call(func=cst.Name(value=name)) if name in _PYTHON_CALLS:
            raise DeclinedError(f"`{name}(…)` in the condition doesn't return a tensor")
        case (
            cst.Attribute(attr=cst.Name(value="training"))
            | cst.Name(value="None" | "True" | "False")
        ):
            raise DeclinedError("part of the condition isn't a tensor")
        case cst.NamedExpr():
            raise DeclinedError("the condition assigns a name")
        case cst.Await() | cst.Yield():
            raise DeclinedError("the condition awaits or yields")
        case (
            cst.IfExp()
            | cst.Lambda()
            | cst.BooleanOperation()
            | cst.UnaryOperation(operator=cst.Not())
        ):
            raise DeclinedError("the condition contains a nested choice")
    decline_if(is_in_place(node), "the condition changes a tensor in place")


def is_literal_number(node: cst.BaseExpression | None) -> bool:
    """Whether it is a number as Python writes it, perhaps with a sign."""
    return isinstance(
        node.expression if isinstance(node, cst.UnaryOperation) else node, cst.Integer | cst.Float
    )


def _space(whitespace: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    return cst.SimpleWhitespace(" ") if whitespace.empty else whitespace.deep_clone()


_TOTAL = frozenset(
    {
        "abs",
        "add",
        "atan",
        "clamp",
        "cos",
        "erf",
        "hardtanh",
        "leaky_relu",
        "maximum",
        "minimum",
        "mul",
        "neg",
    }
    | {"negative", "relu", "relu6", "sigmoid", "silu", "sin", "square", "sub", "tanh"}
)
"""Elementwise, defined for every finite number, with finite gradients."""
_PARTIAL = frozenset(
    {
        "acos",
        "acosh",
        "arccos",
        "arcsin",
        "asin",
        "atanh",
        "digamma",
        "erfinv",
        "exp",
        "exp2",
        "expm1",
        "lgamma",
        "log",
    }
    | {"log10", "log1p", "log2", "logit", "pow", "reciprocal", "rsqrt", "sqrt", "std", "tan"}
)
"""Elementwise but for ``std``, with values or gradients that aren't finite for some finite
number."""
_NOT_NEGATIVE = frozenset({"abs", "norm", "relu", "sigmoid", "softmax", "square"})
_WITH_ARGUMENTS = frozenset({"pow", "std"})
"""Those of them that take arguments as methods of a tensor."""
_NUMPY = frozenset({"math", "np", "numpy"})
_DIVIDING = frozenset({"div", "divide", "fmod", "floor_divide", "remainder", "true_divide"})
_MODULES = frozenset({"torch", "F", "torch.nn.functional", "functional"})
_EFFECTS = frozenset(
    {
        "append",
        "backward",
        "clear",
        "exec",
        "eval",
        "extend",
        "input",
        "insert",
        "next",
        "open",
        "pop",
        "popitem",
    }
    | {
        "popleft",
        "print",
        "register_hook",
        "remove",
        "setattr",
        "setdefault",
        "step",
        "update",
        "warn",
        "write",
    }
)
_CONTAINERS = cst.BaseList | cst.BaseSet | cst.BaseDict | cst.Tuple | cst.GeneratorExp | cst.Lambda


def refuse_unless_tensor(value: cst.BaseExpression) -> None:
    """Decline a value that certainly isn't a tensor, or that has a side effect."""
    match value:
        case cst.BaseString():
            raise DeclinedError("a branch yields a string, not a tensor")
        case cst.Name(value="None" | "True" | "False" | "Ellipsis" as name):
            raise DeclinedError(f"a branch yields `{name}`, not a tensor")
        case cst.Ellipsis():
            raise DeclinedError("a branch yields `...`, not a tensor")
        case cst.BooleanOperation() | cst.UnaryOperation(operator=cst.Not()):
            raise DeclinedError("a branch yields a Python bool, not a tensor")
    decline_if(
        isinstance(value, _CONTAINERS),
        "a branch yields several values or a container, not one tensor",
    )
    for node in walk(value):
        decline_if(isinstance(node, cst.NamedExpr), "a value assigns a name")
        decline_if(isinstance(node, cst.Await | cst.Yield), "a branch awaits or yields")
        decline_if(called(node) in _EFFECTS, f"`{called(node)}(…)` has a side effect")
        decline_if(is_in_place(node), f"`{called(node)}(…)` changes a tensor in place")


def is_harmless(value: cst.BaseExpression, source: SourceFile) -> bool:
    """Whether computing an unused value changes nothing: it can't fail, and its gradients are
    finite.
    """
    match value:
        case cst.Integer() | cst.Float():
            return True
        case cst.Name() | cst.Attribute():
            return dotted(value) is not None
        case cst.UnaryOperation(operator=cst.Minus() | cst.Plus(), expression=expression):
            return is_harmless(expression, source)
        case cst.BinaryOperation(
            operator=cst.Add() | cst.Subtract() | cst.Multiply(), left=left, right=right
        ):
            return is_harmless(left, source) and is_harmless(right, source)
        case cst.Call(func=cst.Attribute(value=base)) if called(value) in _TOTAL:
            is_known = dotted(base) in _MODULES or (
                not _is_imported(base, source) and is_harmless(base, source)
            )
            return is_known and all(
                is_harmless(arg.value, source) and not arg.star for arg in value.args
            )
    return False


def guarded(
    value: cst.BaseExpression, condition: cst.BaseExpression, *, is_if: bool
) -> cst.BaseExpression:
    """A value that is only chosen if a condition is true, or false, without what makes gradients of
    others NaN.

    The gradient of a value that isn't chosen is 0, and 0 times that of ``1 / 0`` or of ``exp`` of a
    large number is NaN. So ``x / y`` becomes ``x / torch.where(condition, y, 1)``. The value itself
    if there is nothing to guard.
    """
    return value.visit(_Guard(condition, is_if=is_if))  # type: ignore[return-value]


class _Guard(cst.CSTTransformer):
    def __init__(self, condition: cst.BaseExpression, *, is_if: bool) -> None:
        super().__init__()
        self._condition, self._is_if = condition, is_if

    def leave_BinaryOperation(  # noqa: N802 - libcst's name
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BinaryOperation:
        if isinstance(updated_node.operator, cst.Divide | cst.FloorDivide | cst.Modulo):
            return updated_node.with_changes(right=self._guarded(updated_node.right))
        if isinstance(updated_node.operator, cst.Power) and not isinstance(
            original_node.right, cst.Integer
        ):
            return updated_node.with_changes(left=self._guarded(updated_node.left))
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:  # noqa: N802
        name, func = called(original_node), updated_node.func
        if not isinstance(func, cst.Attribute) or any(arg.star for arg in updated_node.args):
            return updated_node
        is_function = dotted(func.value) in _MODULES | _NUMPY
        if not is_function and name in _PARTIAL - _WITH_ARGUMENTS and updated_node.args:
            return updated_node  # a function of another module
        # What it is called on is its first argument.
        if name in _PARTIAL and is_function and updated_node.args:
            return self._with_argument(updated_node, 0)
        if name in _PARTIAL and not is_function:
            return updated_node.with_changes(
                func=func.with_changes(value=self._guarded(func.value))
            )
        if name in _DIVIDING and len(updated_node.args) > is_function:
            return self._with_argument(updated_node, int(is_function))
        return updated_node

    def _with_argument(self, node: cst.Call, at: int) -> cst.Call:
        args = list(node.args)
        args[at] = args[at].with_changes(value=self._guarded(args[at].value))
        return node.with_changes(args=args)

    def _guarded(self, operand: cst.BaseExpression) -> cst.BaseExpression:
        if is_literal_number(operand) or _is_positive(operand):
            return operand
        one: tuple[cst.BaseExpression, cst.BaseExpression] = (operand, cst.Integer("1"))
        return where(self._condition, *(one if self._is_if else reversed(one)))


def _is_positive(value: cst.BaseExpression) -> bool:
    """Whether it is certainly larger than 0: what is never negative, and a number."""
    match value:
        case cst.BinaryOperation(operator=cst.Add(), left=left, right=cst.Integer() | cst.Float()):
            is_square = matchers.matches(
                left, matchers.BinaryOperation(operator=matchers.Power(), right=_TWO)
            )
            return is_square or called(left) in _NOT_NEGATIVE
    return False


_TWO = matchers.Integer("2")


def operands(value: cst.CSTNode) -> frozenset[str]:
    """The variables that a harmless value is computed from, which alone determine its shape."""
    name = dotted(value)
    if name is not None:
        return frozenset((name,))
    parts: Sequence[cst.CSTNode] = value.children
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        base = [] if dotted(value.func.value) in _MODULES else [value.func.value]
        parts = [*base, *(arg.value for arg in value.args)]
    return frozenset().union(*map(operands, parts))


def _is_imported(base: cst.BaseExpression, source: SourceFile) -> bool:
    """Whether the name before the dot was imported: ``math.sin`` doesn't take a tensor."""
    first = (dotted(base) or "").partition(".")[0]
    aliases = (node for node in walk(source.tree) if isinstance(node, cst.ImportAlias))
    return bool(first) and any(bound_by(alias) == first for alias in aliases)

"""What an expression certainly is, and a test as a tensor: ``and``, ``or`` and ``not`` become operations of torch.

Comes in: expressions of a function. Goes out: a new expression for a graph, or ``DeclinedError`` if it isn't about
tensors; whether it may be computed though its result may not be used, as ``torch.where`` computes both branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import libcst as cst

from graphdoctor.fixes.source.names import Names, called, dotted, is_in_place
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile, walk

_BOOLEAN_CALLS = frozenset(
    {"all", "any", "bool", "eq", "ge", "gt", "isfinite", "isinf", "isnan", "le", "logical_and", "logical_not",
     "logical_or", "logical_xor", "lt", "ne"}
)  # fmt: skip
_REDUCTIONS = frozenset({"all", "amax", "amin", "any", "max", "mean", "min", "norm", "prod", "std", "sum", "var"})
"""Return one number if they are called without arguments."""
_PYTHON_CALLS = frozenset(
    {"all", "any", "bool", "callable", "getattr", "hasattr", "isinstance", "issubclass", "len"}
)  # fmt: skip
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer, cst.Float)
_TIGHTER_THAN_BITS = (
    cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.FloorDivide, cst.Modulo, cst.Power, cst.MatrixMultiply,
    cst.LeftShift, cst.RightShift,
)  # fmt: skip
_NUMBERS = (cst.Integer, cst.Float)

_Expression = TypeVar("_Expression", bound=cst.BaseExpression)


def as_tensor(test: cst.BaseExpression, names: Names) -> cst.BaseExpression:
    """A test without Python's operators: ``a > 0 and not b`` becomes ``(a > 0) & torch.logical_not(b)``."""
    match test:
        case cst.BooleanOperation():
            return _joined(test, names)
        case cst.UnaryOperation(operator=cst.Not()):
            return _with_parentheses_of(test, negated(test.expression, names))
        case cst.Comparison():
            return _compared(test)
        case cst.Call(func=cst.Name(value="bool"), args=[cst.Arg(keyword=None, star="", value=value)]):
            return as_tensor(value, names)
    for node in walk(test):
        _refuse(node)
    return test.deep_clone()


def without_none(test: cst.BaseExpression) -> tuple[cst.BaseExpression | None, cst.BaseExpression]:
    """What a test says about ``None`` first, and the rest: ``m is not None and m.any()``.

    Args:
        test: The test, which isn't changed.

    Returns:
        The first part, None if there is none; and the rest.
    """
    operands = list(_anded(test))
    count = next((at for at, operand in enumerate(operands) if not _is_about_none(operand)), 0)
    rest = _all_of(operands[count:]) if count else None
    return _all_of(operands[:count]), rest if rest is not None else test


def _is_about_none(test: cst.BaseExpression) -> bool:
    match test:
        case cst.Comparison(
            comparisons=[cst.ComparisonTarget(operator=cst.Is() | cst.IsNot(), comparator=cst.Name("None"))]
        ):
            return True
    return False


def _anded(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The operands of a chain of ``and`` without parentheses, in order."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And) and not test.lpar:
        yield from _anded(test.left)
        yield from _anded(test.right)
    else:
        yield test


def _all_of(operands: Sequence[cst.BaseExpression]) -> cst.BaseExpression | None:
    if not operands:
        return None
    joined = operands[0].deep_clone()
    for operand in operands[1:]:
        joined = cst.BooleanOperation(joined, cst.And(), operand.deep_clone())
    return joined


def as_boolean_tensor(test: cst.BaseExpression, names: Names) -> cst.BaseExpression:
    """A test as a tensor of dtype bool, which ``torch.where`` needs."""
    tensor = as_tensor(test, names)
    if is_boolean(test, names):
        return tensor
    zero = cst.ComparisonTarget(cst.NotEqual(), cst.Integer("0"))
    return cst.Comparison(_enclosed(tensor, but_not=(cst.BinaryOperation,)), [zero])


def negated(test: cst.BaseExpression, names: Names) -> cst.BaseExpression:
    """The opposite of a test: ``~`` if it is certainly boolean, otherwise ``torch.logical_not``."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return as_boolean_tensor(test.expression, names)
    tensor = as_tensor(test, names)
    if is_boolean(test, names):
        return cst.UnaryOperation(cst.BitInvert(), _enclosed(tensor, but_not=(cst.UnaryOperation,)))
    return _logical("not", [tensor])


def is_boolean(test: cst.BaseExpression, names: Names, *, within: frozenset[str] = frozenset()) -> bool:
    """Whether the test's tensor certainly has dtype bool."""
    match test:
        case cst.Comparison() | cst.BooleanOperation() | cst.UnaryOperation(operator=cst.Not()):
            return True
        case cst.UnaryOperation(operator=cst.BitInvert(), expression=expression):
            return is_boolean(expression, names, within=within)
        case cst.BinaryOperation(operator=cst.BitAnd() | cst.BitOr() | cst.BitXor(), left=left, right=right):
            return is_boolean(left, names, within=within) and is_boolean(right, names, within=within)
        case cst.Call():
            return called(test) in _BOOLEAN_CALLS
        case cst.Name(value=name) if name not in within and (values := names.values(name)):
            return all(is_boolean(value, names, within=within | {name}) for value in values)
        case _:
            return False


def is_one_number(test: cst.BaseExpression, names: Names, *, within: frozenset[str] = frozenset()) -> bool:
    """Whether the test's tensor certainly has no dims, so that it chooses for a whole tensor at once."""
    parts: list[cst.BaseExpression]
    match test:
        case cst.Comparison(left=left, comparisons=comparisons):
            parts = [left, *(item.comparator for item in comparisons)]
        case cst.BooleanOperation(left=left, right=right) | cst.BinaryOperation(left=left, right=right):
            parts = [left, right]
        case cst.UnaryOperation(expression=expression):
            parts = [expression]
        case cst.Call(func=cst.Attribute(value=cst.Name(value="torch"), attr=cst.Name(value=name)), args=[_]):
            return name in _REDUCTIONS
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name)), args=[]):
            return name in _REDUCTIONS
        case cst.Name(value=name) if name not in within and (values := names.values(name)):
            return all(is_one_number(value, names, within=within | {name}) for value in values)
        case _:
            return False
    tensors = [part for part in parts if not _is_number(part)]
    return bool(tensors) and all(is_one_number(part, names, within=within) for part in tensors)


def is_evaluated_alike(tests: Sequence[cst.BaseExpression]) -> bool:
    """Whether evaluating all of it, some of it twice, does no more than Python's evaluation in order.

    Python stops as soon as it knows the result; what it then leaves out must be harmless.
    """
    parts = [part for test in tests for part in walk(test)]
    is_plain = len(tests) == 1 and not any(
        isinstance(part, cst.BooleanOperation) or (isinstance(part, cst.Comparison) and len(part.comparisons) > 1)
        for part in parts
    )
    harmless = {"all", "any", "isfinite", "isinf", "isnan", "mean", "sum", "abs"}
    return is_plain or not any(
        isinstance(part, cst.Subscript) or (isinstance(part, cst.Call) and called(part) not in harmless)
        for part in parts
    )


def tests_for_finite(test: cst.BaseExpression) -> bool:
    """Whether the test is for infinity or NaN: they may occur, and gradients of the other branch may become NaN."""
    names = {"isfinite", "isinf", "isnan", "isposinf", "isneginf", "inf", "nan"}
    return any(
        (isinstance(part, cst.Name) and part.value in names)
        or isinstance(part, cst.SimpleString)  # float("inf")
        or (isinstance(part, cst.Comparison) and part.left.deep_equals(part.comparisons[0].comparator))
        for part in walk(test)
    )


def enclosed(expression: _Expression) -> _Expression:
    """An expression that can be used with any operator, in parentheses if it might need them."""
    return _enclosed(expression, but_not=())


def torch_call(name: str, arguments: Sequence[cst.BaseExpression]) -> cst.Call:
    """``torch.<name>(a, b)``."""
    return cst.Call(cst.Attribute(cst.Name("torch"), cst.Name(name)), [cst.Arg(argument) for argument in arguments])


def _joined(test: cst.BooleanOperation, names: Names) -> cst.BaseExpression:
    left, right = as_tensor(test.left, names), as_tensor(test.right, names)
    is_and = isinstance(test.operator, cst.And)
    if not (is_boolean(test.left, names) and is_boolean(test.right, names)):
        return _logical("and" if is_and else "or", [without_parentheses(left), without_parentheses(right)])
    before, after = test.operator.whitespace_before, test.operator.whitespace_after
    if is_and:
        operator: cst.BaseBinaryOp = cst.BitAnd(_space(before), _space(after))
        but_not: tuple[type[cst.CSTNode], ...] = (cst.BitAnd,)
    else:
        operator = cst.BitOr(_space(before), _space(after))
        but_not = (cst.BitOr, cst.BitAnd)
    joined = cst.BinaryOperation(_operand(left, but_not), operator, _operand(right, but_not))
    return _with_parentheses_of(test, joined)


def _compared(test: cst.Comparison) -> cst.BaseExpression:
    """``a < b < c`` as two comparisons; a single one stays unchanged."""
    for node in walk(test):
        _refuse(node)
    if len(test.comparisons) == 1:
        return test.deep_clone()
    left = test.left
    pairs: list[cst.BaseExpression] = []
    for target in test.comparisons:
        pairs.append(enclosed(cst.Comparison(left.deep_clone(), [target.deep_clone()])))
        left = target.comparator
    joined = pairs[0]
    for pair in pairs[1:]:
        joined = cst.BinaryOperation(joined, cst.BitAnd(), pair)
    return _with_parentheses_of(test, joined)


def _refuse(node: cst.CSTNode) -> None:
    """Decline if part of a test can't be evaluated in a graph, or not always."""
    match node:
        case cst.Is() | cst.IsNot() | cst.In() | cst.NotIn():
            raise DeclinedError("part of the condition is about Python objects, not tensors")
        case cst.Call(func=cst.Name(value=name)) if name in _PYTHON_CALLS:
            raise DeclinedError(f"`{name}(…)` in the condition doesn't return a tensor")
        case cst.Attribute(attr=cst.Name(value="training")) | cst.Name(value="None" | "True" | "False"):
            raise DeclinedError("part of the condition isn't a tensor")
        case cst.NamedExpr():
            raise DeclinedError("the condition assigns a name")
        case cst.Await() | cst.Yield():
            raise DeclinedError("the condition awaits or yields")
        case cst.IfExp() | cst.Lambda() | cst.BooleanOperation() | cst.UnaryOperation(operator=cst.Not()):
            raise DeclinedError("the condition contains a nested choice")
        case _ if is_in_place(node):
            raise DeclinedError("the condition changes a tensor in place")


def _is_number(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.UnaryOperation):
        return _is_number(node.expression)
    return isinstance(node, _NUMBERS)


def _logical(word: str, operands: Sequence[cst.BaseExpression]) -> cst.Call:
    return torch_call(f"logical_{word}", operands)


def _operand(node: cst.BaseExpression, but_not: tuple[type[cst.CSTNode], ...]) -> cst.BaseExpression:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (*but_not, *_TIGHTER_THAN_BITS)):
        return node
    return _enclosed(node, but_not=(cst.UnaryOperation,))


def _enclosed(node: _Expression, *, but_not: tuple[type[cst.CSTNode], ...]) -> _Expression:
    if node.lpar or isinstance(node, (*_ATOMS, *but_not)):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _with_parentheses_of(old: cst.BaseExpression, new: cst.BaseExpression) -> cst.BaseExpression:
    if not old.lpar or new.lpar:
        return new
    return new.with_changes(
        lpar=[paren.deep_clone() for paren in old.lpar], rpar=[paren.deep_clone() for paren in old.rpar]
    )


def without_parentheses(node: _Expression) -> _Expression:
    """An expression to use between commas; parentheses that contain a comment stay."""
    if isinstance(node, cst.Tuple | cst.GeneratorExp) or any(
        isinstance(part, cst.Comment) for paren in (*node.lpar, *node.rpar) for part in walk(paren)
    ):
        return node
    return node.with_changes(lpar=[], rpar=[])


def _space(whitespace: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    if isinstance(whitespace, cst.SimpleWhitespace) and not whitespace.value:
        return cst.SimpleWhitespace(" ")
    return whitespace.deep_clone()


_TOTAL = frozenset(
    {"abs", "add", "atan", "clamp", "cos", "erf", "hardtanh", "leaky_relu", "maximum", "minimum", "mul", "neg",
     "negative", "relu", "relu6", "sigmoid", "silu", "sin", "square", "sub", "tanh"}
)  # fmt: skip
"""Elementwise, defined for every finite number, with finite gradients."""
_MODULES = frozenset({"torch", "F", "torch.nn.functional", "functional"})
_EFFECTS = frozenset(
    {"append", "backward", "clear", "exec", "eval", "extend", "input", "insert", "next", "open", "pop", "popitem",
     "popleft", "print", "register_hook", "remove", "setattr", "setdefault", "step", "update", "warn", "write"}
)  # fmt: skip
_CONTAINERS = (
    cst.BaseList, cst.BaseSet, cst.BaseDict, cst.Tuple, cst.GeneratorExp, cst.Lambda,
)  # fmt: skip


def refuse_unless_tensor(value: cst.BaseExpression) -> None:
    """Decline a value that certainly isn't a tensor, or that has a side effect."""
    match value:
        case cst.BaseString():
            raise DeclinedError("a branch yields a string, not a tensor")
        case cst.Name(value="None" | "True" | "False" | "Ellipsis") | cst.Ellipsis():
            raise DeclinedError(
                f"a branch yields `{value.value if isinstance(value, cst.Name) else '...'}`, not a tensor"
            )
        case cst.BooleanOperation() | cst.UnaryOperation(operator=cst.Not()):
            raise DeclinedError("a branch yields a Python bool, not a tensor")
    if isinstance(value, _CONTAINERS):
        raise DeclinedError("a branch yields several values or a container, not one tensor")
    for node in walk(value):
        match node:
            case cst.NamedExpr():
                raise DeclinedError("a value assigns a name")
            case cst.Await() | cst.Yield():
                raise DeclinedError("a branch awaits or yields")
            case cst.Call() if called(node) in _EFFECTS:
                raise DeclinedError(f"`{called(node)}(…)` has a side effect")
            case cst.Call() if is_in_place(node):
                raise DeclinedError(f"`{called(node)}(…)` changes a tensor in place")


def is_harmless(value: cst.BaseExpression, source: SourceFile) -> bool:
    """Whether computing an unused value changes nothing: it can't fail, and its gradients are finite."""
    match value:
        case cst.Integer() | cst.Float():
            return True
        case cst.Name() | cst.Attribute():
            return dotted(value) is not None
        case cst.UnaryOperation(operator=cst.Minus() | cst.Plus(), expression=expression):
            return is_harmless(expression, source)
        case cst.BinaryOperation(operator=cst.Add() | cst.Subtract() | cst.Multiply(), left=left, right=right):
            return is_harmless(left, source) and is_harmless(right, source)
        case cst.Call(func=cst.Attribute(value=base)) if called(value) in _TOTAL:
            is_known = dotted(base) in _MODULES or (not _is_module(base, source) and is_harmless(base, source))
            return is_known and all(is_harmless(arg.value, source) and not arg.star for arg in value.args)
        case _:
            return False


def operands(value: cst.BaseExpression) -> frozenset[str]:
    """The variables that a harmless value is computed from, which alone determine its shape."""
    return frozenset(_operands(value))


def _operands(value: cst.CSTNode) -> Iterator[str]:
    name = dotted(value)
    if name is not None:
        yield name
        return
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        if dotted(value.func.value) not in _MODULES:
            yield from _operands(value.func.value)
        for arg in value.args:
            yield from _operands(arg.value)
        return
    for child in value.children:
        yield from _operands(child)


def _is_module(base: cst.BaseExpression, source: SourceFile) -> bool:
    """Whether the name before the dot was imported: ``math.sin`` doesn't take a tensor."""
    name = dotted(base)
    if name is None:
        return False
    first = name.partition(".")[0]
    for node in walk(source.tree):
        if isinstance(node, cst.ImportAlias):
            bound = node.asname.name if node.asname is not None else node.name
            if (dotted(bound) or "").partition(".")[0] == first:
                return True
    return False

"""What an expression certainly is, and a test as a tensor: ``and``, ``or`` and ``not`` become
operations of torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from libcst import (
    Add,
    And,
    Arg,
    Assign,
    Attribute,
    Await,
    BaseCompOp,
    BaseDict,
    BaseExpression,
    BaseList,
    BaseNumber,
    BaseSet,
    BaseSmallStatement,
    BaseString,
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
    CSTTransformer,
    Divide,
    Ellipsis,
    Equal,
    Expr,
    Float,
    FloorDivide,
    FunctionDef,
    GeneratorExp,
    GreaterThan,
    GreaterThanEqual,
    IfExp,
    ImportAlias,
    In,
    Integer,
    Is,
    IsNot,
    Lambda,
    LeftShift,
    LessThan,
    LessThanEqual,
    MatrixMultiply,
    Minus,
    Modulo,
    Multiply,
    Name,
    NamedExpr,
    Not,
    NotEqual,
    NotIn,
    Plus,
    Power,
    Return,
    RightShift,
    SimpleString,
    SimpleWhitespace,
    Subscript,
    Subtract,
    Tuple,
    UnaryOperation,
    Yield,
    matchers,
)

from graphdoctor.fixes.source.nodes import (
    bracketed,
    called,
    enclosed,
    is_in_place,
    keyword_of,
    method_call,
    torch_call,
    where,
    with_parentheses_of,
    without_parentheses,
)
from graphdoctor.fixes.source.torch_names import (
    BOOLEAN_METHODS,
    INTEGER_METHODS,
    REDUCED,
    draws_random,
    words,
)
from graphdoctor.fixes.source.tree import (
    DeclinedError,
    SourceFile,
    bound_by,
    decline_if,
    dotted,
    find,
    holds,
    need,
    walk,
    with_replaced,
)

_PYTHON_CALLS = words("all any bool callable getattr hasattr isinstance issubclass len")
_TIGHTER_THAN_BITS = (
    Add, Subtract, Multiply, Divide, FloorDivide, Modulo, Power, MatrixMultiply, LeftShift,
    RightShift,
)  # fmt: skip


def as_tensor(test: BaseExpression, source: SourceFile) -> BaseExpression:
    """Write a test without Python's operators: ``a > 0 and not b`` becomes ``(a > 0) &
    torch.logical_not(b)``.
    """
    match test:
        case BooleanOperation():
            return _joined(test, source)
        case UnaryOperation(operator=Not()):
            return with_parentheses_of(test, negated(test.expression, source))
        case Call(func=Name(value="bool"), args=[Arg(keyword=None, star="", value=value)]):
            return as_tensor(value, source)
        case Call(func=Name(value="any" | "all" as name), args=[Arg(star="", value=value)]) if (
            source.dotted_name(test) == f"builtins.{name}" and is_boolean(value, source)
        ):
            return method_call(as_tensor(value, source), name)
        case Call(func=Attribute(value=value, attr=Name("item")), args=[]):
            return as_tensor(value, source)
    for node in walk(test):
        _refuse(node)
    reads = [(part, tensor) for part in find(test, Call) if (tensor := source.read_of(part, ()))]
    test = need(with_replaced(test, reads), type(test))
    if not isinstance(test, Comparison) or len(test.comparisons) == 1:
        return test.deep_clone()
    # `a < b < c` becomes two comparisons.
    lefts = [test.left, *(target.comparator for target in test.comparisons)]
    pairs = [
        bracketed(Comparison(left.deep_clone(), [right.deep_clone()]))
        for left, right in zip(lefts, test.comparisons, strict=False)
    ]
    whole: BaseExpression = pairs[0]
    for pair in pairs[1:]:
        whole = BinaryOperation(whole, BitAnd(), pair)
    return with_parentheses_of(test, whole)


def returned_by(source: SourceFile, call: CSTNode) -> BaseExpression | None:
    """Return what the function of the file that a call names returns, if that's all it does."""
    functions = [node for node in find(source.tree, FunctionDef) if node.name.value == called(call)]
    smalls = find(functions[0].body, BaseSmallStatement) if len(functions) == 1 else []
    match smalls:
        case [Return(value=value)] | [Expr(value=BaseString()), Return(value=value)]:
            return value
    return None


def is_of_python(test: BaseExpression, source: SourceFile) -> bool:
    """Check whether Python answers a test whatever a tensor's values are: about presence, a type,
    or numbers and texts.
    """
    match test:
        case Comparison(comparisons=[ComparisonTarget(operator=Is() | IsNot())]):
            return True
        case UnaryOperation(operator=Not(), expression=inner):
            return is_of_python(inner, source)
        case Attribute(attr=Name(value="requires_grad" | "training" | "is_sparse")):
            return True
        case Comparison(left=left, comparisons=others):
            sides = (left, *(other.comparator for other in others))
            return all(_is_plain(side, source) for side in sides)
        case Call(func=Name(value="isinstance" | "hasattr" | "callable")):
            return True
        case Call():
            # `exists(mask)`
            returned = returned_by(source, test)
            return returned is not None and is_of_python(returned, source)
    return False


_PLAIN = words("bool float int len max min str", "builtins.")
_DEEPEST = 4


def _is_plain(value: BaseExpression | None, source: SourceFile, depth: int = 0) -> bool:
    """Check whether a value is certainly a number or a text of Python."""
    match value:
        case BaseNumber() | BaseString():
            return True
        case IfExp(body=left, orelse=right) | BinaryOperation(left=left, right=right):
            return _is_plain(left, source, depth) and _is_plain(right, source, depth)
        case Call():
            return source.dotted_name(value) in _PLAIN
        case Name() if depth < _DEEPEST:
            parameter = source.parameter(value)
            if parameter is not None and parameter.annotation is not None:
                return f"builtins.{dotted(parameter.annotation.annotation)}" in _PLAIN
            values = source.set_values(value)
            return bool(values) and all(_is_plain(one, source, depth + 1) for one in values)
    return False


def without_python(
    test: BaseExpression, source: SourceFile
) -> tuple[BaseExpression | None, BaseExpression]:
    """Split what a test asks Python first, None if nothing, from the rest: ``m is not None and
    m.any()``.
    """
    parts = list(_anded(test))
    of_python = [part for part in parts if is_of_python(part, source)]
    of_tensors = [part for part in parts if part not in of_python]
    if not of_python or not of_tensors:
        return None, test
    return _all_of(of_python), _all_of(of_tensors)


def _anded(test: BaseExpression) -> Iterator[BaseExpression]:
    """Iterate over the operands of a chain of ``and`` without parentheses."""
    match test:
        case BooleanOperation(operator=And(), lpar=[]):
            yield from _anded(test.left)
            yield from _anded(test.right)
        case _:
            yield test


def _all_of(parts: Sequence[BaseExpression]) -> BaseExpression:
    *first, last = parts
    return BooleanOperation(_all_of(first), And(), last) if first else last


def as_boolean_tensor(test: BaseExpression, source: SourceFile) -> BaseExpression:
    """Write a test as a tensor of dtype bool, which ``torch.where`` needs."""
    tensor = as_tensor(test, source)
    if is_boolean(test, source) or is_boolean(tensor, source):
        return tensor
    zero = ComparisonTarget(NotEqual(), Integer("0"))
    return Comparison(enclosed(tensor, (BinaryOperation,)), [zero])


def condition_of(test: BaseExpression, source: SourceFile) -> BaseExpression:
    """Write a test as a tensor of dtype bool, without parentheses."""
    return without_parentheses(as_boolean_tensor(test, source))


def negated(test: BaseExpression, source: SourceFile) -> BaseExpression:
    """Write the opposite of a test: another comparison, ``~`` if it is certainly boolean, otherwise
    ``torch.logical_not``.

    With NaN, ``a < b`` and ``a >= b`` are both false, so one takes the place of the other among
    integers only.
    """
    if isinstance(test, UnaryOperation) and isinstance(test.operator, Not):
        return as_boolean_tensor(test.expression, source)
    tensor = as_tensor(test, source)
    match test:
        case Comparison(
            left=left, comparisons=[ComparisonTarget(operator=operator, comparator=right) as pair]
        ):
            opposite = _OPPOSITE.get(type(operator))
            if opposite is None and is_integer(left, source) and is_integer(right, source):
                opposite = _OPPOSITE_OF_INTEGERS.get(type(operator))
            if opposite is not None:
                spaces = ("whitespace_before", "whitespace_after")
                new = opposite(**{name: getattr(operator, name) for name in spaces})
                return test.with_changes(comparisons=[pair.with_changes(operator=new)])
    if is_boolean(test, source):
        return UnaryOperation(BitInvert(), enclosed(tensor, (UnaryOperation,)))
    return torch_call("logical_not", [tensor])


_Comparisons = dict[type[BaseCompOp], type[BaseCompOp]]
_OPPOSITE: _Comparisons = {Equal: NotEqual, NotEqual: Equal}
_OPPOSITE_OF_INTEGERS: _Comparisons = {
    LessThan: GreaterThanEqual,
    LessThanEqual: GreaterThan,
    GreaterThan: LessThanEqual,
    GreaterThanEqual: LessThan,
}
_Within = frozenset[str]


def _are(
    ask: Callable[[BaseExpression, SourceFile, _Within], bool],
    name: Name,
    source: SourceFile,
    within: _Within,
) -> bool:
    """Check all values that a variable is set to; False within its own value."""
    values = source.set_values(name) if name.value not in within else []
    return bool(values) and all(ask(value, source, within | {name.value}) for value in values)


def is_integer(value: BaseExpression, source: SourceFile, within: _Within = frozenset()) -> bool:
    """Check whether it certainly has no NaN, being integers or bools."""
    match value:
        case Integer():
            return True
        case UnaryOperation(operator=Minus() | Plus(), expression=inner):
            return is_integer(inner, source, within)
        case BinaryOperation(operator=Add() | Subtract() | Multiply(), left=left, right=right):
            return is_integer(left, source, within) and is_integer(right, source, within)
        case Call(func=Attribute(value=base, attr=Name(value=name))):
            is_count = name == "sum" and not value.args and is_boolean(base, source)
            return is_count or name in INTEGER_METHODS | {"numel", "nelement", "size"}
        case Call(func=Name(value=name)):
            return name in ("int", "len")
        case Name() if _are(is_integer, value, source, within):
            return True
    return is_boolean(value, source, within)


_ANY = {
    **dict.fromkeys(("> 0", "!= 0", ">= 1"), True),
    **dict.fromkeys(("== 0", "<= 0", "< 1"), False),
}


def asks_for_any(node: CSTNode, source: SourceFile) -> bool | None:
    """Return whether a comparison of a count is true if there are any; None if it asks for
    something else.
    """
    match node:
        case Comparison(comparisons=[ComparisonTarget(comparator=Integer() as number) as pair]):
            return _ANY.get(f"{source.code(pair.operator).strip()} {number.value}")
    return None


def is_by_dim(call: Call, source: SourceFile) -> bool:
    """Check whether the places where a mask is true are a tensor for each dim, as ``where`` gives
    them.
    """
    as_tuple = [arg.value for arg in call.args if keyword_of(arg) == "as_tuple"]
    return called(call) == "where" or any(source.code(value) != "False" for value in as_tuple)


def is_boolean(test: BaseExpression, source: SourceFile, within: _Within = frozenset()) -> bool:
    """Check whether the test's tensor certainly has dtype bool."""
    match test:
        case Comparison() | BooleanOperation() | UnaryOperation(operator=Not()):
            return True
        case UnaryOperation(operator=BitInvert(), expression=inner):
            return is_boolean(inner, source, within)
        case BinaryOperation(operator=BitAnd() | BitOr() | BitXor(), left=left, right=right):
            return is_boolean(left, source, within) and is_boolean(right, source, within)
        case (
            Call(func=Attribute(value=inner, attr=Name("clone" | "detach")))
            | Subscript(value=inner)
        ):
            return is_boolean(inner, source, within)
        case Call():
            return called(test) in BOOLEAN_METHODS | {"all", "any"}
        case Name():
            return _are(is_boolean, test, source, within)
    return False


def is_one_number(test: BaseExpression, source: SourceFile, within: _Within = frozenset()) -> bool:
    """Check whether the test's tensor certainly has no dims, so that it chooses for a whole tensor
    at once.
    """
    match test:
        case Comparison(left=left, comparisons=comparisons):
            parts = [left, *(item.comparator for item in comparisons)]
        case BooleanOperation(left=left, right=right) | BinaryOperation(left=left, right=right):
            parts = [left, right]
        case UnaryOperation(expression=inner):
            parts = [inner]
        case Call(func=Attribute(value=Name(value="torch"), attr=Name(value=name)), args=[_]):
            return name in REDUCED
        case Call(func=Attribute(attr=Name(value=name)), args=[]):
            return name in REDUCED
        case Name():
            return _are(is_one_number, test, source, within)
        case _:
            return False
    tensors = [part for part in parts if not is_literal_number(part)]
    return bool(tensors) and all(is_one_number(part, source, within) for part in tensors)


def is_evaluated_alike(tests: Sequence[BaseExpression]) -> bool:
    """Check whether evaluating all of it, some of it twice, does no more than Python's evaluation
    in order.

    Python stops as soon as it knows the result; what it then leaves out must be harmless.
    """
    harmless = words("all any isfinite isinf isnan mean sum abs")
    is_plain = len(tests) == 1 and not (
        holds(tests[0], BooleanOperation)
        or any(len(part.comparisons) > 1 for part in find(tests[0], Comparison))
    )
    return is_plain or all(
        called(part) in harmless for test in tests for part in find(test, Subscript, Call)
    )


_FINITE = words("isfinite isinf isnan isposinf isneginf inf nan")


def tests_for_finite(test: BaseExpression) -> bool:
    """Check whether a condition tests for infinity or NaN: they may occur, and gradients of the
    other branch may become NaN.
    """
    return (
        holds(test, SimpleString)  # float("inf")
        or any(name.value in _FINITE for name in find(test, Name))
        or any(
            part.left.deep_equals(part.comparisons[0].comparator) for part in find(test, Comparison)
        )
    )


def _joined(test: BooleanOperation, source: SourceFile) -> BaseExpression:
    sides = [as_tensor(side, source) for side in (test.left, test.right)]
    is_and = isinstance(test.operator, And)
    if not (is_boolean(test.left, source) and is_boolean(test.right, source)):
        return torch_call("logical_and" if is_and else "logical_or", sides)
    spaces = [
        SimpleWhitespace(" ") if space.empty else space.deep_clone()
        for space in (test.operator.whitespace_before, test.operator.whitespace_after)
    ]
    operator = BitAnd(*spaces) if is_and else BitOr(*spaces)
    tighter = (BitAnd, *_TIGHTER_THAN_BITS) if is_and else (BitOr, BitAnd, *_TIGHTER_THAN_BITS)
    left, right = (
        side
        if isinstance(side, BinaryOperation) and isinstance(side.operator, tighter)
        else enclosed(side, (UnaryOperation,))
        for side in sides
    )
    return with_parentheses_of(test, BinaryOperation(left, operator, right))


def refuse_sizes(test: BaseExpression) -> None:
    """Decline a test that compares sizes, which are Python's numbers also where values decide
    them.
    """
    for node in find(test, Comparison):
        sides = [node.left, *(pair.comparator for pair in node.comparisons)]
        is_of_sizes = all(is_size(side) or is_literal_number(side) for side in sides)
        decline_if(is_of_sizes, "a size decides, which isn't a tensor")


def _refuse(node: CSTNode) -> None:
    match node:
        case Is() | IsNot() | In() | NotIn():
            reason = "part of the condition is about Python objects, not tensors"
        case Call(func=Name(value=name)) if name in _PYTHON_CALLS:
            reason = f"`{name}(…)` in the condition doesn't return a tensor"
        case Attribute(attr=Name(value="training")) | Name(value="None" | "True" | "False"):
            reason = "part of the condition isn't a tensor"
        case NamedExpr():
            reason = "the condition assigns a name"
        case Await() | Yield():
            reason = "the condition awaits or yields"
        case IfExp() | Lambda() | BooleanOperation() | UnaryOperation(operator=Not()):
            reason = "the condition contains a nested choice"
        case _:
            decline_if(is_in_place(node), "the condition changes a tensor in place")
            return
    raise DeclinedError(reason)


def is_literal_number(node: BaseExpression | None) -> bool:
    """Check whether it is a literal number, perhaps with a sign."""
    inner = node.expression if isinstance(node, UnaryOperation) else node
    return isinstance(inner, Integer | Float)


_TOTAL = words("""
    abs add atan clamp cos erf hardtanh leaky_relu maximum minimum mul neg negative relu relu6
    sigmoid silu sin square sub tanh
""")
"""Elementwise, defined for every finite number, with finite gradients."""
_PARTIAL = words("""
    acos acosh arccos arcsin asin atanh digamma erfinv exp exp2 expm1 lgamma log log10 log1p log2
    logit pow reciprocal rsqrt sqrt std tan
""")
"""Elementwise but for ``std``, with values or gradients that aren't finite for some finite
number."""
_WITH_ARGUMENTS = words("pow std")
"""Those of them that take arguments as methods of a tensor."""
_NOT_NEGATIVE = words("abs norm relu sigmoid softmax square")
_DIVIDING = words("div divide fmod floor_divide remainder true_divide")
_MODULES = words("torch F torch.nn.functional functional")
_NUMPY = words("math np numpy")
_EFFECTS = words("""
    append backward clear exec eval extend input insert next open pop popitem popleft print
    register_hook remove setattr setdefault step update warn write
""")
_CONTAINERS = BaseList | BaseSet | BaseDict | Tuple | GeneratorExp | Lambda


def refuse_unless_tensor(value: BaseExpression) -> None:
    """Decline a value that certainly isn't a tensor, or that has a side effect."""
    match value:
        case BaseString():
            raise DeclinedError("a branch yields a string, not a tensor")
        case Name(value="None" | "True" | "False" | "Ellipsis" as name):
            raise DeclinedError(f"a branch yields `{name}`, not a tensor")
        case Ellipsis():
            raise DeclinedError("a branch yields `...`, not a tensor")
        case BooleanOperation() | UnaryOperation(operator=Not()):
            raise DeclinedError("a branch yields a Python bool, not a tensor")
    decline_if(
        isinstance(value, _CONTAINERS),
        "a branch yields several values or a container, not one tensor",
    )
    refuse_effects(value)


def _only_computes(source: SourceFile, call: Call) -> bool:
    """Check whether a call is of functions of the file, all of which only return something."""
    match call.func:
        case Name(value=name) | Attribute(value=Name("self"), attr=Name(value=name)):
            pass
        case _:
            return False
    functions = [node for node in find(source.tree, FunctionDef) if node.name.value == name]
    for small in (small for node in functions for small in find(node.body, BaseSmallStatement)):
        is_set = isinstance(small, Assign) and all(
            isinstance(target.target, Name) for target in small.targets
        )
        is_text = isinstance(small, Expr) and isinstance(small.value, BaseString)
        if not (is_set or is_text or isinstance(small, Return)) or any(
            map(is_in_place, walk(small))
        ):
            return False
    return bool(functions)


def refuse_effects(value: CSTNode, source: SourceFile | None = None) -> None:
    """Decline a value, or a line, that does more than compute if it's always run."""
    for node in walk(value):
        decline_if(isinstance(node, NamedExpr), "a value assigns a name")
        decline_if(isinstance(node, Await | Yield), "a branch awaits or yields")
        is_known = source is not None and isinstance(node, Call) and _only_computes(source, node)
        is_effect = called(node) in _EFFECTS and not is_known
        decline_if(is_effect, f"`{called(node)}(…)` has a side effect")
        decline_if(
            draws_random(called(node) or ""),
            f"`{called(node)}(…)` draws random numbers where nothing did",
        )
        decline_if(is_in_place(node), f"`{called(node)}(…)` changes a tensor in place")


def is_harmless(value: BaseExpression, source: SourceFile) -> bool:
    """Check whether computing an unused value changes nothing: it can't fail, and its gradients are
    finite.
    """
    match value:
        case Integer() | Float():
            return True
        case Name() | Attribute():
            return dotted(value) is not None
        case UnaryOperation(operator=Minus() | Plus(), expression=inner):
            return is_harmless(inner, source)
        case BinaryOperation(operator=Add() | Subtract() | Multiply(), left=left, right=right):
            return is_harmless(left, source) and is_harmless(right, source)
        case Call(func=Attribute(value=base)) if called(value) in _TOTAL:
            # `math.sin` doesn't take a tensor.
            first = (dotted(base) or "").partition(".")[0]
            imported = map(bound_by, find(source.tree, ImportAlias))
            is_known = dotted(base) in _MODULES or (
                first not in imported and is_harmless(base, source)
            )
            return is_known and all(
                is_harmless(arg.value, source) and not arg.star for arg in value.args
            )
    return False


def guarded(value: BaseExpression, condition: BaseExpression, *, is_if: bool) -> BaseExpression:
    """Write a value that is only chosen if a condition is true, or false, without what makes
    gradients of others NaN.

    The gradient of a value that isn't chosen is 0, and 0 times that of ``1 / 0`` or of ``exp`` of a
    large number is NaN. So ``x / y`` becomes ``x / torch.where(condition, y, 1)``. The value itself
    if there is nothing to guard.
    """
    return value.visit(_Guard(condition, is_if=is_if))  # type: ignore[return-value]


class _Guard(CSTTransformer):
    def __init__(self, condition: BaseExpression, *, is_if: bool) -> None:
        super().__init__()
        self._condition, self._is_if = condition, is_if

    def leave_BinaryOperation(  # noqa: N802 - libcst's name
        self, original_node: BinaryOperation, updated_node: BinaryOperation
    ) -> BinaryOperation:
        if isinstance(updated_node.operator, Divide | FloorDivide | Modulo):
            return updated_node.with_changes(right=self._guarded(updated_node.right))
        if isinstance(updated_node.operator, Power) and not isinstance(
            original_node.right, Integer
        ):
            return updated_node.with_changes(left=self._guarded(updated_node.left))
        return updated_node

    def leave_Call(self, original_node: Call, updated_node: Call) -> Call:  # noqa: N802
        name, func, args = called(original_node), updated_node.func, list(updated_node.args)
        if not isinstance(func, Attribute) or any(arg.star for arg in args):
            return updated_node
        is_function = dotted(func.value) in _MODULES | _NUMPY
        if not is_function and name in _PARTIAL - _WITH_ARGUMENTS and args:
            return updated_node  # a function of another module
        # What it is called on is its first argument.
        at = 0
        if name in _PARTIAL and not is_function:
            return updated_node.with_changes(
                func=func.with_changes(value=self._guarded(func.value))
            )
        if name in _DIVIDING:
            at = int(is_function)
        elif name not in _PARTIAL:
            return updated_node
        if len(args) <= at:
            return updated_node
        args[at] = args[at].with_changes(value=self._guarded(args[at].value))
        return updated_node.with_changes(args=args)

    def _guarded(self, operand: BaseExpression) -> BaseExpression:
        if is_literal_number(operand) or _is_positive(operand) or is_size(operand):
            return operand
        sides = [operand, Integer("1")]
        return where(self._condition, *(sides if self._is_if else reversed(sides)))


def is_size(value: BaseExpression) -> bool:
    """Check for a number that has nothing to do with a tensor's values."""
    match value:
        case Call():
            return called(value) in ("numel", "nelement", "size", "len", "dim")
        case Subscript(value=Attribute(attr=Name("shape"))) | Attribute(attr=Name("ndim")):
            return True
    return False


def _is_positive(value: BaseExpression) -> bool:
    """Check whether it is certainly larger than 0: a non-negative value plus a number."""
    match value:
        case Call(args=[Arg(keyword=Name("min"), value=Integer(value=least))]):
            return called(value) == "clamp" and least != "0"
        case BinaryOperation(operator=Add(), left=left, right=Integer() | Float()):
            two = matchers.Integer("2")
            square = matchers.BinaryOperation(operator=matchers.Power(), right=two)
            return matchers.matches(left, square) or called(left) in _NOT_NEGATIVE
    return False


def operands(value: CSTNode) -> frozenset[str]:
    """Return the variables that a harmless value is computed from, which alone determine its
    shape.
    """
    name = dotted(value)
    if name is not None:
        return frozenset((name,))
    parts = value.children
    if isinstance(value, Call) and isinstance(value.func, Attribute):
        base = [] if dotted(value.func.value) in _MODULES else [value.func.value]
        parts = [*base, *(arg.value for arg in value.args)]
    return frozenset().union(*map(operands, parts))

"""What a branch changes, step by step: each value, how it is written, and the value that changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import libcst
from libcst import (
    AddAssign,
    AnnAssign,
    Arg,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseExpression,
    BaseSmallStatement,
    BaseStatement,
    BaseString,
    BaseSuite,
    BinaryOperation,
    Call,
    Comparison,
    ComparisonTarget,
    Continue,
    CSTNode,
    DictComp,
    DivideAssign,
    Element,
    Expr,
    GeneratorExp,
    If,
    IfExp,
    IndentedBlock,
    Integer,
    Is,
    Lambda,
    List,
    ListComp,
    MultiplyAssign,
    Name,
    Pass,
    Raise,
    Return,
    SetComp,
    SimpleStatementLine,
    SimpleStatementSuite,
    SimpleString,
    Subscript,
    SubtractAssign,
    Tuple,
    parse_expression,
)

from graphdoctor.fixes.moves.choosing import Values, parts_of
from graphdoctor.fixes.source.expressions import is_literal_number
from graphdoctor.fixes.source.nodes import (
    Comments,
    as_operand,
    assigned,
    called,
    comments_in,
    enclosed,
    is_in_place,
    is_repeatable,
    joined,
    keyword_of,
    lines_of,
    name_set,
)
from graphdoctor.fixes.source.torch_names import words
from graphdoctor.fixes.source.tree import (
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    find,
    holds,
    known,
    names_in,
    need,
    walk,
    with_replaced,
)

Body = BaseSuite | Sequence[BaseStatement]


RETURNED = "return"
"""The target of a ``return``, where other targets are names; it's a keyword, so no name can be
equal to it."""


MORE = "a branch contains more than assignments"


UNPACKED = "a branch sets several targets to one value"


_Write = Callable[[BaseExpression], BaseSmallStatement]


@dataclass(frozen=True)
class Step:
    """One change, or the ``return``; ``x += 1`` has the value ``x + 1``."""

    target: str
    """The text of what is changed: steps of two branches with the same are one choice."""
    value: BaseExpression
    comments: Comments
    write: _Write
    """Makes the statement for a chosen value."""
    idle: BaseExpression | None = None
    """The value with which it changes nothing; None for a ``return``."""
    is_name: bool = True
    """Whether it binds names, and nothing else sees it."""
    is_unpacking: bool = False
    """Whether one value has what several targets are set to: ``a, b = f(x)``."""


_NEUTRAL = {"mul_": "1", "div_": "1", "add_": "0", "sub_": "0"}
"""Methods of a tensor, and the argument with which each changes nothing."""


_OPERATORS = {MultiplyAssign: "1", DivideAssign: "1", AddAssign: "0", SubtractAssign: "0"}


def steps_of(
    small: BaseSmallStatement, comments: Comments, source: SourceFile, region: Sequence[CSTNode]
) -> list[Step]:
    """Return the changes that a statement makes.

    Raises:
        DeclinedError: It does more than change something that can be chosen.
    """
    match small:
        case Pass() | Expr(value=BaseString()) | AnnAssign(value=None):
            return []
        case Return(value=BaseExpression() as value):
            return [Step(RETURNED, value.deep_clone(), comments, Return)]
        case Assign(targets=[AssignTarget(target=target)], value=value):
            return [_set_step(target, value, comments, source, region)]
        case AugAssign(target=target, operator=operator, value=value):
            # A parameter is changed in place, which its caller sees.
            is_own = isinstance(target, Name) and source.parameter_of(target) is None
            if not is_own and type(operator) in _OPERATORS:
                text = f"{source.code(target)} {type(operator).__name__}"
                idle = parse_expression(_OPERATORS[type(operator)])
                changed: _Write = lambda amount: AugAssign(  # noqa: E731
                    target.deep_clone(), operator.deep_clone(), amount
                )
                return [Step(text, value.deep_clone(), comments, changed, idle, is_name=False)]
            # ``AddAssign`` and ``Add``
            plain = getattr(libcst, type(operator).__name__.removesuffix("Assign"))
            whole = BinaryOperation(target.deep_clone(), plain(), enclosed(value.deep_clone()))
            return [_set_step(target, whole, comments, source, region)]
        case Expr(value=Call(func=Attribute(value=tensor, attr=Name(value=name))) as call) if (
            name.endswith("_") and not name.endswith("__")
        ):
            first: list[Step] = []
            if isinstance(tensor, Call) and is_in_place(tensor):
                # `x.mul_(a).add_(b)` is two changes of `x`.
                first = steps_of(Expr(tensor), comments, source, region)
                comments = Comments()
                while isinstance(tensor, Call) and is_in_place(tensor):
                    tensor = need(tensor.func, Attribute).value
                call = call.with_changes(func=Attribute(tensor, Name(name)))
            return [*first, _in_place_step(call, tensor, name, comments, source)]
        case Return():
            reason = "returns nothing"
        case Expr():
            reason = "calls something for its side effect"
        case Raise():
            reason = "raises an exception"
        case Assign():
            reason = "assigns one value to several targets"
        case _:
            reason = "contains more than assignments"
    raise DeclinedError(f"a branch {reason}")


def _set_step(
    target: BaseExpression,
    value: BaseExpression,
    comments: Comments,
    source: SourceFile,
    region: Sequence[CSTNode],
) -> Step:
    parts, is_unpacking = [target], False
    if isinstance(target, Tuple | List):
        parts = [part.value for part in target.elements if isinstance(part, Element)]
        values = parts_of(value)[1] if isinstance(value, Tuple) else parts
        decline_if(len(parts) != len(target.elements) or len(parts) != len(values), UNPACKED)
        is_unpacking = not isinstance(value, Tuple)
    texts = [source.code(part) for part in parts]
    decline_if(len(set(texts)) != len(texts), "a branch sets a target twice at once")
    for part in parts:
        is_plain = isinstance(part, Name | Attribute | Subscript) and is_repeatable(part)
        decline_if(not is_plain, "what is written can't be read as well")
        if not isinstance(part, Name):
            _refuse_unset(part, value, source, region)
    idle = joined([part.deep_clone() for part in parts])
    write: _Write = lambda chosen: assigned(target.deep_clone(), chosen).body[0]  # noqa: E731
    is_name = all(isinstance(part, Name) for part in parts)
    name = ", ".join(texts)
    return Step(name, value.deep_clone(), comments, write, idle, is_name, is_unpacking)


_NUMBERS = words("tolist float int len bool str")


def _refuse_unset(
    target: BaseExpression, value: BaseExpression, source: SourceFile, region: Sequence[CSTNode]
) -> None:
    """Decline what may not be there before the branch, and a number that would become a tensor."""
    match source.parent(region[0]):
        case If(test=Comparison(left=asked, comparisons=[ComparisonTarget(operator=Is())])):
            if asked.deep_equals(target):
                return  # It isn't None here.
    if isinstance(target, Attribute):
        is_number = is_literal_number(value) or called(value) in _NUMBERS
        decline_if(
            is_number or dotted(value) in ("True", "False"),
            "what is stored is a number, and would become a tensor",
        )
        inside = {part for node in region for part in walk(node)}
        values = source.bound_to(target)
        before = [bound for bound in values if bound not in inside]
        is_unset = (values and not before) or any(dotted(bound) == "None" for bound in before)
        decline_if(is_unset, f"`{source.code(target)}` may have no value if the branch isn't taken")
    if holds(target, SimpleString):
        text = source.code(target)
        around = find(
            known(source.function_of(region[0]), "the line isn't in a function"), Subscript
        )
        around = [part for part in around if source.code(part) == text]
        start = source.start(region[0])
        is_there = any(source.start(part) < start for part in around)
        decline_if(not is_there, f"`{text}` may not be there if the branch isn't taken")


def _in_place_step(
    call: Call, tensor: BaseExpression, name: str, comments: Comments, source: SourceFile
) -> Step:
    decline_if(
        any(argument.star for argument in call.args),
        f"`{name}` takes arguments that the line doesn't show",
    )
    keywords = list(map(keyword_of, call.args))
    text = f"{source.code(tensor)}.{name}"
    first = call.args[0] if call.args else None
    if name in _NEUTRAL and first and keywords[:1] == [""] and set(keywords[1:]) <= {"alpha"}:

        def changed(amount: BaseExpression) -> BaseSmallStatement:
            copy = call.deep_clone()
            args = [copy.args[0].with_changes(value=amount), *copy.args[1:]]
            return Expr(copy.with_changes(args=args))

        idle = parse_expression(_NEUTRAL[name])
        return Step(text, first.value.deep_clone(), comments, changed, idle, is_name=False)
    decline_if(not is_repeatable(tensor), "what is written can't be read as well")
    if name == "copy_" and first and keywords == [""]:
        value = first.value
    elif (name == "fill_" and keywords == [""]) or (name == "zero_" and not keywords):
        value = first.value if first else Integer("0")
    else:
        is_known = name.removesuffix("_") in _ELEMENTWISE
        decline_if(not is_known, f"`{name}` has no argument with which it changes nothing")
        attribute = need(call.func, Attribute).with_changes(attr=Name(name.removesuffix("_")))
        value = call.with_changes(func=attribute)

    def written(chosen: BaseExpression) -> BaseSmallStatement:
        if isinstance(chosen, Call) and called(chosen) == "where" and len(chosen.args) == 3:
            condition, yes, no = (argument.value for argument in chosen.args)
            if no.deep_equals(tensor) and is_literal_number(yes):
                func = Attribute(tensor.deep_clone(), Name("masked_fill_"))
                return Expr(Call(func, [Arg(condition), Arg(yes)]))
        return Expr(Call(Attribute(tensor.deep_clone(), Name("copy_")), [Arg(chosen)]))

    text = f"{source.code(tensor)}.copy_"
    return Step(text, value.deep_clone(), comments, written, tensor.deep_clone(), is_name=False)


_ELEMENTWISE = words("""
    abs add addcdiv addcmul ceil clamp clamp_max clamp_min clip cos div exp floor index_add
    index_copy index_fill lerp logical_and logical_not logical_or masked_fill masked_scatter mul
    nan_to_num neg pow reciprocal relu round rsqrt scatter scatter_add sigmoid sign sin sqrt square
    sub tanh trunc
""")
"""Methods that have a form with ``_`` and give a tensor of the shape that it had."""


@dataclass(frozen=True)
class Branch:
    """A branch's steps in order, a ``return`` last, and the statements that they are."""

    steps: tuple[Step, ...] = ()
    nodes: tuple[CSTNode, ...] = ()

    @property
    def is_returning(self) -> bool:
        """Check whether the function ends with it."""
        return bool(self.steps) and self.steps[-1].target == RETURNED

    @property
    def read(self) -> set[str]:
        """Names that the values of its steps read."""
        return name_set(*(step.value for step in self.steps))


def branch_of(
    body: Body, source: SourceFile, region: Sequence[CSTNode], above: tuple[str, ...] = ()
) -> Branch:
    """Read a body, or some lines, as a branch."""
    lines = lines_in(body)
    after: tuple[str, ...] = ()
    if isinstance(body, IndentedBlock):
        above, after = (*above, *comments_in([body.header])), comments_in(body.footer)
    steps: list[Step] = []
    waiting = Comments(above)
    for line in lines:
        if not isinstance(line, SimpleStatementLine):
            raise DeclinedError(MORE)
        waiting = waiting.joined(Comments.of(line.leading_lines, line.trailing_whitespace))
        for small in line.body:
            is_over = bool(steps) and steps[-1].target == RETURNED
            decline_if(is_over and not isinstance(small, Pass), "there is code after a `return`")
            made = steps_of(small, waiting, source, region)
            if steps and made and (again := _read_by(steps[-1], made[0])) is not None:
                # `y = f(x)` and `y = g(y)` are one step: by itself the first may have a shape that
                # no other way gives.
                whole = with_replaced(made[0].value, [(again, as_operand(steps[-1].value))])
                joint = steps.pop().comments.joined(made[0].comments)
                made[0] = replace(made[0], value=whole, comments=joint)
            steps += made
            waiting = Comments() if made else waiting
    if steps and (waiting.above or waiting.beside or after):
        kept = steps[-1].comments.joined(waiting).joined(Comments(after))
        steps[-1] = replace(steps[-1], comments=kept)
    nodes = body.body if isinstance(body, SimpleStatementSuite) else lines
    return Branch(tuple(steps), tuple(nodes))


def _read_by(step: Step, after: Step) -> Name | None:
    """Return the one place where a step that sets a name anew reads it; None if it's another."""
    reads = [name for name in names_in(after.value) if name.value == step.target]
    is_one = step.is_name and after.target == step.target and len(reads) == 1
    is_once = not holds(after.value, Lambda, ListComp, GeneratorExp, DictComp, SetComp, IfExp)
    return reads[0] if is_one and is_once else None


@dataclass(frozen=True)
class Row:
    """A step of each branch to choose from, None where a branch changes nothing; or a step of one
    branch that only this branch needs, which isn't chosen.
    """

    steps: tuple[Step | None, ...]
    owner: int | None = None
    """The number of the branch that alone needs it."""

    @property
    def first(self) -> Step:
        """The step of the first branch that has one."""
        return next(step for step in self.steps if step is not None)

    @property
    def values(self) -> Values:
        """A value for each branch; one that has no step changes nothing."""
        idle = self.first.idle
        return [
            step.value if step is not None else cast("BaseExpression", idle) for step in self.steps
        ]


def lines_in(body: Body) -> Sequence[BaseStatement]:
    """Return the lines of a body."""
    return lines_of(body) if isinstance(body, BaseSuite) else body


def last_of(body: Body) -> CSTNode | None:
    """Return the last small statement of a body; None if it ends with a block."""
    lines = lines_in(body)
    last = lines[-1] if lines else None
    return last.body[-1] if isinstance(last, SimpleStatementLine) else None


def gives(body: Body) -> bool:
    """Check whether a body ends with a ``return`` of a value."""
    last = last_of(body)
    return isinstance(last, Return) and last.value is not None


def leaves(body: Body) -> bool:
    """Check whether a body ends with ``continue``, or with a ``return`` of nothing."""
    last = last_of(body)
    return isinstance(last, Continue) or (isinstance(last, Return) and last.value is None)


def ends_with_return(line: CSTNode) -> bool:
    """Check whether a line is a ``return``."""
    return isinstance(line, SimpleStatementLine) and isinstance(line.body[-1], Return)

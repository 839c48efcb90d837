"""Lines that a tensor's value guards: changes in place."""

from __future__ import annotations

from libcst import (
    AddAssign,
    Arg,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseExpression,
    BaseSmallStatement,
    BaseStatement,
    BaseSuite,
    Call,
    Comparison,
    ComparisonTarget,
    DivideAssign,
    Expr,
    For,
    If,
    Integer,
    Is,
    IsNot,
    MultiplyAssign,
    Name,
    NamedExpr,
    Not,
    Pass,
    SimpleStatementLine,
    SimpleStatementSuite,
    Subscript,
    SubtractAssign,
    UnaryOperation,
    parse_expression,
)

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.expressions import (
    condition_of,
    guarded,
    is_one_number,
    refuse_unless_tensor,
)
from graphdoctor.fixes.source.nodes import (
    Names,
    assigned,
    called,
    calls_in,
    in_place_of,
    is_repeatable,
    keyword_of,
    lines_of,
    method_call,
    name_set,
    refuse_lost_comments,
    set_names,
    where,
)
from graphdoctor.fixes.source.tree import DeclinedError, decline_if, dotted, holds

_NEUTRAL = {"mul_": "1", "div_": "1", "add_": "0", "sub_": "0"}
"""Methods of a tensor, and the argument with which each changes nothing."""

_OPERATORS = {MultiplyAssign: "1", DivideAssign: "1", AddAssign: "0", SubtractAssign: "0"}
_MORE = "the branch does more than change tensors in place"


@recipe("GD102")
def in_place_where(place: Place) -> Edit:
    """``if norm > limit: grad.mul_(limit / norm)`` becomes ``grad.mul_(torch.where(norm > limit,
    limit / norm, 1))``.

    Also in a loop, for ``div_``, ``add_`` and ``sub_``, their operators, ``zero_`` and ``fill_``,
    beside names that only the branch uses; ``best.copy_(x)`` becomes
    ``best.copy_(torch.where(condition, x, best))``, and so do items and attributes that are set.
    Multiplying by 1 keeps every number, infinity and NaN; adding 0 turns -0.0 into 0.0.
    Unsafe: what is written is always computed, so it may fail or be another dtype than it was.
    """
    choice = place.branch
    changes = _InPlace(choice, Names(place.source, place.scope))
    lines = changes.written()
    refuse_lost_comments([choice], lines)
    what = "what is written" if changes.is_written else "the amount of each in-place change"
    return place.edit(f"Choose {what} with `torch.where`", (choice, lines))


class _InPlace:
    def __init__(self, choice: If, names: Names) -> None:
        self._choice = choice
        self._names = names
        self._test = condition_of(choice.test, names.source)
        self._condition, self._above = names.named(self._test)
        self._hoisted: list[SimpleStatementLine] = []
        self.is_written = False
        """Whether a whole tensor, or a part of one, is written anew, so that the condition's dims
        would count."""
        self._count = 0
        """How many changes in place there are."""

    def written(self) -> list[BaseStatement]:
        lines: list[BaseStatement] = []
        for line in lines_of(self._choice.body):
            changed = self._line(line, ())
            lines += [*self._hoisted, changed]
            self._hoisted = []
        decline_if(not self._count, "the branch changes no tensor in place by an amount")
        if self.is_written and not is_one_number(self._choice.test, self._names.source):
            self._above = [assigned(self._condition, method_call(self._test, "squeeze"))]
        return in_place_of(self._choice, [*self._above, *lines])

    def _line(self, line: BaseStatement, loops: tuple[For, ...]) -> BaseStatement:
        match line:
            case SimpleStatementLine():
                return line.with_changes(body=[self._small(small, loops) for small in line.body])
            case For(orelse=None, asynchronous=None):
                body = self._body(line.body, (*loops, line))
                heads = {"target": line.target.deep_clone(), "iter": line.iter.deep_clone()}
                return line.with_changes(body=body, **heads)
            case If(orelse=None) if _is_about_objects(line.test):
                body = self._body(line.body, loops)
                return line.with_changes(body=body, test=line.test.deep_clone())
        raise DeclinedError(_MORE)

    def _body(self, body: BaseSuite, loops: tuple[For, ...]) -> BaseSuite:
        if isinstance(body, SimpleStatementSuite):
            return body.with_changes(body=[self._small(small, loops) for small in body.body])
        return body.with_changes(body=[self._line(line, loops) for line in lines_of(body)])

    def _small(self, small: BaseSmallStatement, loops: tuple[For, ...]) -> BaseSmallStatement:
        match small:
            case Pass():
                return small.deep_clone()
            case Expr(value=Call(func=Attribute(attr=Name(value=name))) as call):
                return small.with_changes(value=self._call(call, name, loops))
            case AugAssign(operator=operator, value=value) if type(operator) in _OPERATORS:
                amount = self._amount(value, _OPERATORS[type(operator)], loops)
                return small.with_changes(target=small.target.deep_clone(), value=amount)
            case Assign(
                targets=[AssignTarget(target=Subscript() | Attribute() as target)], value=value
            ) if not holds(target, NamedExpr):
                to = AssignTarget(target.deep_clone())
                return small.with_changes(targets=[to], value=self._kept(value, target))
            case Assign(targets=[AssignTarget(target=Name(value=name))], value=value):
                is_used = not self._names.is_only_in(name, [self._choice])
                decline_if(is_used, f"`{name}` is used after the branch")
                refuse_unless_tensor(value)
                return small.deep_clone()
        raise DeclinedError(_MORE)

    def _call(self, call: Call, name: str, loops: tuple[For, ...]) -> Call:
        args = [argument.deep_clone() for argument in call.args]
        is_unclear = any(argument.star for argument in args)
        decline_if(is_unclear, f"`{name}` takes arguments that the line doesn't show")
        keywords = list(map(keyword_of, args))
        func = call.func.deep_clone()
        if name in _NEUTRAL and keywords[:1] == [""] and set(keywords[1:]) <= {"alpha"}:
            amount = self._amount(call.args[0].value, _NEUTRAL[name], loops)
            return call.with_changes(
                func=func, args=[args[0].with_changes(value=amount), *args[1:]]
            )
        if (name == "fill_" and keywords == [""]) or (name == "zero_" and not args):
            self._count += 1
            value = args[0].value if args else Integer("0")
            filled = func.with_changes(attr=Name("masked_fill_"))
            return Call(filled, [Arg(self._condition.deep_clone()), Arg(value)])
        if name == "copy_" and keywords == [""] and isinstance(call.func, Attribute):
            value = self._kept(call.args[0].value, call.func.value)
            return call.with_changes(func=func, args=[Arg(value)])
        raise DeclinedError(f"`{name}` has no argument with which it changes nothing")

    def _kept(self, value: BaseExpression, target: BaseExpression) -> Call:
        """Choose between a value to write and what is there."""
        decline_if(not is_repeatable(target), "what is written can't be read as well")
        if dotted(value) not in ("True", "False"):
            refuse_unless_tensor(value)
        self._count += 1
        self.is_written = True
        return where(self._condition, guarded(value, self._condition, is_if=True), target)

    def _amount(
        self, value: BaseExpression, neutral: str, loops: tuple[For, ...]
    ) -> BaseExpression:
        """Choose between the amount and the neutral one; in a loop, before it if it doesn't depend
        on it.
        """
        refuse_unless_tensor(value)
        self._count += 1
        safe = guarded(value, self._condition, is_if=True)
        chosen = where(self._condition, safe, parse_expression(neutral))
        if not loops or any(_depends_on(value, loop) for loop in loops):
            return chosen
        name = Name(self._names.fresh("amount"))
        self._hoisted.append(assigned(name, chosen))
        return name.deep_clone()


def _depends_on(value: BaseExpression, loop: For) -> bool:
    in_place = [call.func for call in calls_in(loop.body) if called(call).endswith("_")]
    tensors = [func.value for func in in_place if isinstance(func, Attribute)]
    return bool(name_set(value) & (name_set(loop.target, *tensors) | set_names(loop.body)))


def _is_about_objects(test: BaseExpression) -> bool:
    """Check whether a test only asks for presence: ``p.grad is not None``, ``p.requires_grad``."""
    match test:
        case Comparison(comparisons=[ComparisonTarget(operator=Is() | IsNot())]):
            return True
        case UnaryOperation(operator=Not(), expression=inner):
            return _is_about_objects(inner)
        case Attribute(attr=Name(value="requires_grad" | "training" | "is_sparse")):
            return True
    return False

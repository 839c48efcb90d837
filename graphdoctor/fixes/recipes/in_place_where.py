"""A branch that only scales, shifts or fills tensors in place, such as gradient clipping: always do it, neutrally."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.branches import refuse_lost_comments
from graphdoctor.fixes.syntax.conditions import as_boolean_tensor, torch_call, without_parentheses
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.names import Names, called, names_in
from graphdoctor.fixes.syntax.operations import refuse_unless_tensor
from graphdoctor.fixes.syntax.place import Place, tested_at
from graphdoctor.fixes.syntax.source import walk

_NEUTRAL = {"mul_": "1", "div_": "1", "add_": "0", "sub_": "0"}
"""Methods of a tensor, and the argument with which each changes nothing."""

_OPERATORS: dict[type[cst.BaseAugOp], str] = {
    cst.MultiplyAssign: "1",
    cst.DivideAssign: "1",
    cst.AddAssign: "0",
    cst.SubtractAssign: "0",
}


class InPlaceWhere(Recipe):
    """``if norm > limit: grad.mul_(limit / norm)`` becomes ``grad.mul_(torch.where(norm > limit, limit / norm, 1))``.

    Also in a loop, for ``div_``, ``add_`` and ``sub_``, their operators, ``zero_`` and ``fill_``, beside names that
    only the branch uses. Multiplying by 1 keeps every number, infinity and NaN; adding 0 turns -0.0 into 0.0. Unsafe:
    the factor is always computed, so it may fail or be another dtype than the number was.
    """

    name: ClassVar = "in-place-where"
    codes: ClassVar = frozenset({"GD102"})

    def edit(self, place: Place) -> Edit:
        """The same changes in place, which do nothing if the condition doesn't hold.

        Raises:
            DeclinedError: The branch does more than that.
        """
        source, choice = place.source, tested_at(place)
        if not isinstance(choice, cst.If) or choice.orelse is not None:
            raise DeclinedError("it isn't an `if` with a single branch")
        if isinstance(next(source.parents(choice)), cst.If):
            raise DeclinedError("it isn't an `if` with a single branch")
        function = source.function_of(choice)
        if function is None:
            raise DeclinedError("the branch isn't in a function")
        lines = _Lines(choice, Names(source, function)).written()
        refuse_lost_comments([choice], lines)
        return Edit(
            title="Choose the amount of each in-place change with `torch.where`",
            content=source.replaced((choice, cst.FlattenSentinel(lines)), imports=("torch",)),
            is_safe=False,
        )


class _Lines:
    """The lines that replace an ``if``.

    Args:
        choice: The ``if``.
        names: The names of its function.
    """

    def __init__(self, choice: cst.If, names: Names) -> None:
        self._choice = choice
        self._names = names
        tensor = as_boolean_tensor(choice.test, names)
        self._test = without_parentheses(tensor)
        self._condition = self._test if isinstance(tensor, cst.Name) else cst.Name(names.fresh("condition"))
        self._hoisted: list[cst.SimpleStatementLine] = []
        self._count = 0
        """How many changes in place there are."""

    def written(self) -> list[cst.BaseStatement]:
        """All of them, with the comments of the old ones."""
        lines: list[cst.BaseStatement] = []
        for line in _lines_of(self._choice.body):
            changed = self._line(line, loops=())
            lines += [*self._hoisted, changed]
            self._hoisted = []
        if not self._count:
            raise DeclinedError("the branch changes no tensor in place by an amount")
        if self._condition is not self._test:
            assert isinstance(self._condition, cst.Name)
            lines.insert(0, _set(self._condition.value, self._test))
        first = lines[0]
        assert isinstance(first, cst.SimpleStatementLine | cst.For | cst.If)  # what _line() returns
        above = [empty.deep_clone() for empty in (*self._choice.leading_lines, *first.leading_lines)]
        lines[0] = first.with_changes(leading_lines=above)
        return lines

    def _line(self, line: cst.BaseStatement, *, loops: tuple[cst.For, ...]) -> cst.BaseStatement:
        match line:
            case cst.SimpleStatementLine():
                return line.with_changes(body=[self._small(small, loops) for small in line.body])
            case cst.For(orelse=None) if line.asynchronous is None:
                body = self._body(line.body, (*loops, line))
                return line.with_changes(body=body, target=line.target.deep_clone(), iter=line.iter.deep_clone())
            case cst.If(orelse=None) if _is_about_objects(line.test):
                return line.with_changes(body=self._body(line.body, loops), test=line.test.deep_clone())
        raise DeclinedError("the branch does more than change tensors in place")

    def _body(self, body: cst.BaseSuite, loops: tuple[cst.For, ...]) -> cst.BaseSuite:
        if isinstance(body, cst.SimpleStatementSuite):
            return body.with_changes(body=[self._small(small, loops) for small in body.body])
        return body.with_changes(body=[self._line(line, loops=loops) for line in _lines_of(body)])

    def _small(self, small: cst.BaseSmallStatement, loops: tuple[cst.For, ...]) -> cst.BaseSmallStatement:
        match small:
            case cst.Pass():
                return small.deep_clone()
            case cst.Expr(value=cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) as call):
                return small.with_changes(value=self._call(call, name, loops))
            case cst.AugAssign(operator=operator, value=value) if type(operator) in _OPERATORS:
                amount = self._amount(value, _OPERATORS[type(operator)], loops)
                return small.with_changes(target=small.target.deep_clone(), value=amount)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
                if not self._names.is_only_in(name, [self._choice]):
                    raise DeclinedError(f"`{name}` is used after the branch")
                refuse_unless_tensor(value)
                return small.deep_clone()
        raise DeclinedError("the branch does more than change tensors in place")

    def _call(self, call: cst.Call, name: str, loops: tuple[cst.For, ...]) -> cst.Call:
        """The call, so that it changes nothing if the condition doesn't hold."""
        args = call.args
        if any(argument.star for argument in args):
            raise DeclinedError(f"`{name}` takes arguments that the line doesn't show")
        if name in _NEUTRAL and args and args[0].keyword is None:
            rest = [argument.keyword.value for argument in args[1:] if argument.keyword is not None]
            if len(rest) == len(args) - 1 and set(rest) <= {"alpha"}:
                amount = self._amount(args[0].value, _NEUTRAL[name], loops)
                return call.with_changes(
                    func=call.func.deep_clone(),
                    args=[args[0].with_changes(value=amount), *(argument.deep_clone() for argument in args[1:])],
                )
        is_filled = name == "fill_" and len(args) == 1 and args[0].keyword is None
        if is_filled or (name == "zero_" and not args):
            self._count += 1
            assert isinstance(call.func, cst.Attribute)  # the caller says so
            value: cst.BaseExpression = args[0].value.deep_clone() if args else cst.Integer("0")
            filled = call.func.with_changes(value=call.func.value.deep_clone(), attr=cst.Name("masked_fill_"))
            return cst.Call(filled, [cst.Arg(self._condition.deep_clone()), cst.Arg(value)])
        raise DeclinedError(f"`{name}` has no argument with which it changes nothing")

    def _amount(self, value: cst.BaseExpression, neutral: str, loops: tuple[cst.For, ...]) -> cst.BaseExpression:
        """The amount, or the neutral one; in a loop, computed before it if it doesn't depend on it."""
        refuse_unless_tensor(value)
        self._count += 1
        chosen = torch_call(
            "where",
            [self._condition.deep_clone(), without_parentheses(value.deep_clone()), cst.parse_expression(neutral)],
        )
        if not loops or _depends_on(value, loops):
            return chosen
        name = self._names.fresh("amount")
        self._hoisted.append(_set(name, chosen))
        return cst.Name(name)


def _lines_of(body: cst.BaseSuite) -> list[cst.BaseStatement]:
    if isinstance(body, cst.IndentedBlock):
        return [line for line in body.body if isinstance(line, cst.BaseStatement)]
    assert isinstance(body, cst.SimpleStatementSuite)  # libcst knows two kinds of suites
    return [cst.SimpleStatementLine(body.body, trailing_whitespace=body.trailing_whitespace)]


def _depends_on(value: cst.BaseExpression, loops: Sequence[cst.For]) -> bool:
    """Whether a loop sets a name that the value reads, or may change a tensor that it reads."""
    read = {name.value for name in names_in(value)}
    for loop in loops:
        changed = [name.value for name in names_in(loop.target)]
        for node in walk(loop.body):
            match node:
                case cst.AssignTarget(target=target) | cst.AugAssign(target=target):
                    changed += [name.value for name in names_in(target)]
                case cst.Call(func=cst.Attribute(value=tensor)) if called(node).endswith("_"):
                    changed += [name.value for name in names_in(tensor)]
        if read.intersection(changed):
            return True
    return False


def _is_about_objects(test: cst.BaseExpression) -> bool:
    """Whether it only asks if something is there: ``p.grad is not None``, ``p.requires_grad``."""
    match test:
        case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.Is() | cst.IsNot())]):
            return True
        case cst.Attribute(attr=cst.Name("requires_grad" | "training" | "is_sparse")):
            return True
        case cst.UnaryOperation(operator=cst.Not(), expression=inner):
            return _is_about_objects(inner)
    return False


def _set(name: str, value: cst.BaseExpression) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], value)])

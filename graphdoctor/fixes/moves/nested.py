"""Writes statements of a branch one by one, so that each does nothing unless conditions hold."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace

from libcst import (
    Attribute,
    BaseExpression,
    BaseStatement,
    BinaryOperation,
    BitAnd,
    BitInvert,
    Break,
    Continue,
    CSTNode,
    Else,
    For,
    If,
    Integer,
    Name,
    Return,
    SimpleStatementLine,
    UnaryOperation,
    With,
)

from graphdoctor.fixes.moves.choosing import Values, choose_each, columns_of, refuse_parts
from graphdoctor.fixes.moves.steps import MORE, RETURNED, UNPACKED, Row, Step, leaves, steps_of
from graphdoctor.fixes.source.expressions import (
    condition_of,
    guarded,
    is_of_python,
    refuse_effects,
    refuse_sizes,
)
from graphdoctor.fixes.source.nodes import (
    Comments,
    Names,
    after_lines,
    assigned,
    called,
    calls_in,
    enclosed,
    in_place_of,
    joined,
    line_of,
    lines_of,
    name_set,
    set_names,
    with_lines,
)
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile, decline_if, holds, need, only


def all_of(conditions: Values) -> BaseExpression:
    """Join conditions, each of them boolean."""
    whole = conditions[0].deep_clone()
    for condition in conditions[1:]:
        whole = BinaryOperation(whole, BitAnd(), condition.deep_clone())
    return whole


class Nested:
    """Writes statements so that they do nothing unless a condition holds."""

    def __init__(
        self,
        source: SourceFile,
        names: Names,
        region: Sequence[CSTNode],
        shared: Collection[str] = (),
    ) -> None:
        self._source, self._names, self._region, self._shared = source, names, region, shared
        self.steps: list[Step] = []
        """What is changed and seen elsewhere."""
        self._hoisted: list[BaseStatement] = []
        """Amounts to compute before a loop."""

    def lines(
        self, lines: Sequence[BaseStatement], conditions: Values, loops: tuple[For, ...] = ()
    ) -> list[BaseStatement]:
        """Write some lines, which run only if all conditions hold."""
        new: list[BaseStatement] = []
        for line in lines:
            if isinstance(line, If) and not is_of_python(line.test, self._source):
                added, conditions = self._branches(line, conditions, loops)
                new += added
            else:
                new += self._line(line, conditions, loops)
        return new

    def _line(
        self, line: BaseStatement, conditions: Values, loops: tuple[For, ...]
    ) -> list[BaseStatement]:
        match line:
            case SimpleStatementLine(body=smalls):
                comments = Comments.of(line.leading_lines, line.trailing_whitespace)
                made = [steps_of(small, comments, self._source, self._region) for small in smalls]
                return [
                    new
                    for step in itertools.chain.from_iterable(made)
                    for new in self._step(step, all_of(conditions), loops)
                ]
            case For() | With() | If() if holds(line, Break, Continue, Return):
                pass
            case For(orelse=None, asynchronous=None):
                inner = self.lines(lines_of(line.body), conditions, (*loops, line))
                before: list[BaseStatement] = []
                if not loops:
                    before, self._hoisted = self._hoisted, []
                changed = line.deep_clone().with_changes(body=with_lines(line.body, inner))
                return in_place_of(line, [*before, changed.with_changes(leading_lines=())])
            case With(asynchronous=None):
                inner = self.lines(lines_of(line.body), conditions, loops)
                return [line.deep_clone().with_changes(body=with_lines(line.body, inner))]
            case If():
                return [self._kept_branch(line, conditions, loops)]
        raise DeclinedError(MORE)

    def _kept_branch(self, line: If, conditions: Values, loops: tuple[For, ...]) -> If:
        """Write the lines in a branch that Python takes."""
        body = with_lines(line.body, self.lines(lines_of(line.body), conditions, loops))
        orelse = line.orelse
        if isinstance(orelse, If):
            orelse = need(only(self.lines([orelse], conditions, loops), MORE), If, MORE)
        elif orelse is not None:
            lines = self.lines(lines_of(orelse.body), conditions, loops)
            orelse = orelse.with_changes(body=with_lines(orelse.body, lines))
        return line.deep_clone().with_changes(body=body, orelse=orelse)

    def _branches(
        self, line: If, conditions: Values, loops: tuple[For, ...]
    ) -> tuple[list[BaseStatement], Values]:
        """Write all branches, and return what must hold for the lines after them to run."""
        lines: list[BaseStatement] = []
        others: list[BaseExpression] = []
        left: list[BaseExpression] = []
        node: If | Else | None = line
        while node is not None:
            turn = [*others]
            if isinstance(node, If):
                refuse_sizes(node.test)
                test = condition_of(node.test, self._source)
                condition, made = self._names.named(test, is_kept=name_set(test) & set_names(line))
                lines += [after_lines(new, node.leading_lines) for new in made]
                turn.append(condition)
                others.append(UnaryOperation(BitInvert(), condition))
            body = lines_of(node.body)
            if leaves(body):
                ways = [part for part in turn if not any(map(part.deep_equals, left))]
                left.append(UnaryOperation(BitInvert(), enclosed(all_of(ways))))
                body = body[:-1]
            decline_if(any(holds(inner, Break, Continue, Return) for inner in body), MORE)
            lines += self.lines(body, [*conditions, *turn], loops)
            node = node.orelse if isinstance(node, If) else None
        return lines, [*conditions, *left]

    def _step(
        self, step: Step, condition: BaseExpression, loops: tuple[For, ...]
    ) -> list[BaseStatement]:
        row = Row((step, None))
        targets = step.target.split(", ")
        decline_if(step.target == RETURNED, "one branch returns and another doesn't")
        is_own = step.is_name and not any(
            name in self._shared or self._names.is_read_after(name, self._region)
            for name in targets
        )
        values = [step.value] if is_own else row.values
        columns = columns_of(values)
        refuse_effects(step.value, self._source)
        if is_own:
            value = guarded(step.value, condition, is_if=True)
            return [line_of(step.write(value), step.comments)]
        if step.is_unpacking:
            return self._unpacked(step, condition, loops)
        self.steps.append(step)
        for name in targets if step.is_name else ():
            decline_if(self._names.is_declared(name), f"`{name}` isn't a local name")
            is_bound = self._names.is_bound_before(name, self._region[0])
            decline_if(not is_bound, f"`{name}` has no value if the branch isn't taken")
        for column in columns:
            refuse_parts(column, is_stored=not step.is_name)
        chosen = choose_each([condition], values, columns)
        is_amount = isinstance(step.idle, Integer)
        if not (loops and is_amount) or any(_depends_on(step.value, loop) for loop in loops):
            return [line_of(step.write(chosen), step.comments)]
        amount = Name(self._names.fresh("amount"))
        self._hoisted.append(assigned(amount, chosen))
        return [line_of(step.write(amount), step.comments)]

    def _unpacked(
        self, step: Step, condition: BaseExpression, loops: tuple[For, ...]
    ) -> list[BaseStatement]:
        """Give names of their own to what one value has for several targets, and choose of them."""
        targets = step.target.split(", ")
        decline_if(not step.is_name, UNPACKED)
        news = [Name(self._names.fresh(f"new_{name}")) for name in targets]
        value = guarded(step.value, condition, is_if=True)
        line = line_of(assigned(joined(news), value).body[0], step.comments)
        chosen = replace(step, value=joined([new.deep_clone() for new in news]), is_unpacking=False)
        return [line, *self._step(replace(chosen, comments=Comments()), condition, loops)]


def _depends_on(value: BaseExpression, loop: For) -> bool:
    in_place = [call.func for call in calls_in(loop.body) if called(call).endswith("_")]
    tensors = [func.value for func in in_place if isinstance(func, Attribute)]
    return bool(name_set(value) & (name_set(loop.target, *tensors) | set_names(loop.body)))

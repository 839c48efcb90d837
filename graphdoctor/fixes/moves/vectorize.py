"""A loop over samples, rows, experts or classes becomes what one line of torch does for all turns.

The body is read once, for every turn together. Where turns can't be an axis, as over different
modules, the loop stays and only what selects rows goes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from libcst import (
    Add,
    Arg,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseExpression,
    BaseStatement,
    BinaryOperation,
    Call,
    Comment,
    Continue,
    CSTNode,
    Else,
    EmptyLine,
    Expr,
    For,
    If,
    Index,
    Integer,
    ListComp,
    Name,
    Pass,
    SimpleStatementLine,
    Subscript,
    SubscriptElement,
    Subtract,
    Tuple,
    parse_expression,
    parse_module,
)

from graphdoctor.fixes.moves.turns import NOT_ALIKE, Picked, Test, Turns, Value, bare, operand
from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.effects import reads_tensor
from graphdoctor.fixes.source.expressions import is_literal_number
from graphdoctor.fixes.source.nodes import (
    above,
    after_lines,
    called,
    calls_in,
    comments_in,
    in_place_of,
    lines_of,
    set_names,
    with_lines,
)
from graphdoctor.fixes.source.ranks import SCALAR, UNKNOWN, shifted
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    decline_if,
    dotted,
    find,
    holds,
    known,
    names_in,
    need,
)

_FACTORY = re.compile(r".*\b(new_)?(zeros|ones|empty|full)(_like)?$|.*\.clone$")
_OF_ANOTHER = re.compile(r".*(_like|\bnew_\w+|\.clone)$")
"""What takes the dtype of another tensor; into others, what turns set is written in place."""

_Tests = tuple[Test, ...]
_SHORT = 60
_UNSURE = "nothing shows that `{}` is a tensor"
_NEVER = Test(Value("False"))
"""Met by no turn: those that go on with the next one."""


class _Loop(Turns):
    """Reads the statements of a loop."""

    loop: For

    def run(self) -> list[Change]:
        """Return what changes so that a loop is gone, or what it selects."""
        decline_if(self.loop.orelse is not None, "the loop has an `else`")
        self.changes: list[Change] = []
        self.comments: list[str] = []
        self.lists = set[str]()
        if self.is_axis:
            self._bind(self.loop.target, self.loop.iter)
            self._find_running()
        self._block(lines_of(self.loop.body), ())
        self._refuse_later_reads()
        for name in self.stored:
            self._finish(name)
        self._place_comments(len(self.lines) - 1)
        if self.is_axis and not self.lines:
            is_lost = self.comments or comments_in(above(self.loop)) or not self.changes
            decline_if(is_lost, "nothing is left of the loop")
            return [(self.loop, ()), *self.changes]
        if self.is_axis:
            return [(self.loop, in_place_of(self.loop, self.lines)), *self.changes]
        had = lines_of(self.loop.body)
        is_as_before = len(had) == len(self.lines) and all(
            map(CSTNode.deep_equals, had, self.lines)
        )
        decline_if(is_as_before and not self.changes, NOT_ALIKE)
        return [(self.loop.body, with_lines(self.loop.body, self.lines)), *self.changes]

    # What turns go over.

    def _bind(self, target: BaseExpression, over: BaseExpression) -> None:
        args = [arg.value for arg in over.args] if isinstance(over, Call) else []
        match self.source.dotted_name(over) if isinstance(over, Call) else "", target:
            case "builtins.range", Name(value=name) if 0 < len(args) < 3:
                decline_if(any(map(self._is_read, args)), "a tensor decides how often a loop runs")
                start, stop = ["", "", *map(self.code, args)][-2:]
                self.span, self.turn = ("" if start == "0" else start, stop), name
            case "builtins.enumerate", Tuple(elements=[first, second]) if len(args) == 1:
                self._bind(second.value, args[0])
                self.turn = dotted(first.value) or ""
            case "builtins.zip", Tuple(elements=parts) if len(args) == len(parts):
                for part, arg in zip(parts, args, strict=True):
                    self._bind(part.value, arg)
            case _, Name(value=name):
                self.env[name] = value = self._items(target, over)
                self.span = self.span if self.span[1] else ("", f"len({value.text})")
            case _:
                raise self.no_form(over)
        self.env[self.turn] = Value("", each=True, kind="turn")

    def _items(self, target: BaseExpression, over: BaseExpression) -> Value:
        match over:
            case Call(func=Attribute(value=tensor, attr=Name("tolist")), args=[]):
                return replace(self._number(self.value(tensor), "item", target), each=True)
            case Call(func=Attribute(value=tensor, attr=Name("unbind")), args=[]) | (
                Name() as tensor
            ):
                value = self.value(tensor)
                return Value(value.text, shifted(value.rank, -1), each=True)
        raise self.no_form(over)

    def _is_read(self, node: BaseExpression) -> bool:
        values = self.source.set_values(node) if isinstance(node, Name) else [node]
        return any(reads_tensor(self.source, value) for value in values)

    def _find_running(self) -> None:
        """Find variables that turns add to and read: cumulative sums and products."""
        for name in sorted(set_names(self.loop.body)):
            uses = [part for part in find(self.loop.body, Name) if part.value == name]
            sets = [use for use in uses if self.source.is_target(use)]
            if len(sets) != 1 or not self.names.is_bound_before(name, self.loop):
                continue
            match self.source.around(sets[0], Assign, AugAssign):
                case AugAssign(operator=operator, value=step):
                    sign, own = self.code(operator).strip()[:-1], 1
                case Assign(
                    value=BinaryOperation(left=Name(value=left), operator=operator, right=step)
                ) if left == name:
                    sign, own = self.code(operator).strip(), 2
                case _:
                    continue
            if len(uses) == own:
                continue  # No turn reads it, so only the sum counts.
            line = self.source.around(sets[0], SimpleStatementLine)
            is_each = any(line is top for top in lines_of(self.loop.body))
            decline_if(sign not in ("+", "*") or not is_each, NOT_ALIKE)
            made, value = self._made(name)[-1], self.unread(self.value(step))
            before = self.code(made.value)
            decline_if(not value.each or value.kind in ("turn", "count"), NOT_ALIKE)
            text = f"{operand(value.text)}.cum{'sum' if sign == '+' else 'prod'}(0)"
            if before not in (("0", "0.0") if sign == "+" else ("1", "1.0")):
                text = f"{operand(before)} {sign} {text}"
            if sign == "+":
                before = f"{text} - {operand(value.text)}"
                if len(uses) > own + 1:
                    self._written.add(name)
                    self.emit(f"{name} = {before}")
                    before = name
                self.env[name] = Value(before, value.rank, each=True)
            self.steps[name] = self.code(step), Value(text, value.rank, each=True)
            if self.names.is_only_in(name, [made, self.loop]):
                self._drop(made)

    def _made(self, name: str) -> list[Assign]:
        """Return the lines before the loop that set a variable; there is one."""
        made = self._lines_that_set(name)
        decline_if(not made, NOT_ALIKE)
        return made

    def _lines_that_set(self, name: str) -> list[Assign]:
        at = self.source.start(self.loop)
        return [
            line
            for line in find(self.function, Assign)
            if self.source.start(line) < at
            and [dotted(target.target) for target in line.targets] == [name]
        ]

    # Statements.

    def _place_comments(self, at: int) -> None:
        """Put the comments that were read above a line that was written."""
        if self.comments and 0 <= at < len(self.lines):
            lines = [EmptyLine(comment=Comment(comment)) for comment in self.comments]
            self.lines[at] = after_lines(self.lines[at], lines)
            self.comments = []

    def _block(self, lines: Sequence[BaseStatement], tests: _Tests) -> _Tests:
        """Read statements that some turns run; return what the turns meet that go on after them."""
        for line in lines:
            count = len(self.lines)
            self.comments += comments_in(above(line))
            match line:
                case SimpleStatementLine(body=[Continue()]):
                    return (*tests, _NEVER)
                case _ if not self.is_axis and not tests and not self.varies(line):
                    self.comments = self.comments[
                        : len(self.comments) - len(comments_in(above(line)))
                    ]
                    self.lines.append(line.deep_clone())
                case SimpleStatementLine(body=smalls):
                    self.comments += comments_in([line.trailing_whitespace])
                    for small in smalls:
                        self.tests = tests
                        self._small(small)
                case If():
                    tests = self._branches(line, tests)
                case _:
                    raise self.no_form(line)
            self._place_comments(count)
            if tests and tests[-1] is _NEVER:
                break
        return tests

    def _branches(self, line: If, tests: _Tests) -> _Tests:
        self.tests = tests
        is_same = isinstance(line.test, Name | Attribute) and not self.varies(line.test)
        decline_if(is_same, "a branch is the same in all turns of the loop")
        test, orelse = self.test(line.test), line.orelse
        others = lines_of(orelse.body) if isinstance(orelse, Else) else [orelse] if orelse else []
        sides = ((lines_of(line.body), test), (others, test.opposite))
        ends = [self._block(lines, (*tests, side)) for lines, side in sides]
        stays = [end[-1] is not _NEVER for end in ends]
        decline_if(
            any(len(end) > len(tests) + 1 for end in ends if end[-1] is not _NEVER), NOT_ALIKE
        )
        if all(stays):
            return tests
        return (*tests, _NEVER) if not any(stays) else (*tests, test if stays[0] else test.opposite)

    def _small(self, small: CSTNode) -> None:
        match small:
            case Assign(targets=[AssignTarget(target=Name(value=name))], value=value):
                steps = self._steps(name, value) if self._is_sum(name) else []
                self._refuse_number(name, *(step for _, step in steps))
                if steps:
                    total = self.value(steps[0][1])
                    for operator, step in steps[1:]:
                        total = self.together([total, self.value(step)], f"{{:+}} {operator} {{}}")
                    self._add(name, steps[0][0], total)
                else:
                    self._assign(name, value)
            case Assign(targets=[AssignTarget(target=Tuple(elements=[rows, slots]))], value=value):
                mask = self.places(value)
                decline_if(mask is None or mask.each, NOT_ALIKE)
                picked = replace(self.picked_by(known(mask)), rank=("", 2))
                names = [dotted(part.value) or "" for part in (rows, slots)]
                if re.search(rf"\[{names[1]}, {names[0]}\b", self.code(self.loop)):
                    names.reverse()
                    picked = replace(picked, slots=0)
                for name, kind in zip(names, ("rows", "slots"), strict=True):
                    self.env[name] = Value("", kind=kind, picked=picked)
            case Assign(targets=[AssignTarget(target=Subscript() as target)], value=value):
                self._store(target, self.value(value))
            case AugAssign(target=Subscript() as target, operator=operator, value=value):
                self._store(target, self.value(value), self.code(operator).strip()[:-1])
            case AugAssign(target=Name(value=name), operator=operator, value=value):
                sign = self.code(operator).strip()[:-1]
                if self._is_sum(name):
                    self._refuse_number(name, value)
                    self._add(name, sign, self.value(value))
                else:
                    self._assign(name, None, f"{{:+}} {sign} {{}}", value)
            case Expr(
                value=Call(
                    func=Attribute(value=Name(value=name), attr=Name("append")),
                    args=[Arg(value=value)],
                )
            ) if self.is_axis:
                self.lists.add(name)
                self._put(name, self.value(value))
            case Expr(
                value=Call(
                    func=Attribute(value=target, attr=Name("index_add_")),
                    args=[Arg(value=Integer("0")), Arg(value=rows), Arg(value=value)],
                )
            ):
                index = Subscript(target, [SubscriptElement(Index(rows))])
                self._store(index, self.value(value), "+")
            case Pass():
                pass
            case _:
                raise self.no_form(small)

    def _steps(self, name: str, node: BaseExpression) -> list[tuple[str, BaseExpression]]:
        """Return what is added to a variable: of ``x + a - b``, that is ``a`` and ``-b``."""
        steps: list[tuple[str, BaseExpression]] = []
        while isinstance(node, BinaryOperation) and isinstance(node.operator, Add | Subtract):
            steps.insert(0, (self.code(node.operator).strip(), node.right))
            node = node.left
        is_sum = dotted(node) == name and steps and steps[0][0] == "+"
        return steps if is_sum or (dotted(node) == name and len(steps) == 1) else []

    def _is_sum(self, name: str) -> bool:
        """Check for a variable of before the loop that turns only add to."""
        is_bound = self.names.is_bound_before(name, self.loop)
        return is_bound and name not in self.env and name not in self.steps

    def _assign(
        self,
        name: str,
        node: BaseExpression | None,
        template: str = "",
        step: BaseExpression | None = None,
    ) -> None:
        if name in self.steps:
            self.env[name] = self.steps[name][1]
            return
        if node is not None:
            value = self.value(node)
        else:
            value = self.together([self.env[name], self.value(known(step))], template)
        is_inner = self.names.is_only_in(name, [self.loop])
        decline_if(not self.is_axis and not is_inner, NOT_ALIKE)
        old = self.env.get(name)
        if self.tests and old is not None:
            value = self.chosen(self.tests[-1:], value, old)
        elif self.tests and self.names.is_bound_before(name, self.loop):
            raise DeclinedError(NOT_ALIKE)
        count = sum(part.value == name for part in find(self.loop, Name)) - 1
        if value.kind == "rows" and value.picked is None:
            value = self.renamed(value, self.name("chosen", value.text))
        elif value.text and count > 1 and not isinstance(parse_expression(value.text), Name):
            is_new = is_inner and name not in self._written
            to = name if is_new else self.names.fresh(name)
            self._written.add(to)
            self.emit(f"{to} = {value.text}")
            value = self.renamed(value, to)
        self.env[name] = value

    def _refuse_number(self, name: str, *steps: BaseExpression) -> None:
        """Decline if a number that becomes a tensor leaves the function as what it is."""
        for step in steps:
            is_count = any(called(call) in ("len", "numel", "size") for call in calls_in(step))
            is_count |= any(part.attr.value == "shape" for part in find(step, Attribute))
            if not (is_count or is_literal_number(step) or reads_tensor(self.source, step)):
                return
        end = self.source.position(self.loop).end.line
        for use in find(self.function, Name) if steps else ():
            if use.value != name or self.source.start(use)[0] <= end:
                continue
            around = self.source.around(use, BinaryOperation) or use
            values = [
                value
                for other in names_in(around)
                if other.value not in (name, "max")
                for value in self.source.set_values(other)[:1]
            ]
            is_with_tensor = any(map(self.source.is_tensor, values))
            decline_if(
                not is_with_tensor, f"`{name}` is a number that the function gives to others"
            )

    def _add(self, name: str, sign: str, value: Value) -> None:
        """Add what turns have to a variable of before the loop."""
        decline_if(
            sign not in ("+", "-") or value.picked or value.kind in ("turn", "slotted"), NOT_ALIKE
        )
        tests = self._needed(self.mask_of(value))
        if value.text == "1" and tests and self.is_axis:
            total = f"{operand(self.all_of(tests).text)}.sum()"
        elif self.is_axis:
            value = self.chosen(tests, value, Value("0"))
            decline_if(not value.each, NOT_ALIKE)
            total = f"{operand(value.text)}.sum({'0' if value.rank != SCALAR else ''})"
        else:
            total = self.chosen(tests, value, Value("0")).text
        made = self._made(name)[-1]
        is_zero = self.code(made.value) in ("0", "0.0") and self._is_unread(name, made)
        if self.is_axis and is_zero and sign == "+":
            self._drop(made)
            self.emit(f"{name} = {total}")
        else:
            self.emit(f"{name} = {name} {sign} {operand(total)}")
        for call in find(self.function, Call):
            match call:
                case Call(func=Name("max"), args=[Arg(value=Name(value=first)), Arg(value=least)]):
                    if first == name and self.source.start(call) > self.source.start(self.loop):
                        clamped = parse_expression(f"{name}.clamp(min={self.code(least)})")
                        self.changes.append((call, clamped))

    def _is_unread(self, name: str, made: Assign) -> bool:
        """Check that nothing reads a variable between a line that sets it and the loop."""
        first, last = self.source.start(made), self.source.start(self.loop)
        uses = [part for part in find(self.function, Name) if part.value == name]
        return not any(first < self.source.start(use) < last for use in uses)

    def _drop(self, line: Assign) -> None:
        self.changes.append((known(self.source.around(line.targets[0], SimpleStatementLine)), ()))

    def _needed(self, picked: Picked | None) -> _Tests:
        """Leave out tests that a mask has rows: without, nothing changes."""
        if picked is None:
            return self.tests
        masks = [picked.mask]
        while masks[-1] in self.wholes:
            masks.append(self.wholes[masks[-1]])
        return tuple(test for test in self.tests if not (test.is_met and test.filled in masks))

    def _put(self, name: str, value: Value) -> None:
        """Set what turns have of a tensor or list."""
        decline_if(value.kind in ("rows", "slots", "slotted") or value.picked, NOT_ALIKE)
        stack, tests, value = self.stored.setdefault(name, []), self.tests, self.unread(value)
        while stack and tests and stack[-1][1] == (*tests[:-1], tests[-1].opposite):
            value, tests = self.chosen(tests[-1:], value, stack.pop()[0]), tests[:-1]
        if not tests:
            stack.clear()
        stack.append((value, tests))

    def _store(self, target: Subscript, value: Value, operator: str = "") -> None:
        name, (first, *rest) = dotted(target.value) or "", target.slice
        if not name:
            raise self.no_form(target)
        if self.is_axis:
            decline_if(name in self.env, NOT_ALIKE)
            self.bases[name] = target.value
            # Nothing else has items of several dims.
            is_tensor = self._is_fresh(target.value) or self.source.is_tensor(target.value)
            decline_if(not is_tensor and not rest, _UNSURE.format(name))
            decline_if(not self.is_turn(first) or holds(first, BinaryOperation), NOT_ALIKE)
            self._store_turn(name, target.value, rest, value, operator)
            return
        index = self.index(first)
        if index is not None and index.kind in ("rows", "mask"):
            decline_if(rest, NOT_ALIKE)
            self._store_rows(name, target.value, index, value, operator)
            return
        decline_if(self.varies(target) or value.picked is not None, NOT_ALIKE)
        is_tensor = self._is_fresh(target.value) or self.source.is_tensor(target.value)
        decline_if(not is_tensor, _UNSURE.format(name))
        old = Value(self.code(target), value.rank)
        if operator in ("+", "-"):
            self.tests = self._needed(self.mask_of(value))
        decline_if(self.tests or not operator, NOT_ALIKE)
        self.emit(f"{old.text} {operator}= {value.text}")

    def _store_turn(
        self,
        name: str,
        base: BaseExpression,
        items: Sequence[SubscriptElement],
        value: Value,
        operator: str,
    ) -> None:
        old = self.held(name, self.before(base))
        if items:
            places = [at for at, item in enumerate(items) if self.varies(item)]
            is_whole = [self.code(item.slice) in (":", "...") for item in items]
            is_sliced = bool(places) and all(is_whole[places[-1] + 1 :])
            place = (
                self.ragged(old, items[: places[-1] + 1]) if is_sliced else self.item(old, items)
            )
            decline_if(place.text != old.text or operator, NOT_ALIKE)
            decline_if(value.picked not in (None, place.picked), NOT_ALIKE)
            mask, dense = self.mask_for(place), bare(self._widened(value, old.rank))
            value = Value(f"torch.where({mask}, {dense}, {bare(old.text)})", old.rank, each=True)
        else:
            decline_if(operator, NOT_ALIKE)
        self._put(name, value)

    def _store_rows(
        self, name: str, base: BaseExpression, index: Value, value: Value, operator: str
    ) -> None:
        """Set or change the rows that a mask selects."""
        picked = self.rows_of(index.picked) if index.picked is not None else self.picked_by(index)
        decline_if(value.picked not in (None, picked), NOT_ALIKE)
        self.tests = self._needed(picked)
        rank = value.rank if value.picked is not None else self.ranks.of(base)
        mask = self.mask_for(Value(name, rank, picked=picked))
        decline_if(self.tests or operator not in ("", "+", "-"), NOT_ALIKE)
        text = f"torch.where({mask}, {bare(value.text)}, {'0' if operator else name})"
        if operator:
            text = f"{name} {operator} {text}"
        self.emit(f"{name}{'' if self._is_fresh(base, _OF_ANOTHER) else '[:]'} = {text}")

    def _is_fresh(self, base: BaseExpression, factory: re.Pattern[str] = _FACTORY) -> bool:
        """Check whether a variable has a tensor that the function makes for it."""
        made = self._lines_that_set(base.value)[-1:] if isinstance(base, Name) else []
        value = made[0].value if made else None
        return isinstance(value, Call) and factory.match(self.code(value.func)) is not None

    # What is after the loop.

    def _refuse_later_reads(self) -> None:
        """Decline if something after the loop reads what its last turn left."""
        end = self.source.position(self.loop).end.line
        for name in {*self.env, *self.steps} - {""}:
            uses = [part for part in find(self.function, Name) if part.value == name]
            later = [use for use in uses if self.source.start(use)[0] > end]
            is_read = bool(later) and not self.source.is_target(later[0])
            decline_if(is_read, f"`{name}` is read after the loop")

    def _finish(self, name: str) -> None:
        """Write what turns set."""
        if name in self.lists:
            self._finish_list(name)
            return
        base = self.bases[name]
        old = self.before(base)
        value = self.held(name, old)
        is_whole = old.text == name and value.kind not in ("count", "mask", "integer")
        if not is_whole or not self._is_fresh(base, _OF_ANOTHER):
            self._write_into(old.text if old.text != name else f"{name}[:]", old.text, value)
            return
        decline_if(not value.each, NOT_ALIKE)
        made = self._made(name)
        is_named = re.search(rf"\b{name}\b", "".join([value.text, *map(self.code, self.lines)]))
        if len(made) == 1 and self._is_unread(name, made[0]) and not is_named:
            self._drop(made[0])
        self.emit(f"{name} = {value.text}")

    def _write_into(self, target: str, old: str, value: Value) -> None:
        """Write what turns set of a tensor that others may hold."""
        match parse_expression(value.text):
            case Call(args=[Arg(value=mask), Arg(value=number), Arg(value=rest)]) if self.code(
                rest
            ) == old and is_literal_number(number):
                fill = ", ".join(map(self.code, (mask, number)))
                self.emit(f"{old}.masked_fill_({fill})")
            case _:
                self.emit(f"{target} = {value.text}")

    def _finish_list(self, name: str) -> None:
        """Write what is stacked after the loop."""
        source, made = self.source, self._made(name)[-1]
        uses = [part for part in find(self.function, Name) if part.value == name]
        inside = sum(part.value == name for part in find(self.loop, Name))
        [(value, tests), *others] = self.stored[name]
        decline_if(others or not value.each, "turns add different things to a list")
        decline_if(tests, "some turns add nothing to a list")
        is_list = self.code(made.value) in ("[]", "list()") and len(uses) == inside + 2
        stacked: CSTNode | None = source.around(uses[-1], Call)
        if (
            not is_list
            or not isinstance(stacked, Call)
            or source.start(stacked) < source.start(self.loop)
        ):
            raise self.no_form(made)
        path, dim = source.dotted_name(stacked), [self.code(arg.value) for arg in stacked.args[1:]]
        if source.receiver(stacked) is not uses[-1] or dim not in ([], ["0"]):
            raise self.no_form(stacked)
        text = value.text
        if path in ("torch.cat", "torch.concat") and value.rank not in (SCALAR, UNKNOWN):
            text = f"{operand(text)}.flatten(0, 1)"
        elif path not in ("torch.stack", "torch.tensor"):
            raise self.no_form(stacked)
        self._drop(made)
        body = lines_of(self.function.body)
        line = source.path_to(self.function.body, stacked)[-1]
        at = next((at for at, part in enumerate(body) if part is self.loop), len(body))
        is_next = body[at + 1 : at + 2] == [line] and len(text) < _SHORT
        if is_next or isinstance(parse_expression(text), Name):
            self.changes.append((stacked, parse_expression(text)))
        else:
            self.emit(f"{name} = {text}")
            self.changes.append((stacked, Name(name)))


def _with_loop(place: Place) -> Place:
    """Write the only list comprehension of a line as a loop above it."""
    source, line = place.source, place.statement
    lists = find(line, ListComp) if isinstance(line, SimpleStatementLine) else []
    if len(lists) != 1 or lists[0].for_in.inner_for_in is not None:
        return place
    over, name = lists[0].for_in, source.free_name("stacked")
    header = f"for {source.code(over.target)} in {source.code(over.iter)}:"
    tests = [f"if not ({source.code(part.test)}):\n        continue" for part in over.ifs]
    body = [*tests, f"{name}.append({source.code(lists[0].elt)})"]
    loop = "\n    ".join([f"{name} = []\n{header}", *body])
    lines = [
        part for part in parse_module(loop).body if isinstance(part, SimpleStatementLine | For)
    ]
    changed = line.deep_replace(lists[0], Name(name))
    new = in_place_of(line, [*lines, need(changed, SimpleStatementLine)])
    return place.moved(source.changed((line, new)), source.start(line)[0] + 1)


@recipe("GD102", "GD103", "GD104", "GD110", "GD111", "GD119")
def vectorize(place: Place) -> Edit:
    """Computes all turns of a loop at once, by broadcasting, masks and cumulative sums; or every
    row in each turn, of which a mask selects.

    Unsafe: sums add up in another order, and more is computed than the loop did.
    """
    place = _with_loop(place)
    source = place.source
    around = [place.statement, *source.path_to(place.function, place.statement)]
    loops = [node for node in dict.fromkeys(around) if isinstance(node, For)]
    decline_if(not loops, "no loop is around the line", "another_line")
    reasons: list[str] = []
    for loop in loops:
        line = source.start(loop)[0]
        for is_axis, title in (
            (True, f"Compute all turns of the `for` at line {line} at once"),
            (False, f"Select by a mask in the `for` at line {line}"),
        ):
            reading = _Loop(source, place.function, loop, is_axis=is_axis)
            try:
                edit = place.edit(title, *reading.run())
            except DeclinedError as error:
                reasons.append(error.reason)
                continue
            if edit.content != source.content:
                more = ", and run each module on all rows" if reading.is_dense else ""
                return Edit(title + more, edit.content)
    said = [reason for reason in reversed(reasons) if reason != NOT_ALIKE]
    raise DeclinedError(said[0] if said else NOT_ALIKE)

"""What Python has to know, or draws at random, made before the compiled part where it depends on
nothing in there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.effects import Touched, is_output, is_read, reaching, sharing, touched
from graphdoctor.fixes.source.extraction import (
    Run,
    call_of_part,
    computes,
    functions_in,
    leaves,
    operations_in,
    owner_of,
    returns_only,
    shell,
    with_lines,
)
from graphdoctor.fixes.source.flow import Flow, captured, flow
from graphdoctor.fixes.source.names import Names
from graphdoctor.fixes.source.nodes import (
    assigned,
    bracketed,
    called,
    calls_in,
    expression,
    is_in_place,
    lines_of,
    name_set,
)
from graphdoctor.fixes.source.torch_names import TENSOR_METHODS, TUPLE_METHODS
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    names_in,
    need,
    parsed,
    walk,
    with_replaced,
)

_DRAWS = ("random.", "numpy.random.")
_BUILTINS = """
    abs all any bool float int isinstance len list max min range round set sorted str sum tuple
"""
_METHODS = "cpu dim get item items keys max min nonzero numel size tolist unique values"
_PURE_BUILTINS = frozenset(f"builtins.{name}" for name in _BUILTINS.split())
_PURE_METHODS = TENSOR_METHODS | TUPLE_METHODS | frozenset(_METHODS.split())
_CALL_LINE = matchers.SimpleStatementLine([matchers.Expr(matchers.Call())])
_MOST_MOVED = 6
"""Lines that come along: with more, a good part of the function would no longer be compiled."""


@recipe("GD102", "GD103", "GD105", "GD109", "GD115", "GD119")
def hoist_value(place: Place) -> Edit:
    """Moves what Python has to know before the part of the function that torch compiles.

    A line that depends on arguments and attributes alone moves as it is; of any other, only the
    value that it needs moves, and is passed to the compiled part. Only in the function that
    torch.compile is given, because Dynamo breaks before a function that it may not trace. Unsafe: a
    check comes before what the function did before it.
    """
    outermost = place.in_outermost
    return _Hoist.of(outermost, is_called=outermost is not place).edit()


@dataclass(frozen=True)
class _Line:
    node: cst.BaseStatement
    flow: Flow
    touched: Touched

    @property
    def leaves(self) -> bool:
        return leaves(self.node) or any(isinstance(node, cst.Raise) for node in walk(self.node))


@dataclass(frozen=True)
class _Hoist:
    place: Place
    owner: str | None
    lines: Sequence[cst.BaseStatement]
    at: int
    call: cst.SimpleStatementLine | None
    """The line that calls the function, if it is the compiled part of another one already."""
    is_called: bool
    """Whether the break is in a function that the line calls."""

    @classmethod
    def of(cls, place: Place, *, is_called: bool) -> _Hoist:
        source, function = place.source, place.function
        body = need(function.body, cst.IndentedBlock, "the function's body is on one line").body
        lines = list(body[1:] if function.get_docstring() is not None else body)
        around = [place.statement, *source.parents(place.statement)]
        top = around[around.index(function.body) - 1]
        at = next((number for number, line in enumerate(lines) if line is top), -1)
        decline_if(at < 0, "the line isn't in the function's body")
        tree = parsed(lines)
        decline_if(
            any(captured([node]) for node in tree),
            "an inner function may share names with the lines around it",
        )
        return cls(
            place, owner_of(source, function), lines, at, call_of_part(source, function), is_called
        )

    def edit(self) -> Edit:
        """The whole line if it can move, else the value."""
        top = self.lines[self.at]
        try:
            decline_if(not self._is_movable(top), "the line computes")
            moved, rest = self._with_needed(top, top), None
            if self.is_called:
                moved += self._other_checks(moved)
        except DeclinedError:
            value, name = (
                self._value,
                Names(self.place.source, self.place.function).fresh(self._name),
            )
            made, origins = self._guarded(value)
            decline_if(
                not all(map(self._is_pure, origins)),
                "its value isn't made of arguments and attributes alone",
            )
            moved = self._with_needed(assigned(name, made), *origins)
            rest = (value, cst.Name(name))
        kept = [line for line in self.lines if not any(line is one for one in moved)]
        decline_if(not any(map(computes, kept)), "the function does nothing else")
        moved = [_not_compiled(line) if self.is_called else line for line in moved]
        shown = self.place.source.shortened(top if rest is None else rest[0])
        number = self.place.source.position(top).start.line
        what = f"Run line {number}" if rest is None else f"Find out `{shown}`"
        of = "" if self.call is not None else f" of `{self.place.function.name.value}`"
        title = f"{what} before the compiled part{of}"
        content = (
            self._split(moved, kept, rest)
            if self.call is None
            else self._passed(self.call, moved, kept, rest)
        )
        # With the condition's own value.
        return Edit(title, content, moved_out=self._operations(moved) + 1)

    def _operations(self, lines: Sequence[cst.CSTNode], depth: int = 3) -> int:
        """The most tensor operations in lines, with those of the module's functions that they
        call.
        """
        bodies = {
            found.name.value: found.body
            for found in functions_in(self.place.source)
            if self.is_called
        }
        named = [
            bodies[name.value]
            for line in lines
            for name in names_in(line)
            if depth and name.value in bodies
        ]
        return operations_in(lines) + sum(self._operations([body], depth - 1) for body in named)

    # What moves.

    @property
    def _name(self) -> str:
        return "condition" if self._test is not None else "value"

    @cached_property
    def _test(self) -> cst.BaseExpression | None:
        """The condition that has to be known."""
        pointed = self.place.expression
        for node in (pointed, *(self.place.source.parents(pointed) if pointed is not None else ())):
            parent = self.place.source.parent(node) if node is not None else None
            match parent:
                case cst.If(test=test) | cst.IfExp(test=test) | cst.Assert(test=test) if (
                    test is node
                ):
                    return node
                case cst.BaseStatement() | cst.Lambda() | cst.BaseComp() | None:
                    break
        statement = self.place.statement
        return statement.test if isinstance(statement, cst.If) else None

    @cached_property
    def _value(self) -> cst.BaseExpression:
        source, place = self.place.source, self.place
        if self._test is not None:
            return self._test
        return place.pointed_call(
            lambda call: is_read(source, call) or _draws(source, call), "a value that is read"
        )

    def _made(self, value: cst.BaseExpression) -> cst.BaseExpression:
        """The value as Python's own: a condition as a bool."""
        is_bool = self._test is None or _is_bool(self.place.source, value)
        return value.deep_clone() if is_bool else expression("bool({value})", value=value)

    def _guarded(
        self, value: cst.BaseExpression
    ) -> tuple[cst.BaseExpression, list[cst.BaseExpression]]:
        """The value, or None where the branches around it aren't taken, and what it is made of."""
        source = self.place.source
        top = self.lines[self.at]
        made, origins = self._made(value), [value]
        around = [value, *source.parents(value)]
        for node, parent in itertools.pairwise(around[: around.index(top) + 1]):
            if isinstance(parent, cst.For) and node is parent.iter:
                continue
            is_looping = isinstance(
                parent, cst.For | cst.While | cst.Try | cst.TryStar | cst.With | cst.BaseComp
            )
            decline_if(is_looping, "it is inside a block that computes")
            if not isinstance(parent, cst.If | cst.IfExp) or node is parent.test:
                continue
            is_drawn = any(_draws(source, call) for call in calls_in(parent.test))
            decline_if(is_drawn, "a number that is drawn decides whether it is needed")
            test = (
                parent.test
                if node is parent.body
                else cst.UnaryOperation(cst.Not(), bracketed(parent.test))
            )
            made = expression("{made} if {test} else None", made=made, test=test)
            origins.append(parent.test)
        assigned_inside = flow(parsed([top])).assigned
        decline_if(
            assigned_inside & name_set(*origins[:1]) and len(origins) > 1,
            "its branch sets what it is made of",
        )
        return made, origins

    def _is_movable(self, top: cst.BaseStatement) -> bool:
        """Whether a whole line may run outside: it sets a value or keeps one, or is an `if` that
        does so or leaves.
        """
        match top:
            case cst.SimpleStatementLine(
                body=[cst.Assign(value=value) | cst.AugAssign(value=value)]
            ):
                return self._is_pure(value)
            case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call(args=args) as call)]) if (
                self.is_called
            ):
                # A function that checks what it is given.
                return not self._is_own(call) and all(
                    self._is_pure(argument.value) for argument in args
                )
            case cst.SimpleStatementLine(body=[cst.Assert(test=test)]):
                return self._is_pure(test)
            case cst.If(test=test, orelse=None) if self._is_pure(test):
                is_leaving = leaves(top)
                if (
                    is_leaving
                    and self.call is not None
                    and not returns_only(self.call, self.place.function)
                ):
                    return False
                calls = [call for call in calls_in(top.body) if self._is_own(call)]
                own = self.place.source.class_of(self.place.function)
                methods = (
                    {node.name.value for node in walk(own) if isinstance(node, cst.FunctionDef)}
                    if own
                    else set()
                )
                if any(is_leaving or called(call) not in methods for call in calls):
                    return False
                return not flow(parsed([top])).assigned
        return False

    def _is_own(self, call: cst.Call) -> bool:
        """Whether it calls something of the object, such as a layer."""
        func: cst.BaseExpression = call.func
        if self.owner is None:
            return False
        if isinstance(func, cst.Attribute) and dotted(func.value) == self.owner:
            return True
        while isinstance(func, cst.Subscript):
            func = func.value
        return func is not call.func and (dotted(func) or "").startswith(f"{self.owner}.")

    def _is_pure(self, value: cst.BaseExpression) -> bool:
        source = self.place.source
        for node in walk(value):
            match node:
                case cst.NamedExpr() | cst.Await() | cst.Yield() | cst.Lambda():
                    return False
                case cst.Call():
                    name = source.dotted_name(node)
                    is_known = (
                        name.startswith(("torch.", "math.", *_DRAWS)) or name in _PURE_BUILTINS
                    )
                    is_method = (
                        isinstance(node.func, cst.Attribute) and called(node) in _PURE_METHODS
                    )
                    if is_in_place(node) or self._is_own(node) or is_output(source, node):
                        return False
                    if not is_known and (name or not is_method):
                        return False
        return True

    def _with_needed(
        self, wanted: cst.BaseStatement, *origins: cst.CSTNode
    ) -> list[cst.BaseStatement]:
        """The lines that move: it, and those before it that set what it needs.

        ``origins`` are what it is made of, in the file.
        """
        source = self.place.source
        lines = [self._line(node) for node in self.lines[: self.at]]
        moved, needed = [self._line(wanted)], self._line(wanted).flow.read_first
        skipped: list[_Line] = []
        for line in reversed(lines):
            is_changing = any(line.touched.changed & one.touched.read for one in moved)
            if is_changing or line.flow.assigned & needed:
                small = (
                    line.node.body[0] if isinstance(line.node, cst.SimpleStatementLine) else None
                )
                if not isinstance(small, cst.Assign | cst.AugAssign):
                    raise DeclinedError("it depends on what is computed before it")
                value = small.value
                is_needed = self._is_pure(value) and not any(
                    _draws(source, call) for call in calls_in(value)
                )
                decline_if(not is_needed, "it depends on what is computed before it")
                moved.insert(0, line)
                needed = needed | line.flow.read_first
            else:
                # All that moves so far comes after it.
                decline_if(
                    any(self._conflicts(line, one) for one in moved), "what is before it changes it"
                )
                skipped.append(line)
        decline_if(len(moved) > _MOST_MOVED, "it depends on much that is computed before it")
        decline_if(
            moved[-1].leaves and any(map(self._has_effect, skipped)),
            "what is before it has an effect",
        )
        if any(_draws(source, call) for node in origins for call in calls_in(node)):
            before = [call for line in skipped for call in calls_in(line.node)]
            decline_if(
                any(_draws(source, call) for call in before),
                "it draws after another number was drawn",
            )
        return [line.node for line in moved]

    def _other_checks(self, moved: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """Later lines that call such a function, too: the break is gone once none of them is
        compiled.
        """
        found: list[cst.BaseStatement] = []
        for at in range(self.at + 1, len(self.lines)):
            line = self.lines[at]
            if not matchers.matches(line, _CALL_LINE) or not self._is_movable(line):
                continue
            try:
                needed = replace(self, at=at)._with_needed(line, line)
            except DeclinedError:
                continue
            found += [one for one in needed if all(one is not other for other in (*moved, *found))]
        return found

    def _line(self, node: cst.BaseStatement) -> _Line:
        found = reaching(
            self.place.source, self.place.function, self.owner, touched(node, self.owner)
        )
        return _Line(node, flow(parsed([node])), found.shared(self._sharing))

    @cached_property
    def _sharing(self) -> dict[str, frozenset[str]]:
        return sharing(self.place.source, self.lines, self.owner)

    @staticmethod
    def _conflicts(skipped: _Line, moved: _Line) -> bool:
        return bool(
            skipped.touched.conflicts(moved.touched)
            or moved.touched.changed & skipped.touched.changed
            or skipped.flow.read_first & moved.flow.assigned
            or skipped.flow.assigned & (moved.flow.assigned | moved.flow.read_first)
        )

    def _has_effect(self, line: _Line) -> bool:
        is_told = matchers.matches(line.node, _CALL_LINE)
        return bool(line.touched.changed) or line.leaves or is_told

    # What is written.

    def _split(
        self,
        moved: Sequence[cst.BaseStatement],
        kept: Sequence[cst.BaseStatement],
        rest: Change | None,
    ) -> bytes:
        """The function as one that isn't traced and the part that it calls, which is compiled."""
        source, function = self.place.source, self.place.function
        doc = lines_of(function.body)[:1] if function.get_docstring() is not None else []
        lines = [*doc, *moved, *_put(kept, rest)]
        changed, found = with_lines(source, function, lines)
        run = Run(changed, found, found.body, len(doc) + len(moved), len(lines))
        return run.moved_and(
            changed.free_name("_compiled_part"),
            lambda _, caller: shell(caller, is_method=self.owner is not None),
        )

    def _passed(
        self,
        line: cst.SimpleStatementLine,
        moved: Sequence[cst.BaseStatement],
        kept: Sequence[cst.BaseStatement],
        rest: Change | None,
    ) -> bytes:
        """The same, where the function is the compiled part already: its caller finds it out and
        passes it in.
        """
        source, function = self.place.source, self.place.function
        written = _put(kept, rest)
        given = sorted(flow(parsed(moved)).assigned & flow(parsed(written)).read_first)
        call = next(call for call in calls_in(line) if called(call) == function.name.value)
        parameters = function.params
        new = [name for name in given if name not in name_set(parameters)]
        passed = call.with_changes(args=[*call.args, *(cst.Arg(cst.Name(name)) for name in new)])
        params = parameters.with_changes(
            params=[*parameters.params, *(cst.Param(cst.Name(name)) for name in new)]
        )
        body = function.body.with_changes(body=written)
        return source.replaced(
            (line, [*moved, with_replaced(line, [(call, passed)])]),
            (function, function.with_changes(params=params, body=body)),
        )


def _not_compiled(line: cst.BaseStatement) -> cst.BaseStatement:
    """A line that calls a function for its effect, so that torch doesn't compile that by itself,
    and break there.
    """
    if not matchers.matches(line, _CALL_LINE):
        return line
    call = calls_in(line)[0]
    func = expression("torch.compiler.disable({func})", func=call.func)
    written = with_replaced(line, [(call, call.with_changes(func=func))])
    return need(written, cst.SimpleStatementLine, "")


def _put(lines: Sequence[cst.BaseStatement], change: Change | None) -> list[cst.BaseStatement]:
    if change is None:
        return list(lines)
    written = [
        with_replaced(line, [change]) if change[0] in set(walk(line)) else line for line in lines
    ]
    return [line for line in written if isinstance(line, cst.BaseStatement)]


def _draws(source: SourceFile, call: cst.Call) -> bool:
    return source.dotted_name(call).startswith(_DRAWS)


def _is_bool(source: SourceFile, value: cst.BaseExpression) -> bool:
    """Whether a condition is one of Python's bools already."""
    if isinstance(value, cst.Comparison):
        sides = [value.left, *(part.comparator for part in value.comparisons)]
        known_side = cst.Integer | cst.Float | cst.SimpleString
        read = [
            side
            for side in sides
            if isinstance(side, cst.Call) and (is_read(source, side) or _draws(source, side))
        ]
        return bool(read) and all(
            isinstance(side, known_side) or side in read or dotted(side) for side in sides
        )
    return isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Not)

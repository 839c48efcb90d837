"""Lines that only record or report in the compiled ``forward``: run them after the part that is
compiled.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.effects import (
    Touched,
    conversions,
    is_output,
    is_read,
    is_record,
    reaching,
    reads_clock,
    reads_tensor,
    reports_apart,
    sharing,
    smalls_under,
    touched,
)
from graphdoctor.fixes.source.extraction import (
    Run,
    call_of_part,
    leaves,
    not_traced,
    operations_in,
    returns_only,
    with_lines,
    without_part,
)
from graphdoctor.fixes.source.flow import Flow, captured, flow, jumps
from graphdoctor.fixes.source.names import Names
from graphdoctor.fixes.source.nodes import (
    assigned,
    bracketed,
    called,
    calls_in,
    expression,
    is_in_place,
    joined,
    lines_of,
    method_call,
    name_set,
    targets_of,
)
from graphdoctor.fixes.source.torch_names import REDUCED
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    known,
    names_in,
    need,
    parsed,
    walk,
    with_replaced,
)

_TESTS = frozenset({"all", "any", "isfinite", "isinf", "isnan"})


@recipe("GD101", "GD102", "GD103", "GD105", "GD109")
def record_outside(place: Place) -> Edit:
    """Moves lines that log, print, warn or keep numbers behind the part of ``forward`` that torch
    compiles.

    ``forward`` becomes two methods: one computes and is compiled, and ``forward`` calls it,
    records, and runs eagerly. All lines stay, in their order, with the values that they had;
    tensors that they need are computed where they were. Only for the method that torch.compile is
    given, because Dynamo breaks before a function that it may not trace.
    Unsafe: if the computation raises, the lines before it weren't run, and a check comes after all
        of it.
    """
    line = call_of_part(place.source, place.function)
    if line is None and not place.is_outermost:
        raise DeclinedError(
            "it isn't in the function that torch.compile was given, and Dynamo would break there"
        )
    if line is not None and not returns_only(line, place.function):
        raise DeclinedError("more comes after the compiled part")
    split = _Split.of(place, place.function, is_part=line is not None)
    content = split.content()
    if line is not None:
        content = without_part(
            SourceFile.parse(place.source.path, content), place.function.name.value
        )
    moved = operations_in(line.node for line in split.lines if line.role != "compute")
    title = f"Run the lines of `{place.function.name.value}` that record or report after its compiled part"
    if line is not None:
        title = "Run the lines of the compiled part that record or report after it"
    return Edit(title, content, moved_out=moved)


@dataclass
class _Line:
    node: cst.BaseStatement
    flow: Flow
    touched: Touched
    role: str = "compute"

    @classmethod
    def of(cls, node: cst.BaseStatement, owner: str) -> _Line:
        return cls(node, flow(parsed([node])), touched(node, owner))


@dataclass
class _Split:
    source: SourceFile
    function: cst.FunctionDef
    owner: str
    lines: list[_Line]
    result: cst.SimpleStatementLine | None
    target: _Line
    first_return: int
    """The first line that may return early; the number of lines if none does."""

    @classmethod
    def of(cls, place: Place, function: cst.FunctionDef, *, is_part: bool) -> _Split:
        source = place.source
        owner = _owner(source, function, is_part=is_part)
        body = need(function.body, cst.IndentedBlock, "the function's body is on one line").body
        statements = list(body[1:] if function.get_docstring() is not None else body)
        result = _return_of(statements)
        if result is not None:
            statements = statements[:-1]
        lines = [_Line.of(node, owner) for node in _separated(source, statements)]
        # Of an `if` that is in two parts, both have the same test; the report comes first.
        wanted = place.statement.test if isinstance(place.statement, cst.If) else place.statement
        holding = (line for line in lines if any(node is wanted for node in walk(line.node)))
        target = known(next(holding, None), "the line isn't a statement of the function")
        early = (at for at, line in enumerate(lines) if leaves(line.node))
        split = cls(source, function, owner, lines, result, target, next(early, len(lines)))
        split.sort()
        return split

    # Which lines move.

    def sort(self) -> None:
        if isinstance(self.target.node, cst.While | cst.With | cst.Try | cst.TryStar):
            raise DeclinedError("the line is inside a block that computes")
        decline_if(not self._is_movable(self.target), "the line computes more than it records")
        for line in self.lines:
            is_wanted = is_record(self.source, line.node) or _is_check(line.node)
            if line is self.target or (is_wanted and self._is_movable(line)):
                line.role = "record"
        self._add_followers()
        self._mark_ends()
        changed = True
        while changed:
            changed = False
            for at, line in enumerate(self.lines):
                if line.role == "compute":
                    continue
                reason = self._reason_to_stay(at)
                if reason is None:
                    continue
                if line is self.target:
                    raise DeclinedError(reason)
                for other in self.lines[at + 1 :] if line.role == "head" else ():
                    # It no longer is at the beginning.
                    other.role = "record" if other.role == "head" else other.role
                line.role, changed = "compute", True
        if not any(line.role == "compute" for line in self.lines) and not self._result_computes():
            raise DeclinedError("the function does nothing else")

    def _is_movable(self, line: _Line) -> bool:
        match line.node:
            case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call() as call)]):
                return not is_in_place(call)
            case cst.SimpleStatementLine(body=[cst.Assert()]):
                return True
            case cst.SimpleStatementLine(body=[cst.Assign() | cst.AugAssign() as small]):
                return reads_tensor(self.source, small.value) or reads_clock(
                    self.source, small.value
                )
            case cst.If():
                return _is_effect(self.source, line.node)
            case cst.For(body=body, orelse=None, iter=rows):
                return reads_tensor(self.source, rows) and all(
                    _is_effect(self.source, inner) for inner in lines_of(body)
                )
        return False

    def _add_followers(self) -> None:
        moved: set[str] = set()
        for line in self.lines:
            if line.role != "compute":
                moved |= line.flow.assigned
            elif moved & line.flow.read_first and (
                _is_effect(self.source, line.node) or _is_made_of(self.source, line.node, moved)
            ):
                line.role = "record"
                moved |= line.flow.assigned

    def _mark_ends(self) -> None:
        """Lines that are before or after all that computes stay where they are, clocks too."""
        for line in self.lines:
            if line.role == "compute" and not _starts_clock(self.source, line.node):
                break
            line.role = "head"
        timed = set[str]().union(
            *(line.flow.assigned for line in self.lines if reads_clock(self.source, line.node))
        )
        for line in reversed(self.lines):
            if line.role == "compute" and not _is_of_clock(self.source, line.node, timed):
                break
            if line.role == "compute":
                line.role = "record"

    def _reason_to_stay(self, at: int) -> str | None:
        """Why a line can't be moved behind the lines that compute; None if it can."""
        line = self.lines[at]
        if line.role == "record" and at > self.first_return:
            return "the function may return before it"
        later = [other for other in self.lines[at + 1 :] if other.role == "compute"]
        for other in later:
            if read := sorted(line.flow.assigned & other.flow.read_first):
                return f"line {self._number(other)} computes with `{read[0]}`"
            if line.role == "record" and line.flow.assigned & other.flow.assigned:
                return f"line {self._number(other)} sets the same name"
            if line.role == "record" and self._everything(line.touched).conflicts(
                self._everything(other.touched)
            ):
                return f"line {self._number(other)} may depend on it"
            if (
                line.role == "record"
                and _is_writing(self.source, line.node)
                and _is_writing(self.source, other.node)
            ):
                return f"line {self._number(other)} reports too, and would do so before it"
        if line.role == "record" and later and reads_clock(self.source, line.node):
            return "it reads a clock, and would read it later"
        return None

    def _everything(self, found: Touched) -> Touched:
        """What a line touches, under every name that the same objects may have."""
        return reaching(self.source, self.function, self.owner, found).shared(self._sharing)

    @cached_property
    def _sharing(self) -> dict[str, frozenset[str]]:
        return sharing(self.source, [line.node for line in self.lines], self.owner)

    def _number(self, line: _Line) -> int:
        return (
            self.source.position(line.node).start.line
            if line.node in set(walk(self.function))
            else 0
        )

    @property
    def _result_value(self) -> cst.BaseExpression | None:
        small = self.result.body[0] if self.result is not None else None
        return small.value if isinstance(small, cst.Return) else None

    def _result_computes(self) -> bool:
        simple = cst.Name | cst.Tuple | cst.List | cst.Dict | cst.SimpleString | cst.Integer
        parts = walk(self._result_value) if self._result_value is not None else ()
        return any(
            isinstance(node, cst.BaseExpression) and not isinstance(node, simple) for node in parts
        )

    def content(self) -> bytes:
        names = Names(self.source, self.function)
        name = self.source.free_name("_compiled_part")
        inner: list[cst.BaseStatement] = []
        head: list[cst.BaseStatement] = []
        tail: list[cst.BaseStatement] = []
        tested: list[Change] = []
        for at, line in enumerate(self.lines):
            if line.role == "compute":
                # The other part of an `if` that was in two has its test already.
                test = [
                    (old, new)
                    for old, new in tested
                    if isinstance(line.node, cst.If) and line.node.test is old
                ]
                inner.append(_put(line.node, test))
            elif line.role == "head":
                head.append(line.node.deep_clone())
            else:
                given, moved = _Values(self, line, at, names).taken()
                if (
                    isinstance(line.node, cst.If)
                    and isinstance(moved, cst.If)
                    and isinstance(moved.test, cst.Name)
                ):
                    tested.append((line.node.test, moved.test.deep_clone()))
                inner += given
                tail.append(moved)
        doc = lines_of(self.function.body)[:1] if self.function.get_docstring() is not None else []
        if self.first_return < len(self.lines) and tail:
            return self._with_early_returns([*doc, *head], inner, tail, names.fresh("result"), name)
        if self.result is not None and self.bound_outside() & name_set(self.result):
            result = _Line.of(self.result, self.owner)
            given, moved = _Values(self, result, len(self.lines), names, is_result=True).taken()
            inner += given
            self.result = need(moved, cst.SimpleStatementLine, "")
            decline_if(self._result_computes(), "what is returned is computed from it")
        elif (
            self.result is not None
            and self._result_computes()
            and (value := self._result_value) is not None
        ):
            whole = names.fresh("result")
            inner.append(
                assigned(whole, bracketed(value) if isinstance(value, cst.Tuple) else value)
            )
            self.result = self.result.with_changes(
                body=[self.result.body[0].with_changes(value=cst.Name(whole))]
            )
        result_lines = [self.result] if self.result is not None else []
        body = [*_plain([*doc, *head]), *inner, *_plain(tail), *result_lines]
        source, function = with_lines(self.source, self.function, body)
        start = len(doc) + len(head)
        run = Run(source, function, function.body, start, start + len(inner))
        return run.moved_and(name, lambda _, caller: not_traced(caller))

    def _with_early_returns(
        self,
        before: Sequence[cst.BaseStatement],
        inner: Sequence[cst.BaseStatement],
        tail: Sequence[cst.BaseStatement],
        result: str,
        name: str,
    ) -> bytes:
        """The same, where each ``return`` of the compiled part gives what the moved lines need,
        too.
        """
        last = need(self.result, cst.SimpleStatementLine, "the function returns in some cases only")
        decline_if(
            self.bound_outside() & name_set(last, *inner), "what is returned is computed from it"
        )
        needed = sorted(flow(parsed(tail)).read_first & flow(parsed(inner)).assigned)
        part = cst.IndentedBlock([*inner, last]).visit(_Returns(needed))
        lines = [*_plain(before), *need(part, cst.IndentedBlock, "").body]
        changed, function = with_lines(self.source, self.function, lines)

        def recording(_: SourceFile, caller: cst.FunctionDef) -> cst.FunctionDef:
            *kept, call = lines_of(caller.body)
            value = need(need(call, cst.SimpleStatementLine, "").body[0], cst.Return, "").value
            assert value is not None  # what calls the part returns what it gives
            given = assigned(joined([cst.Name(one) for one in (result, *needed)]), value)
            body = [
                *kept,
                given,
                *_plain(tail),
                cst.SimpleStatementLine([cst.Return(cst.Name(result))]),
            ]
            return not_traced(caller.with_changes(body=caller.body.with_changes(body=body)))

        return Run(changed, function, function.body, len(before), len(lines)).moved_and(
            name, recording
        )

    def bound_outside(self) -> set[str]:
        return set().union(*(line.flow.assigned for line in self.lines if line.role != "compute"))


class _Returns(cst.CSTTransformer):
    """Adds names to each value that a function returns."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: ARG002, N802 - libcst's
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:  # noqa: ARG002, N802 - libcst's
        return False

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:  # noqa: ARG002, N802
        value = updated_node.value or cst.Name("None")
        if not self._names:
            return updated_node
        whole = bracketed(value) if isinstance(value, cst.Tuple) and not value.lpar else value
        return cst.Return(joined([whole, *(cst.Name(name) for name in self._names)]))


class _Values:
    """The tensors that a moved line needs, computed where the line was."""

    def __init__(
        self, split: _Split, line: _Line, at: int, names: Names, *, is_result: bool = False
    ) -> None:
        self._split = split
        self._line = line
        self._at = at
        self._is_result = is_result
        self._names = names
        self._inside = set[str]().union(
            *(one.flow.assigned for one in split.lines[:at] if one.role == "compute")
        )
        self._outside = split.bound_outside()
        self._own = name_set(split.function.params) - {split.owner} | self._inside
        self._given: list[cst.BaseStatement] = []
        self._known: list[tuple[cst.BaseExpression, str]] = []

    def taken(self) -> tuple[list[cst.BaseStatement], cst.BaseStatement]:
        node = self._line.node
        changes: list[Change] = [
            (found, self._given_name(found)) for found in self._wanted(node, is_sure=True)
        ]
        replaced = _put(node, changes)
        again = flow(parsed([replaced])).read_first | name_set(replaced)
        known = {given for _, given in self._known}
        # A parameter that is set later would have its last value when the moved line runs.
        needed = sorted(
            name
            for name in again & self._own - known
            if name in self._inside or self._is_set_later(name)
        )
        for name in filter(self._is_set_later, needed):
            fresh = self._names.fresh(f"{name}_before")
            self._given.append(assigned(fresh, cst.Name(name)))
            same = [found for found in names_in(replaced) if found.value == name]
            replaced = _put(replaced, [(found, found.with_changes(value=fresh)) for found in same])
        return self._given, self._with_numbers(replaced)

    def _with_numbers(self, line: cst.BaseStatement) -> cst.BaseStatement:
        """The line with numbers and text for a logger: Dynamo would trace the logger's methods if
        it got tensors.
        """
        tensors = self._inside | {name for _, name in self._known}
        outputs = [call for call in calls_in(line) if is_output(self._split.source, call)]
        given = [
            pair for call in outputs for pair in zip(call.args[1:], conversions(call), strict=False)
        ]
        values = [
            (argument.value, kind) for argument, kind in given if dotted(argument.value) in tensors
        ]
        return _put(
            line, [(value, expression(f"{kind}({{value}})", value=value)) for value, kind in values]
        )

    def _is_set_later(self, name: str) -> bool:
        return any(
            name in line.flow.assigned
            for line in self._split.lines[self._at + 1 :]
            if line.role == "compute"
        )

    def _given_name(self, found: cst.BaseExpression) -> cst.BaseExpression:
        for given, name in self._known:
            if given.deep_equals(found):
                return cst.Name(name)
        named = f"{called(found)}_value" if called(found) else "value"
        fresh = self._names.fresh("condition" if isinstance(found, cst.Comparison) else named)
        value = found.deep_clone().with_changes(lpar=(), rpar=())
        # A gradient could flow into it, for nothing: only its value is read.
        is_reduced = (
            isinstance(found, cst.Call)
            and not found.args
            and called(found) in REDUCED - {"all", "any"}
        )
        if not self._is_result and (is_reduced or _is_item(self._split.source, found)):
            value = method_call(value, "detach")
        self._given.append(assigned(fresh, value))
        self._known.append((found, fresh))
        return cst.Name(fresh)

    def _wanted(self, node: cst.CSTNode, *, is_sure: bool) -> Iterator[cst.BaseExpression]:
        if isinstance(node, cst.If):
            yield from self._wanted(node.test, is_sure=True)
            for child in node.children:
                if child is not node.test:
                    yield from self._wanted(child, is_sure=False)
            return
        if isinstance(node, cst.AssignTarget | cst.Lambda | cst.BaseComp):
            return
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            for argument in node.value.args:
                yield from self._wanted(argument, is_sure=is_sure)
            return
        if isinstance(node, cst.BaseExpression) and self._is_tensor(node, is_sure=is_sure):
            yield node
            return
        for child in node.children:
            yield from self._wanted(child, is_sure=is_sure)

    def _is_tensor(self, node: cst.BaseExpression, *, is_sure: bool) -> bool:
        source = self._split.source
        if not isinstance(
            node, cst.Call | cst.BinaryOperation | cst.Comparison | cst.UnaryOperation
        ):
            return False
        names = name_set(node)
        if not names & self._own or names & self._outside:
            return False
        is_computed = bool(names & self._inside or calls_in(node))
        return is_computed and all(
            self._is_allowed(source, part, is_sure=is_sure) for part in walk(node)
        )

    def _is_allowed(self, source: SourceFile, part: cst.CSTNode, *, is_sure: bool) -> bool:
        match part:
            case cst.Call():
                if (
                    is_read(source, part)
                    or is_in_place(part)
                    or is_output(source, part)
                    or called(part) == "numpy"
                ):
                    return False
                name = source.dotted_name(part)
                is_own = (
                    not isinstance(part.func, cst.Attribute)
                    or dotted(part.func.value) == self._split.owner
                )
                return name.startswith("torch.") or (not name and (not is_own or self._is_result))
            case cst.Subscript():
                return is_sure
            case cst.Attribute(value=cst.Name(value=name), attr=attr) if name == self._split.owner:
                path = f"{name}.{attr.value}"
                moved = (
                    line.touched.changed for line in self._split.lines if line.role != "compute"
                )
                return not any(path in changed for changed in moved)
        return not isinstance(part, _FORBIDDEN)


_FORBIDDEN = (
    cst.Is, cst.IsNot, cst.In, cst.NotIn, cst.Not, cst.BooleanOperation, cst.IfExp, cst.NamedExpr, cst.Await, cst.Yield,
    cst.BaseString, cst.Lambda, cst.BaseComp, cst.BaseDict, cst.BaseSet,
)  # fmt: skip
"""Parts of an expression that may not be a tensor's, or not be evaluated."""


def _is_item(source: SourceFile, node: cst.CSTNode) -> bool:
    """``x`` in ``x.item()``, which only tensors have."""
    attribute = source.parent(node)
    call = source.parent(attribute)
    return isinstance(call, cst.Call) and call.func is attribute and is_read(source, call)


def _owner(source: SourceFile, function: cst.FunctionDef, *, is_part: bool) -> str:
    is_method = isinstance(next(source.parents(source.parent(function)), None), cst.ClassDef)
    if not is_method or (function.name.value != "forward" and not is_part):
        raise DeclinedError(
            "only the `forward` of a module can be split into a compiled part and one that isn't"
        )
    decline_if(function.decorators, "the function has a decorator")
    decline_if(function.asynchronous is not None, "the function is asynchronous")
    params = [*function.params.posonly_params, *function.params.params]
    decline_if(not params, "the method has no parameter for its object")
    return params[0].name.value


def _return_of(statements: Sequence[cst.BaseStatement]) -> cst.SimpleStatementLine | None:
    tree = parsed(statements)
    decline_if(
        any(not isinstance(jump, ast.Return) for jump in jumps(tree)),
        "the function yields or awaits",
    )
    decline_if(
        captured(tree) & flow(tree).assigned,
        "an inner function shares names with the lines around it",
    )
    returns = [
        node for statement in tree for node in ast.walk(statement) if isinstance(node, ast.Return)
    ]
    last = statements[-1] if statements else None
    is_last = (
        matchers.matches(last, matchers.SimpleStatementLine([matchers.Return()]))
        if last is not None
        else False
    )
    decline_if(returns and not is_last, "the function returns in some cases only")
    return last if is_last and isinstance(last, cst.SimpleStatementLine) else None


def _separated(
    source: SourceFile, statements: Sequence[cst.BaseStatement]
) -> Iterator[cst.BaseStatement]:
    """The statements; an ``if`` on what was computed that both computes and reports becomes two,
    the report first.
    """
    local = flow(parsed(statements)).assigned
    for statement in statements:
        body = (
            statement.body if isinstance(statement, cst.If) and statement.orelse is None else None
        )
        if (
            isinstance(statement, cst.If)
            and isinstance(body, cst.IndentedBlock)
            and local & name_set(statement.test)
        ):
            reports, rest = reports_apart(source, statement)
            if reports and rest:
                yield statement.with_changes(body=body.with_changes(body=reports, footer=()))
                yield statement.with_changes(body=body.with_changes(body=rest), leading_lines=())
                continue
        yield statement


def _is_effect(source: SourceFile, statement: cst.CSTNode) -> bool:
    return all(_has_effect(source, small) for small in smalls_under(statement))


def _has_effect(source: SourceFile, small: cst.CSTNode) -> bool:
    match small:
        case cst.Raise() | cst.Pass():
            return True
        case cst.Expr(value=cst.Call() as call):
            return not is_in_place(call)
        case cst.Assign(value=value) | cst.AugAssign(value=value):
            is_kept = all(
                isinstance(target, cst.Attribute | cst.Subscript) for target in targets_of(small)
            )
            return is_kept or reads_tensor(source, value)
    return False


def _is_writing(source: SourceFile, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.If) and "torch.compiler.is_compiling()" in source.code(node.test):
        return False
    if isinstance(node, cst.Call) and is_output(source, node):
        return True
    return any(_is_writing(source, child) for child in node.children)


def _is_made_of(source: SourceFile, node: cst.CSTNode, names: set[str]) -> bool:
    match node:
        case cst.SimpleStatementLine(body=[cst.Assign(value=value)]):
            others = [name for name in names_in(value) if name.value not in names]
            is_known = all(source.dotted_name(name).startswith("builtins.") for name in others)
            return is_known or isinstance(value, cst.BaseString)
    return False


def _is_check(node: cst.CSTNode) -> bool:
    match node:
        case cst.If(test=test) | cst.SimpleStatementLine(body=[cst.Assert(test=test)]):
            return any(called(call) in _TESTS for call in calls_in(test))
    return False


def _starts_clock(source: SourceFile, node: cst.CSTNode) -> bool:
    match node:
        case cst.SimpleStatementLine(body=[cst.Assign(value=cst.Call(args=[]) as call)]):
            return reads_clock(source, call)
    return False


def _is_of_clock(source: SourceFile, node: cst.CSTNode, timed: set[str]) -> bool:
    match node:
        case cst.SimpleStatementLine(body=[cst.Assign(value=value)]):
            return reads_clock(source, value)
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call() as call)]):
            return bool(timed & name_set(call))
        case cst.If(test=test):
            return timed >= name_set(test) and _is_effect(source, node)
    return False


def _put(node: cst.BaseStatement, changes: Sequence[Change]) -> cst.BaseStatement:
    return cast("cst.BaseStatement", with_replaced(node, changes).deep_clone())


def _plain(body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    if not body:
        return []
    lines = list(
        itertools.dropwhile(
            lambda line: line.comment is None, getattr(body[0], "leading_lines", ())
        )
    )
    return [body[0].with_changes(leading_lines=lines), *body[1:]]

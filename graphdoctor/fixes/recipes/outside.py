"""Lines and values that leave what is compiled: those that only record or report run after it, what
Python has to know, or draws at random, is made before it.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from libcst import (
    Arg,
    Assert,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    Await,
    BaseComp,
    BaseDict,
    BaseExpression,
    BaseSet,
    BaseStatement,
    BaseString,
    BinaryOperation,
    BooleanOperation,
    Call,
    ClassDef,
    Comparison,
    CSTNode,
    CSTTransformer,
    Dict,
    Expr,
    Float,
    For,
    FunctionDef,
    If,
    IfExp,
    In,
    IndentedBlock,
    Integer,
    Is,
    IsNot,
    Lambda,
    List,
    Name,
    NamedExpr,
    Not,
    NotIn,
    Param,
    Pass,
    Raise,
    Return,
    SimpleStatementLine,
    SimpleString,
    Subscript,
    Try,
    TryStar,
    Tuple,
    UnaryOperation,
    While,
    With,
    Yield,
    matchers,
)

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
    computes,
    first_parameter,
    flow_in,
    functions_in,
    leaves,
    not_traced,
    operations_in,
    owner_of,
    returns_only,
    shell,
    with_lines,
    without_part,
)
from graphdoctor.fixes.source.flow import Flow, captured, flow, jumps
from graphdoctor.fixes.source.nodes import (
    Names,
    above,
    assigned,
    bare,
    bracketed,
    called,
    calls_in,
    expression,
    is_in_place,
    joined,
    lines_of,
    method_call,
    name_set,
    split_body,
    targets_of,
)
from graphdoctor.fixes.source.torch_names import REDUCED, TENSOR_METHODS, TUPLE_METHODS, words
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    find,
    holds,
    known,
    names_in,
    need,
    parsed,
    walk,
    with_replaced,
)

_TESTS = words("all any isfinite isinf isnan")
_Lines = Sequence[BaseStatement]


@dataclass
class _Line:
    node: BaseStatement
    flow: Flow
    touched: Touched
    role: str = "compute"

    @classmethod
    def of(cls, node: BaseStatement, owner: str | None) -> _Line:
        return cls(node, flow_in([node]), touched(node, owner))


@recipe("GD101", "GD102", "GD103", "GD105", "GD109")
def record_outside(place: Place) -> Edit:
    """Moves lines that log, print, warn or keep numbers behind the part of ``forward`` that torch
    compiles.

    ``forward`` becomes two methods: one computes and is compiled, and ``forward`` calls it,
    records, and runs eagerly. All lines stay, in their order, with the values that they had;
    tensors that they need are computed where they were. Only for the method that torch.compile is
    given, because Dynamo breaks before a function that it may not trace. Unsafe: if the computation
    raises, the lines before it weren't run, and a check comes after all of it.
    """
    source, function = place.source, place.function
    line = call_of_part(source, function)
    if line is None:
        where, title = f"of `{function.name.value}`", "its compiled part"
        decline_if(
            not place.is_outermost,
            "it isn't in the function that torch.compile was given, and Dynamo would break there",
        )
    else:
        where, title = "of the compiled part", "it"
        decline_if(not returns_only(line, function), "more comes after the compiled part")
    split = _Split.of(place, is_part=line is not None)
    content = split.content()
    if line is not None:
        content = without_part(SourceFile.parse(source.path, content), function.name.value)
    moved = operations_in(line.node for line in split.lines if line.role != "compute")
    title = f"Run the lines {where} that record or report after {title}"
    return Edit(title, content, moved_out=moved)


@dataclass
class _Split:
    source: SourceFile
    function: FunctionDef
    owner: str
    doc: _Lines
    lines: list[_Line]
    result: SimpleStatementLine | None
    target: _Line
    first_return: int
    """The first line that may return early; the number of lines if none does."""

    @classmethod
    def of(cls, place: Place, *, is_part: bool) -> _Split:
        source, function = place.source, place.function
        is_forward = function.name.value == "forward" or is_part
        decline_if(
            not source.is_method(function) or not is_forward,
            "only the `forward` of a module can be split into a compiled part and one that isn't",
        )
        decline_if(function.decorators, "the function has a decorator")
        decline_if(function.asynchronous is not None, "the function is asynchronous")
        owner = first_parameter(function)
        doc, statements = split_body(function)
        result = _return_of(statements)
        if result is not None:
            statements = statements[:-1]
        lines = [_Line.of(node, owner) for node in _separated(source, statements)]
        # Of an `if` that is in two parts, both have the same test; the report comes first.
        holder = place.statement.test if isinstance(place.statement, If) else place.statement
        holding = (line for line in lines if any(node is holder for node in walk(line.node)))
        target = known(next(holding, None), "the line isn't a statement of the function")
        early = (at for at, line in enumerate(lines) if leaves(line.node))
        first_return = next(early, len(lines))
        split = cls(source, function, owner, doc, lines, result, target, first_return)
        split.sort()
        return split

    # Which lines move.

    def sort(self) -> None:
        is_block = isinstance(self.target.node, While | With | Try | TryStar)
        decline_if(is_block, "the line is inside a block that computes")
        decline_if(not self._is_movable(self.target), "the line computes more than it records")
        for line in self.lines:
            is_wanted = is_record(self.source, line.node) or _is_check(line.node)
            if line is self.target or (is_wanted and self._is_movable(line)):
                line.role = "record"
        self._add_followers()
        self._mark_ends()
        is_changed = True
        while is_changed:
            is_changed = False
            for at, line in enumerate(self.lines):
                reason = self._reason_to_stay(at) if line.role != "compute" else None
                if reason is None:
                    continue
                decline_if(line is self.target, reason)
                for other in self.lines[at + 1 :] if line.role == "head" else ():
                    # It no longer is at the beginning.
                    other.role = "record" if other.role == "head" else other.role
                line.role, is_changed = "compute", True
        is_computing = any(line.role == "compute" for line in self.lines)
        decline_if(
            not is_computing and not self._result_computes(), "the function does nothing else"
        )

    def _is_movable(self, line: _Line) -> bool:
        source = self.source
        match line.node:
            case SimpleStatementLine(body=[Expr(value=Call() as call)]):
                return not is_in_place(call)
            case SimpleStatementLine(body=[Assert()]):
                return True
            case SimpleStatementLine(body=[Assign(value=value) | AugAssign(value=value)]):
                return reads_tensor(source, value) or reads_clock(source, value)
            case If():
                return _is_effect(source, line.node)
            case For(body=body, orelse=None, iter=rows):
                are_effects = all(_is_effect(source, inner) for inner in lines_of(body))
                return reads_tensor(source, rows) and are_effects
        return False

    def _add_followers(self) -> None:
        moved: set[str] = set()
        for line in self.lines:
            if line.role == "compute":
                is_fed = moved & line.flow.read_first and (
                    _is_effect(self.source, line.node) or _is_made_of(self.source, line.node, moved)
                )
                line.role = "record" if is_fed else "compute"
            if line.role != "compute":
                moved |= line.flow.assigned

    def _mark_ends(self) -> None:
        """Mark lines that are before or after all that computes: they stay, clocks too."""
        source = self.source
        for line in self.lines:
            if line.role == "compute" and not _starts_clock(source, line.node):
                break
            line.role = "head"
        timed = set[str]().union(
            *(line.flow.assigned for line in self.lines if reads_clock(source, line.node))
        )
        for line in reversed(self.lines):
            if line.role == "compute" and not _is_of_clock(source, line.node, timed):
                break
            if line.role == "compute":
                line.role = "record"

    def _reason_to_stay(self, at: int) -> str | None:
        """Return why a line can't be moved behind the lines that compute; None if it can."""
        line = self.lines[at]
        is_moving = line.role == "record"
        if is_moving and at > self.first_return:
            return "the function may return before it"
        later = [other for other in self.lines[at + 1 :] if other.role == "compute"]
        for other in later:
            is_own = other.node in set(walk(self.function))
            number = self.source.start(other.node)[0] if is_own else 0
            if read := sorted(line.flow.assigned & other.flow.read_first):
                return f"line {number} computes with `{read[0]}`"
            if not is_moving:
                continue
            if line.flow.assigned & other.flow.assigned:
                return f"line {number} sets the same name"
            if self._everything(line.touched).conflicts(self._everything(other.touched)):
                return f"line {number} may depend on it"
            if all(_is_writing(self.source, moving.node) for moving in (line, other)):
                return f"line {number} reports too, and would do so before it"
        if is_moving and later and reads_clock(self.source, line.node):
            return "it reads a clock, and would read it later"
        return None

    def _everything(self, touching: Touched) -> Touched:
        """Return what a line touches, under every name that the same objects may have."""
        return reaching(self.source, self.function, self.owner, touching).shared(self._sharing)

    @cached_property
    def _sharing(self) -> dict[str, frozenset[str]]:
        return sharing(self.source, [line.node for line in self.lines], self.owner)

    @property
    def _result_value(self) -> BaseExpression | None:
        small = self.result.body[0] if self.result is not None else None
        return small.value if isinstance(small, Return) else None

    def _result_computes(self) -> bool:
        simple = Name | Tuple | List | Dict | SimpleString | Integer
        parts = walk(self._result_value) if self._result_value is not None else ()
        return any(
            isinstance(part, BaseExpression) and not isinstance(part, simple) for part in parts
        )

    def content(self) -> bytes:
        names = Names(self.source, self.function)
        name = self.source.free_name("_compiled_part")
        inner: list[BaseStatement] = []
        head = list(self.doc)
        tail: list[BaseStatement] = []
        tested: list[Change] = []
        for at, line in enumerate(self.lines):
            node = line.node
            if line.role == "compute":
                # The other part of an `if` that was in two has its test already.
                tests = [test for test in tested if isinstance(node, If) and node.test is test[0]]
                inner.append(_replaced(node, tests))
            elif line.role == "head":
                head.append(node.deep_clone())
            else:
                added, moved = _Values(self, line, at, names).taken()
                if isinstance(node, If) and isinstance(moved, If) and isinstance(moved.test, Name):
                    tested.append((node.test, moved.test.deep_clone()))
                inner += added
                tail.append(moved)
        if self.first_return < len(self.lines) and tail:
            return self._with_early_returns(head, inner, tail, names.fresh("result"), name)
        value = self._result_value
        if self.result is not None and self.bound_outside() & name_set(self.result):
            result = _Line.of(self.result, self.owner)
            added, moved = _Values(self, result, len(self.lines), names, is_result=True).taken()
            inner += added
            self.result = need(moved, SimpleStatementLine)
            decline_if(self._result_computes(), "what is returned is computed from it")
        elif self.result is not None and value is not None and self._result_computes():
            whole = names.fresh("result")
            inner.append(assigned(whole, bracketed(value) if isinstance(value, Tuple) else value))
            returned = self.result.body[0].with_changes(value=Name(whole))
            self.result = self.result.with_changes(body=[returned])
        ending = [self.result] if self.result is not None else []
        body = [*_plain(head), *inner, *_plain(tail), *ending]
        source, function = with_lines(self.source, self.function, body)
        run = Run(source, function, function.body, len(head), len(head) + len(inner))
        return run.moved_and(name, lambda _, caller: not_traced(caller))

    def _with_early_returns(
        self, before: _Lines, inner: _Lines, tail: _Lines, result: str, name: str
    ) -> bytes:
        """Write the same, where each ``return`` of the compiled part gives what the moved lines
        need, too.
        """
        last = need(self.result, SimpleStatementLine, "the function returns in some cases only")
        is_needed = self.bound_outside() & name_set(last, *inner)
        decline_if(is_needed, "what is returned is computed from it")
        needed = sorted(flow_in(tail).read_first & flow_in(inner).assigned)
        part = need(IndentedBlock([*inner, last]).visit(_Returns(needed)), IndentedBlock)
        lines = [*_plain(before), *lines_of(part)]
        changed, function = with_lines(self.source, self.function, lines)

        def recording(_: SourceFile, caller: FunctionDef) -> FunctionDef:
            *kept, call = lines_of(caller.body)
            # What calls the part returns what it gives.
            value = known(need(need(call, SimpleStatementLine).body[0], Return).value)
            assignment = assigned(joined([Name(name) for name in (result, *needed)]), value)
            body = [*kept, assignment, *_plain(tail), SimpleStatementLine([Return(Name(result))])]
            return not_traced(caller.with_changes(body=caller.body.with_changes(body=body)))

        run = Run(changed, function, function.body, len(before), len(lines))
        return run.moved_and(name, recording)

    def bound_outside(self) -> set[str]:
        return set().union(*(line.flow.assigned for line in self.lines if line.role != "compute"))


class _Returns(CSTTransformer):
    """Adds names to each value that a function returns."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def visit_FunctionDef(self, node: FunctionDef) -> bool:  # noqa: ARG002, N802 - libcst's
        return False

    def visit_Lambda(self, node: Lambda) -> bool:  # noqa: ARG002, N802 - libcst's
        return False

    def leave_Return(self, original_node: Return, updated_node: Return) -> Return:  # noqa: ARG002, N802
        if not self._names:
            return updated_node
        value = updated_node.value or Name("None")
        whole = bracketed(value) if isinstance(value, Tuple) else value
        return Return(joined([whole, *map(Name, self._names)]))


class _Values:
    """The tensors that a moved line needs, computed where the line was."""

    def __init__(
        self, split: _Split, line: _Line, at: int, names: Names, *, is_result: bool = False
    ) -> None:
        self._split = split
        self._source = split.source
        self._line = line
        self._is_result = is_result
        self._names = names
        computing = [(line.role == "compute", line.flow.assigned) for line in split.lines]
        self._inside = set[str]().union(
            *(names for is_inside, names in computing[:at] if is_inside)
        )
        self._set_later = set[str]().union(
            *(names for is_inside, names in computing[at + 1 :] if is_inside)
        )
        self._outside = split.bound_outside()
        self._own = name_set(split.function.params) - {split.owner} | self._inside
        self._given: list[BaseStatement] = []
        self._known: list[tuple[BaseExpression, str]] = []

    def taken(self) -> tuple[list[BaseStatement], BaseStatement]:
        node = self._line.node
        values = self._wanted(node, is_sure=True)
        line = _replaced(node, [(value, self._given_name(value)) for value in values])
        again = flow_in([line]).read_first | name_set(line)
        names = {name for _, name in self._known}
        # A parameter that is set later would have its last value when the moved line runs.
        needed = sorted((again & self._own - names) & (self._inside | self._set_later))
        for name in (name for name in needed if name in self._set_later):
            fresh = self._names.fresh(f"{name}_before")
            self._given.append(assigned(fresh, Name(name)))
            same = [node for node in names_in(line) if node.value == name]
            line = _replaced(line, [(node, node.with_changes(value=fresh)) for node in same])
        return self._given, self._with_numbers(line)

    def _with_numbers(self, line: BaseStatement) -> BaseStatement:
        """Give a logger numbers and text: Dynamo would trace the logger's methods if it got
        tensors.
        """
        tensors = self._inside | {name for _, name in self._known}
        return _replaced(
            line,
            [
                (argument.value, expression(f"{kind}({{value}})", value=argument.value))
                for call in calls_in(line)
                if is_output(self._source, call)
                for argument, kind in zip(call.args[1:], conversions(call), strict=False)
                if dotted(argument.value) in tensors
            ],
        )

    def _given_name(self, value: BaseExpression) -> BaseExpression:
        for node, name in self._known:
            if node.deep_equals(value):
                return Name(name)
        named = f"{called(value)}_value" if called(value) else "value"
        fresh = self._names.fresh("condition" if isinstance(value, Comparison) else named)
        copy = bare(value.deep_clone())
        # A gradient could flow into it, for nothing: only its value is read.
        is_reduced = isinstance(value, Call) and not value.args and called(value) in _REDUCED
        if not self._is_result and (is_reduced or _is_item(self._source, value)):
            copy = method_call(copy, "detach")
        self._given.append(assigned(fresh, copy))
        self._known.append((value, fresh))
        return Name(fresh)

    def _wanted(self, node: CSTNode, *, is_sure: bool) -> Iterator[BaseExpression]:
        parts = node.children
        if isinstance(node, If):
            yield from self._wanted(node.test, is_sure=True)
            parts, is_sure = [part for part in parts if part is not node.test], False
        elif isinstance(node, AssignTarget | Lambda | BaseComp):
            return
        elif isinstance(node, Expr) and isinstance(node.value, Call):
            parts = node.value.args
        elif isinstance(node, BaseExpression) and self._is_tensor(node, is_sure=is_sure):
            yield node
            return
        for part in parts:
            yield from self._wanted(part, is_sure=is_sure)

    def _is_tensor(self, node: BaseExpression, *, is_sure: bool) -> bool:
        names = name_set(node)
        is_made = isinstance(node, Call | BinaryOperation | Comparison | UnaryOperation)
        if not is_made or not names & self._own or names & self._outside:
            return False
        is_computed = bool(names & self._inside or calls_in(node))
        return is_computed and all(self._is_allowed(part, is_sure=is_sure) for part in walk(node))

    def _is_allowed(self, part: CSTNode, *, is_sure: bool) -> bool:
        source, owner = self._source, self._split.owner
        match part:
            case Call():
                is_reading = is_read(source, part) or is_output(source, part)
                if is_reading or is_in_place(part) or called(part) == "numpy":
                    return False
                name = source.dotted_name(part)
                is_own = not isinstance(part.func, Attribute) or dotted(part.func.value) == owner
                return name.startswith("torch.") or (not name and (not is_own or self._is_result))
            case Subscript():
                return is_sure
            case Attribute(value=Name(value=name)) if name == owner:
                moved = [line.touched for line in self._split.lines if line.role != "compute"]
                return not any(dotted(part) in flow.changed for flow in moved)
        return not isinstance(part, _FORBIDDEN)


_REDUCED = REDUCED - {"all", "any"}
_FORBIDDEN = (
    Is, IsNot, In, NotIn, Not, BooleanOperation, IfExp, NamedExpr, Await, Yield, BaseString,
    Lambda, BaseComp, BaseDict, BaseSet,
)  # fmt: skip
"""Parts of an expression that may not be a tensor's, or not be evaluated."""


def _is_item(source: SourceFile, node: CSTNode) -> bool:
    """``x`` in ``x.item()``, which only tensors have."""
    attribute = source.parent(node)
    call = source.parent(attribute)
    return isinstance(call, Call) and call.func is attribute and is_read(source, call)


def _return_of(statements: _Lines) -> SimpleStatementLine | None:
    tree = parsed(statements)
    is_generator = any(not isinstance(jump, ast.Return) for jump in jumps(tree))
    decline_if(is_generator, "the function yields or awaits")
    shared = captured(tree) & flow(tree).assigned
    decline_if(shared, "an inner function shares names with the lines around it")
    match statements:
        case [*_, SimpleStatementLine(body=[Return()]) as last]:
            return last
    nodes = (node for statement in tree for node in ast.walk(statement))
    has_return = any(isinstance(node, ast.Return) for node in nodes)
    decline_if(has_return, "the function returns in some cases only")
    return None


def _separated(source: SourceFile, statements: _Lines) -> Iterator[BaseStatement]:
    """Iterate over the statements; an ``if`` on what was computed that both computes and reports
    becomes two, the report first.
    """
    local = flow_in(statements).assigned
    for statement in statements:
        match statement:
            case If(orelse=None, body=IndentedBlock() as body) if local & name_set(statement.test):
                reports, rest = reports_apart(source, statement)
                if reports and rest:
                    yield statement.with_changes(body=body.with_changes(body=reports, footer=()))
                    yield statement.with_changes(
                        body=body.with_changes(body=rest), leading_lines=()
                    )
                    continue
        yield statement


def _is_effect(source: SourceFile, statement: CSTNode) -> bool:
    return all(_has_effect(source, small) for small in smalls_under(statement))


def _has_effect(source: SourceFile, small: CSTNode) -> bool:
    match small:
        case Raise() | Pass():
            return True
        case Expr(value=Call() as call):
            return not is_in_place(call)
        case Assign(value=value) | AugAssign(value=value):
            is_kept = all(isinstance(target, Attribute | Subscript) for target in targets_of(small))
            return is_kept or reads_tensor(source, value)
    return False


def _is_writing(source: SourceFile, node: CSTNode) -> bool:
    if isinstance(node, If) and "torch.compiler.is_compiling()" in source.code(node.test):
        return False
    is_call = isinstance(node, Call) and is_output(source, node)
    return is_call or any(_is_writing(source, child) for child in node.children)


def _is_made_of(source: SourceFile, node: CSTNode, names: set[str]) -> bool:
    match node:
        case SimpleStatementLine(body=[Assign(value=value)]):
            others = [name for name in names_in(value) if name.value not in names]
            is_known = all(source.dotted_name(name).startswith("builtins.") for name in others)
            return is_known or isinstance(value, BaseString)
    return False


def _is_check(node: CSTNode) -> bool:
    match node:
        case If(test=test) | SimpleStatementLine(body=[Assert(test=test)]):
            return any(called(call) in _TESTS for call in calls_in(test))
    return False


def _starts_clock(source: SourceFile, node: CSTNode) -> bool:
    match node:
        case SimpleStatementLine(body=[Assign(value=Call(args=[]) as call)]):
            return reads_clock(source, call)
    return False


def _is_of_clock(source: SourceFile, node: CSTNode, timed: set[str]) -> bool:
    match node:
        case SimpleStatementLine(body=[Assign(value=value)]):
            return reads_clock(source, value)
        case SimpleStatementLine(body=[Expr(value=Call() as call)]):
            return bool(timed & name_set(call))
        case If(test=test):
            return timed >= name_set(test) and _is_effect(source, node)
    return False


def _replaced(node: BaseStatement, changes: Sequence[Change]) -> BaseStatement:
    return with_replaced(node, changes).deep_clone()


def _plain(body: _Lines) -> list[BaseStatement]:
    """Drop blank lines above the first line."""
    if not body:
        return []
    lines = list(itertools.dropwhile(lambda line: line.comment is None, above(body[0])))
    return [body[0].with_changes(leading_lines=lines), *body[1:]]


_DRAWS = ("random.", "numpy.random.")
_PURE_BUILTINS = words(
    "abs all any bool float int isinstance len list max min range round set sorted str sum tuple",
    "builtins.",
)
_PURE_METHODS = (
    TENSOR_METHODS
    | TUPLE_METHODS
    | words("cpu dim get item items keys max min nonzero numel size tolist unique values")
)
_CALL_LINE = matchers.SimpleStatementLine([matchers.Expr(matchers.Call())])
_MOST_MOVED = 6
"""Lines that come along: with more, a good part of the function would no longer be compiled."""
_DEPENDS = "it depends on what is computed before it"


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
class _Hoist:
    place: Place
    source: SourceFile
    owner: str | None
    doc: _Lines
    lines: _Lines
    at: int
    call: SimpleStatementLine | None
    """The line that calls the function, if it is the compiled part of another one already."""
    is_called: bool
    """Whether the break is in a function that the line calls."""

    @classmethod
    def of(cls, place: Place, *, is_called: bool) -> _Hoist:
        source, function = place.source, place.function
        doc, lines = split_body(function)
        top = source.path_to(function.body, place.statement)[-1]
        at = next((number for number, line in enumerate(lines) if line is top), -1)
        decline_if(at < 0, "the line isn't in the function's body")
        is_shared = any(captured([node]) for node in parsed(lines))
        decline_if(is_shared, "an inner function may share names with the lines around it")
        owner, call = owner_of(source, function), call_of_part(source, function)
        return cls(place, source, owner, doc, lines, at, call, is_called)

    def edit(self) -> Edit:
        """Move the whole line if it can, else the value."""
        source, function, top = self.source, self.place.function, self.lines[self.at]
        try:
            decline_if(not self._is_movable(top), "the line computes")
            moved, rest = self._with_needed(top, top), None
            if self.is_called:
                moved += self._other_checks(moved)
        except DeclinedError:
            value = self._value
            name = Names(source, function).fresh("value" if self._test is None else "condition")
            made, origins = self._guarded(value)
            is_pure = all(map(self._is_pure, origins))
            decline_if(not is_pure, "its value isn't made of arguments and attributes alone")
            moved = self._with_needed(assigned(name, made), *origins)
            rest = (value, Name(name))
        kept = [line for line in self.lines if not any(line is moved_line for moved_line in moved)]
        decline_if(not any(map(computes, kept)), "the function does nothing else")
        if rest is not None:
            kept = [with_replaced(line, [rest]) for line in kept]
        moved = [_not_compiled(line) if self.is_called else line for line in moved]
        what = f"Run line {source.start(top)[0]}"
        if rest is not None:
            what = f"Find out `{source.shortened(rest[0])}`"
        of = "" if self.call is not None else f" of `{function.name.value}`"
        write = self._split if self.call is None else self._passed
        # With the condition's own value.
        operations = self._operations(moved) + 1
        title = f"{what} before the compiled part{of}"
        return Edit(title, write(moved, kept), moved_out=operations)

    def _operations(self, lines: Sequence[CSTNode], depth: int = 3) -> int:
        """Count the most tensor operations in lines, with those of the module's functions that they
        call.
        """
        functions = functions_in(self.source) if self.is_called and depth else []
        bodies = {function.name.value: function.body for function in functions}
        names = [name.value for line in lines for name in names_in(line)]
        inner = (self._operations([bodies[name]], depth - 1) for name in names if name in bodies)
        return operations_in(lines) + sum(inner)

    # What moves.

    @cached_property
    def _test(self) -> BaseExpression | None:
        """The condition that has to be known."""
        pointed = self.place.expression
        parents = self.source.parents(pointed) if pointed is not None else ()
        for node, parent in itertools.pairwise((pointed, *parents)):
            match parent:
                case If(test=test) | IfExp(test=test) | Assert(test=test) if test is node:
                    return node
                case BaseStatement() | Lambda() | BaseComp():
                    break
        return self.place.statement.test if isinstance(self.place.statement, If) else None

    @cached_property
    def _value(self) -> BaseExpression:
        return self._test or self.place.pointed_call(
            lambda call: is_read(self.source, call) or self._draws(call), "a value that is read"
        )

    def _guarded(self, value: BaseExpression) -> tuple[BaseExpression, list[BaseExpression]]:
        """Write the value as Python's own, or None where the branches around it aren't taken; and
        return what it is made of.
        """
        top = self.lines[self.at]
        # A condition is a bool.
        is_python = self._test is None or self._is_bool(value)
        made = value.deep_clone() if is_python else expression("bool({value})", value=value)
        origins = [value]
        for node, parent in itertools.pairwise([*self.source.path_to(top, value), top]):
            if isinstance(parent, For) and node is parent.iter:
                continue
            is_looping = isinstance(parent, For | While | Try | TryStar | With | BaseComp)
            decline_if(is_looping, "it is inside a block that computes")
            if not isinstance(parent, If | IfExp) or node is parent.test:
                continue
            is_drawn = any(map(self._draws, calls_in(parent.test)))
            decline_if(is_drawn, "a number that is drawn decides whether it is needed")
            test = parent.test
            if node is not parent.body:
                test = UnaryOperation(Not(), bracketed(test))
            made = expression("{made} if {test} else None", made=made, test=test)
            origins.append(parent.test)
        is_set = len(origins) > 1 and flow_in([top]).assigned & name_set(value)
        decline_if(is_set, "its branch sets what it is made of")
        return made, origins

    def _is_movable(self, top: BaseStatement) -> bool:
        """Check whether a whole line may run outside: it sets a value or keeps one, or is an `if`
        that does so or leaves.
        """
        match top:
            case SimpleStatementLine(body=[Assign(value=value) | AugAssign(value=value)]):
                return self._is_pure(value)
            case SimpleStatementLine(body=[Expr(value=Call(args=args) as call)]) if self.is_called:
                # A function that checks what it is given.
                is_own = self._is_own(call)
                return not is_own and all(self._is_pure(argument.value) for argument in args)
            case SimpleStatementLine(body=[Assert(test=test)]):
                return self._is_pure(test)
            case If(test=test, orelse=None) if self._is_pure(test):
                is_leaving, function = leaves(top), self.place.function
                if is_leaving and self.call and not returns_only(self.call, function):
                    return False
                owner = self.source.around(function, ClassDef)
                methods = (
                    {method.name.value for method in find(owner, FunctionDef)} if owner else set()
                )
                calls = [call for call in calls_in(top.body) if self._is_own(call)]
                if any(is_leaving or called(call) not in methods for call in calls):
                    return False
                return not flow_in([top]).assigned
        return False

    def _is_own(self, call: Call) -> bool:
        """Check whether a call is of something of the object, such as a layer."""
        func: BaseExpression = call.func
        if self.owner is None:
            return False
        if isinstance(func, Attribute) and dotted(func.value) == self.owner:
            return True
        while isinstance(func, Subscript):
            func = func.value
        return func is not call.func and (dotted(func) or "").startswith(f"{self.owner}.")

    def _is_pure(self, value: BaseExpression) -> bool:
        if holds(value, NamedExpr, Await, Yield, Lambda):
            return False
        for call in calls_in(value):
            name = self.source.dotted_name(call)
            is_known = name.startswith(("torch.", "math.", *_DRAWS)) or name in _PURE_BUILTINS
            is_method = isinstance(call.func, Attribute) and called(call) in _PURE_METHODS
            if is_in_place(call) or self._is_own(call) or is_output(self.source, call):
                return False
            if not is_known and (name or not is_method):
                return False
        return True

    def _with_needed(self, statement: BaseStatement, *origins: CSTNode) -> list[BaseStatement]:
        """Return the lines that move: it, and those before it that set what it needs.

        ``origins`` are what it is made of, in the file.
        """
        moved = [self._line(statement)]
        needed = moved[0].flow.read_first
        skipped: list[_Line] = []
        for line in reversed([self._line(node) for node in self.lines[: self.at]]):
            is_changing = any(line.touched.changed & earlier.touched.read for earlier in moved)
            if is_changing or line.flow.assigned & needed:
                small = line.node.body[0] if isinstance(line.node, SimpleStatementLine) else None
                value = small.value if isinstance(small, Assign | AugAssign) else None
                is_plain = value is not None and self._is_pure(value)
                is_drawn = value is not None and any(map(self._draws, calls_in(value)))
                decline_if(not is_plain or is_drawn, _DEPENDS)
                moved.insert(0, line)
                needed = needed | line.flow.read_first
            else:
                # All that moves so far comes after it.
                is_before = any(self._conflicts(line, earlier) for earlier in moved)
                decline_if(is_before, "what is before it changes it")
                skipped.append(line)
        decline_if(len(moved) > _MOST_MOVED, "it depends on much that is computed before it")
        is_late = self._leaves(moved[-1]) and any(map(self._has_effect, skipped))
        decline_if(is_late, "what is before it has an effect")
        if any(map(self._draws, calls_in(*origins))):
            before = calls_in(*(line.node for line in skipped))
            is_second = any(map(self._draws, before))
            decline_if(is_second, "it draws after another number was drawn")
        return [line.node for line in moved]

    def _other_checks(self, moved: _Lines) -> list[BaseStatement]:
        """Return later lines that call such a function, too: the break is gone once none of them is
        compiled.
        """
        others: list[BaseStatement] = []
        for at in range(self.at + 1, len(self.lines)):
            line = self.lines[at]
            if not matchers.matches(line, _CALL_LINE) or not self._is_movable(line):
                continue
            try:
                needed = replace(self, at=at)._with_needed(line, line)
            except DeclinedError:
                continue
            seen = (*moved, *others)
            others += [check for check in needed if all(check is not other for other in seen)]
        return others

    def _line(self, node: BaseStatement) -> _Line:
        line = _Line.of(node, self.owner)
        touching = reaching(self.source, self.place.function, self.owner, line.touched)
        return replace(line, touched=touching.shared(self._sharing))

    @cached_property
    def _sharing(self) -> dict[str, frozenset[str]]:
        return sharing(self.source, self.lines, self.owner)

    @staticmethod
    def _conflicts(skipped: _Line, moved: _Line) -> bool:
        return bool(
            skipped.touched.conflicts(moved.touched)
            or moved.touched.changed & skipped.touched.changed
            or skipped.flow.read_first & moved.flow.assigned
            or skipped.flow.assigned & (moved.flow.assigned | moved.flow.read_first)
        )

    @staticmethod
    def _leaves(line: _Line) -> bool:
        return leaves(line.node) or holds(line.node, Raise)

    def _has_effect(self, line: _Line) -> bool:
        is_call = matchers.matches(line.node, _CALL_LINE)
        return is_call or bool(line.touched.changed) or self._leaves(line)

    def _draws(self, call: Call) -> bool:
        return self.source.dotted_name(call).startswith(_DRAWS)

    def _is_bool(self, value: BaseExpression) -> bool:
        """Check whether a condition is a Python bool already."""
        if not isinstance(value, Comparison):
            return isinstance(value, UnaryOperation) and isinstance(value.operator, Not)
        sides = [value.left, *(part.comparator for part in value.comparisons)]
        read = [
            side
            for side in sides
            if isinstance(side, Call) and (is_read(self.source, side) or self._draws(side))
        ]
        return bool(read) and all(
            isinstance(side, Integer | Float | SimpleString) or side in read or dotted(side)
            for side in sides
        )

    # What is written.

    def _split(self, moved: _Lines, kept: _Lines) -> bytes:
        """Split the function into one that isn't traced and the part that it calls, which is
        compiled.
        """
        lines = [*self.doc, *moved, *kept]
        changed, function = with_lines(self.source, self.place.function, lines)
        run = Run(changed, function, function.body, len(lines) - len(kept), len(lines))
        is_method = self.owner is not None
        name = changed.free_name("_compiled_part")
        return run.moved_and(name, lambda _, caller: shell(caller, is_method=is_method))

    def _passed(self, moved: _Lines, kept: _Lines) -> bytes:
        """Write the same, where the function is the compiled part already: its caller finds it out
        and passes it in.
        """
        function, line = self.place.function, known(self.call)
        handed = sorted(flow_in(moved).assigned & flow_in(kept).read_first)
        call = next(call for call in calls_in(line) if called(call) == function.name.value)
        params = function.params
        new = [name for name in handed if name not in name_set(params)]
        passed = call.with_changes(args=[*call.args, *(Arg(Name(name)) for name in new)])
        params = params.with_changes(params=[*params.params, *(Param(Name(name)) for name in new)])
        body = function.body.with_changes(body=kept)
        return self.source.replaced(
            (line, [*moved, with_replaced(line, [(call, passed)])]),
            (function, function.with_changes(params=params, body=body)),
        )


def _not_compiled(line: BaseStatement) -> BaseStatement:
    """Write a line that calls a function for its effect so that torch doesn't compile that by
    itself, and break there.
    """
    if not matchers.matches(line, _CALL_LINE):
        return line
    call = calls_in(line)[0]
    func = expression("torch.compiler.disable({func})", func=call.func)
    return with_replaced(line, [(call, call.with_changes(func=func))])

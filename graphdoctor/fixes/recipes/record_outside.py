"""Lines that only record or report in the compiled ``forward``: run them after the part that is compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

import libcst as cst

from graphdoctor.fixes.recipe import Edit, recipe
from graphdoctor.fixes.source.effects import (
    Touched,
    conversions,
    is_output,
    is_read,
    is_record,
    is_report,
    reads_clock,
    reads_tensor,
    sharing,
    touched,
)
from graphdoctor.fixes.source.flow import Flow, captured, flow, jumps
from graphdoctor.fixes.source.names import Names, called, dotted_name, is_in_place, method_call, names_in
from graphdoctor.fixes.source.place import Place
from graphdoctor.fixes.source.tree import Change, DeclinedError, SourceFile, decline_if, parsed, walk, with_replaced

_TESTS = frozenset({"all", "any", "isfinite", "isinf", "isnan"})
_REDUCTIONS = frozenset({"amax", "amin", "max", "mean", "median", "min", "norm", "prod", "std", "sum", "var"})
"""Return one tensor if they are called without arguments."""


@recipe("GD101", "GD102", "GD103", "GD105", "GD109")
def record_outside(place: Place) -> Edit:
    """Moves lines that log, print, warn or keep numbers behind the part of ``forward`` that torch compiles.

    ``forward`` becomes two methods: one computes and is compiled, and ``forward`` calls it, records, and runs eagerly.
    All lines stay, in their order, with the values that they had; tensors that they need are computed where they were.
    Only for the method that torch.compile is given, because Dynamo breaks before a function that it may not trace.
    Unsafe: if the computation raises, the lines before it weren't run, and a check comes after all of it.
    """
    function = place.source.function_of(place.statement)
    if not isinstance(function, cst.FunctionDef):
        raise DeclinedError("the line isn't in a function")
    if not place.is_outermost:
        raise DeclinedError("it isn't in the function that torch.compile was given, and Dynamo would break there")
    try:
        split = _Split.of(place, function)
        content = split.edited()
    except (SyntaxError, RecursionError):
        raise DeclinedError("this version of Python can't parse it") from None
    return Edit(
        title=f"Run the lines of `{function.name.value}` that record or report after its compiled part",
        content=content,
        is_safe=False,
    )


@dataclass
class _Line:
    """One statement of the function's body."""

    node: cst.BaseStatement
    flow: Flow
    touched: Touched
    role: str = "compute"


@dataclass
class _Split:
    """A function whose lines are to be sorted into two."""

    source: SourceFile
    function: cst.FunctionDef
    owner: str
    lines: list[_Line]
    result: cst.SimpleStatementLine | None
    target: _Line
    kept: list[str] = field(default_factory=list)
    """Names that the compiled part returns beside the result."""

    @classmethod
    def of(cls, place: Place, function: cst.FunctionDef) -> _Split:
        source = place.source
        owner = _owner(source, function)
        body = list(function.body.body)
        if not isinstance(function.body, cst.IndentedBlock):
            raise DeclinedError("the function's body is on one line")
        statements = [node for node in body if isinstance(node, cst.BaseStatement)]
        if function.get_docstring() is not None:
            statements = statements[1:]
        result = _return_of(statements)
        if result is not None:
            statements = statements[:-1]
        lines = [_line(node, owner) for node in _separated(source, statements)]
        wanted = place.statement
        if isinstance(wanted, cst.If):
            # One that is in two parts has the same test in both; the report comes first.
            target = next((line for line in lines if any(node is wanted.test for node in walk(line.node))), None)
        else:
            target = next((line for line in lines if any(node is wanted for node in walk(line.node))), None)
        if target is None:
            raise DeclinedError("the line isn't a statement of the function")
        split = cls(source, function, owner, lines, result, target)
        split.sort()
        return split

    # Which lines move.

    def sort(self) -> None:
        """Give every line its role."""
        if isinstance(self.target.node, cst.For | cst.While | cst.With | cst.Try | cst.TryStar):
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
                return reads_tensor(self.source, small.value) or reads_clock(self.source, small.value)
            case cst.If():
                return all(_is_effect(self.source, inner) for inner in _inner(line.node))
        return False

    def _add_followers(self) -> None:
        """Lines that only keep what moved lines read move too."""
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
        timed = _names_of_clocks(self.source, self.lines)
        for line in reversed(self.lines):
            if line.role == "compute" and not _is_of_clock(self.source, line.node, timed):
                break
            if line.role == "compute":
                line.role = "record"

    def _reason_to_stay(self, at: int) -> str | None:
        """Why a line can't be moved behind the lines that compute; None if it can."""
        line = self.lines[at]
        later = [other for other in self.lines[at + 1 :] if other.role == "compute"]
        for other in later:
            if read := sorted(line.flow.assigned & other.flow.read_first):
                return f"line {self._number(other)} computes with `{read[0]}`"
            if line.role == "record" and line.flow.assigned & other.flow.assigned:
                return f"line {self._number(other)} sets the same name"
            if line.role == "record" and self._everything(line.touched).conflicts(self._everything(other.touched)):
                return f"line {self._number(other)} may depend on it"
            if line.role == "record" and _is_writing(self.source, line.node) and _is_writing(self.source, other.node):
                return f"line {self._number(other)} reports too, and would do so before it"
        if line.role == "record" and later and reads_clock(self.source, line.node):
            return "it reads a clock, and would read it later"
        return None

    def _everything(self, found: Touched) -> Touched:
        """What a line touches, under every name that the same objects may have."""
        reached = self._reaching(found)
        changed = reached.changed.union(*(self._sharing.get(name, ()) for name in reached.changed))
        return Touched(reached.read | changed, changed)

    @cached_property
    def _sharing(self) -> dict[str, frozenset[str]]:
        return sharing(self.source, [line.node for line in self.lines], self.owner)

    def _reaching(self, found: Touched) -> Touched:
        """What a line touches, with the attributes that the methods of the class touch that it calls."""
        owner = self.source.class_of(self.function)
        if owner is None:
            return found
        methods = {node.name.value: node for node in owner.body.body if isinstance(node, cst.FunctionDef)}
        seen: set[str] = set()
        waiting = [name.removeprefix(f"{self.owner}.") for name in found.read]
        while waiting:
            name = waiting.pop()
            if name in seen or name not in methods:
                continue
            seen.add(name)
            inside = touched(methods[name].body, self.owner)
            own = frozenset(path for path in inside.read if path.startswith(f"{self.owner}."))
            waiting += [path.removeprefix(f"{self.owner}.") for path in own]
            found = found.joined(Touched(own, inside.changed & own))
        return found

    def _number(self, line: _Line) -> int:
        return self.source.position(line.node).start.line if line.node in self._positions else 0

    @cached_property
    def _positions(self) -> set[cst.CSTNode]:
        return set(walk(self.function))

    def _names_of_result(self) -> set[str]:
        return {name.value for name in names_in(self.result)} if self.result is not None else set()

    def _result_computes(self) -> bool:
        """Whether the ``return`` does more than put names together."""
        value = self._result_value
        simple = (
            cst.Name, cst.Tuple, cst.List, cst.Dict, cst.Element, cst.DictElement, cst.SimpleString, cst.Comma,
            cst.SimpleWhitespace, cst.LeftParen, cst.RightParen, cst.LeftCurlyBrace, cst.RightCurlyBrace,
            cst.LeftSquareBracket, cst.RightSquareBracket, cst.ParenthesizedWhitespace, cst.TrailingWhitespace,
            cst.EmptyLine, cst.Newline, cst.Integer,
        )  # fmt: skip
        return value is not None and not all(isinstance(node, simple) for node in walk(value))

    @property
    def _result_value(self) -> cst.BaseExpression | None:
        small = self.result.body[0] if self.result is not None else None
        return small.value if isinstance(small, cst.Return) else None

    # The two functions.

    def edited(self) -> bytes:
        """The file with the function in two."""
        names = Names(self.source, self.function)
        name = self.source.free_name("_compiled_part")
        inner: list[cst.BaseStatement] = []
        head: list[cst.BaseStatement] = []
        tail: list[cst.BaseStatement] = []
        tested: list[Change] = []
        for at, line in enumerate(self.lines):
            if line.role == "compute":
                # The other part of an `if` that was in two has its test already.
                test = [(old, new) for old, new in tested if isinstance(line.node, cst.If) and line.node.test is old]
                inner.append(_put(line.node, test))
            elif line.role == "head":
                head.append(line.node.deep_clone())
            else:
                given, moved = _Values(self, line, at, names).taken()
                if isinstance(line.node, cst.If) and isinstance(moved, cst.If) and isinstance(moved.test, cst.Name):
                    tested.append((line.node.test, cst.Name(moved.test.value)))
                inner += given
                tail.append(moved)
        if self.result is not None and self.bound_outside() & self._names_of_result():
            given, moved = _Values(self, _line(self.result, self.owner), len(self.lines), names, is_result=True).taken()
            assert isinstance(moved, cst.SimpleStatementLine)
            inner += given
            self.result = moved
            decline_if(self._result_computes(), "what is returned is computed from it")
        returned, after = self._returned(names)
        small = cst.Return(_tuple(returned)) if returned else cst.Return()
        if returned:
            inner.append(cst.SimpleStatementLine([small]))
        targets = after[0]
        call = cst.Call(cst.Attribute(cst.Name(self.owner), cst.Name(name)), list(_arguments(self.function.params)))
        calling: cst.BaseSmallStatement = (
            cst.Assign([cst.AssignTarget(_tuple([cst.Name(target) for target in targets]))], call)  # type: ignore[arg-type]
            if targets
            else cst.Expr(call)
        )
        doc = list(self.function.body.body[:1]) if self.function.get_docstring() is not None else []
        outer_body = [*doc, *head, cst.SimpleStatementLine([calling]), *tail, *after[1]]
        outer = self.function.with_changes(
            body=self.function.body.with_changes(body=_plain(outer_body)),
            decorators=[cst.Decorator(cst.parse_expression("torch.compiler.disable(recursive=False)"))],
        )
        compiled = cst.FunctionDef(
            cst.Name(name),
            _parameters(self.function.params),
            cst.IndentedBlock(_plain(inner)),
            leading_lines=[cst.EmptyLine(indent=False)],
        )
        return self.source.replaced((self.function, cst.FlattenSentinel([outer, compiled])), imports=("torch",))

    def _returned(self, names: Names) -> tuple[list[cst.BaseExpression], tuple[list[str], list[cst.BaseStatement]]]:
        """What the compiled part returns, and the names that it is assigned to with the statements after the records.

        Returns:
            The expressions; the names, and the ``return``.
        """
        value = self._result_value
        if value is None or self.result is None:
            return [self._given(name) for name in self.kept], (
                list(self.kept),
                [self.result] if self.result is not None else [],
            )
        if self._result_computes():
            whole = names.fresh("result")
            first = value.deep_clone()
            if isinstance(first, cst.Tuple) and not first.lpar:
                first = first.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
            small = self.result.body[0].with_changes(value=cst.Name(whole))
            after = self.result.with_changes(body=[small])
            return [first, *(self._given(name) for name in self.kept)], ([whole, *self.kept], [after])
        bound = self.bound_inside(len(self.lines))
        own = [name.value for name in names_in(value) if name.value in bound]
        self.refuse_unset(own, len(self.lines))
        both = list(dict.fromkeys([*own, *self.kept]))
        given = [cst.Name(name) if name in own else self._given(name) for name in both]
        return given, (both, [self.result.deep_clone()])

    def _given(self, name: str) -> cst.BaseExpression:
        """What the compiled part returns for a name that only the records need: detached if only its value is read."""
        uses = [
            found
            for line in self.lines
            if line.role != "compute"
            for found in names_in(line.node)
            if found.value == name
        ]
        is_value = all(_is_value_read(self.source, found) for found in uses)
        is_detached = is_value and any(_is_item(self.source, found) for found in uses)
        return method_call(cst.Name(name), "detach") if is_detached else cst.Name(name)

    def bound_inside(self, stop: int) -> set[str]:
        """Names that the compiled lines before an index bind."""
        computing = [line.flow.assigned for line in self.lines[:stop] if line.role == "compute"]
        return set().union(*computing)

    def refuse_unset(self, names: Iterable[str], stop: int) -> None:
        """Decline if the compiled lines before an index don't always bind a name."""
        computing = [line for line in self.lines[:stop] if line.role == "compute"]
        found = reduce(Flow.then, (line.flow for line in computing), Flow())
        params = {param.value for param in names_in(self.function.params)}
        for name in names:
            if not found.has(name) and name not in params:
                raise DeclinedError(f"`{name}` may be unset after the lines that compute")

    def bound_outside(self) -> set[str]:
        """Names that the lines that aren't compiled bind."""
        return set().union(*(line.flow.assigned for line in self.lines if line.role != "compute"))


class _Values:
    """The tensors that a moved line needs, computed where the line was."""

    def __init__(self, split: _Split, line: _Line, at: int, names: Names, *, is_result: bool = False) -> None:
        self._split = split
        self._line = line
        self._at = at
        self._is_result = is_result
        self._names = names
        self._inside = split.bound_inside(at)
        self._outside = split.bound_outside()
        self._own = {name.value for name in names_in(split.function.params)} - {split.owner} | self._inside
        self._given: list[cst.BaseStatement] = []
        self._known: list[tuple[cst.BaseExpression, str]] = []

    def taken(self) -> tuple[list[cst.BaseStatement], cst.BaseStatement]:
        """The assignments to put in the line's place, and the line with the names in it."""
        node = self._line.node
        changes: list[Change] = [(found, self._given_name(found)) for found in self._wanted(node, is_sure=True)]
        replaced = _put(node, changes)
        again = flow(parsed([replaced])).read_first | _read_names(replaced)
        known = {given for _, given in self._known}
        # A parameter that is set later would have its last value when the moved line runs.
        needed = sorted(name for name in again & self._own - known if name in self._inside or self._is_set_later(name))
        self._split.refuse_unset(needed, self._at)
        for name in needed:
            if self._is_set_later(name):
                fresh = self._names.fresh(f"{name}_before")
                self._given.append(_assigned(fresh, cst.Name(name)))
                self._split.kept.append(fresh)
                replaced = _renamed(replaced, name, fresh)
            elif name not in self._split.kept:
                self._split.kept.append(name)
        return self._given, self._with_numbers(replaced)

    def _with_numbers(self, line: cst.BaseStatement) -> cst.BaseStatement:
        """The line with numbers and text for a logger: Dynamo would trace the logger's methods if it got tensors."""
        tensors = self._inside | {name for _, name in self._known}
        changes: list[Change] = []
        for node in walk(line):
            if isinstance(node, cst.Call) and is_output(self._split.source, node):
                for argument, kind in zip(node.args[1:], conversions(node), strict=False):
                    if isinstance(argument.value, cst.Name) and argument.value.value in tensors:
                        converted = cst.Call(cst.Name(kind), [cst.Arg(argument.value.deep_clone())])
                        changes.append((argument.value, converted))
        return _put(line, changes)

    def _is_set_later(self, name: str) -> bool:
        return any(name in line.flow.assigned for line in self._split.lines[self._at + 1 :] if line.role == "compute")

    def _given_name(self, found: cst.BaseExpression) -> cst.BaseExpression:
        for known, name in self._known:
            if known.deep_equals(found):
                return cst.Name(name)
        fresh = self._names.fresh(_name_for(found))
        value = found.deep_clone().with_changes(lpar=(), rpar=())
        if self._is_detached(found):
            value = method_call(found.with_changes(lpar=(), rpar=()), "detach")
        self._given.append(_assigned(fresh, value))
        self._known.append((found, fresh))
        self._split.kept.append(fresh)
        return cst.Name(fresh)

    def _is_detached(self, found: cst.BaseExpression) -> bool:
        """Whether a gradient could flow into it, for nothing: only its value is read."""
        if self._is_result:
            return False
        if isinstance(found, cst.Call) and not found.args and called(found) in _REDUCTIONS:
            return True
        return _is_item(self._split.source, found)

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
        if not isinstance(node, cst.Call | cst.BinaryOperation | cst.Comparison | cst.UnaryOperation):
            return False
        names = {name.value for name in names_in(node)}
        if not names & self._own or names & self._outside:
            return False
        is_computed = bool(names & self._inside) or any(isinstance(part, cst.Call) for part in walk(node))
        return is_computed and all(self._is_allowed(source, part, is_sure=is_sure) for part in walk(node))

    def _is_allowed(self, source: SourceFile, part: cst.CSTNode, *, is_sure: bool) -> bool:
        match part:
            case cst.Call():
                if is_read(source, part) or is_in_place(part) or is_output(source, part):
                    return False
                name = dotted_name(source, part.func)
                is_own = self._is_owned(part.func.value) if isinstance(part.func, cst.Attribute) else True
                is_method = not name and (not is_own or self._is_result)
                return called(part) != "numpy" and (name.startswith("torch.") or is_method)
            case cst.Subscript():
                return is_sure
            case cst.Is() | cst.IsNot() | cst.In() | cst.NotIn() | cst.Not():
                return False
            case cst.BooleanOperation() | cst.IfExp() | cst.NamedExpr() | cst.Await() | cst.Yield():
                return False
            case cst.BaseString() | cst.Lambda() | cst.BaseComp() | cst.BaseDict() | cst.BaseSet():
                return False
            case cst.Attribute(value=cst.Name(value=name), attr=attr) if name == self._split.owner:
                path = f"{name}.{attr.value}"
                moved = (line.touched.changed for line in self._split.lines if line.role != "compute")
                return not any(path in changed for changed in moved)
        return True

    def _is_owned(self, node: cst.BaseExpression) -> bool:
        return isinstance(node, cst.Name) and node.value == self._split.owner


def _is_item(source: SourceFile, node: cst.CSTNode) -> bool:
    """``x`` in ``x.item()``, which only tensors have."""
    parents = source.parents(node)
    attribute, call = next(parents), next(parents)
    is_call = isinstance(attribute, cst.Attribute) and attribute.value is node and isinstance(call, cst.Call)
    return is_call and isinstance(call, cst.Call) and is_read(source, call)


def _is_value_read(source: SourceFile, node: cst.CSTNode) -> bool:
    parent = next(source.parents(node))
    if isinstance(parent, cst.Arg):
        call = next(source.parents(parent))
        return isinstance(call, cst.Call) and is_read(source, call)
    is_shown = isinstance(parent, cst.FormattedStringExpression | cst.Comparison | cst.ComparisonTarget)
    return is_shown or _is_item(source, node)


def _owner(source: SourceFile, function: cst.FunctionDef) -> str:
    suite = next(source.parents(function))
    if not isinstance(next(source.parents(suite), None), cst.ClassDef) or function.name.value != "forward":
        raise DeclinedError("only the `forward` of a module can be split into a compiled part and one that isn't")
    decline_if(function.decorators, "the function has a decorator")
    if function.asynchronous is not None:
        raise DeclinedError("the function is asynchronous")
    params = [*function.params.posonly_params, *function.params.params]
    decline_if(not params, "the method has no parameter for its object")
    return params[0].name.value


def _return_of(statements: Sequence[cst.BaseStatement]) -> cst.SimpleStatementLine | None:
    """The only ``return`` of a body, its last statement."""
    tree = parsed(statements)
    for jump in jumps(tree):
        if not isinstance(jump, ast.Return):
            raise DeclinedError("the function yields or awaits")
    decline_if(captured(tree) & flow(tree).assigned, "an inner function shares names with the lines around it")
    returns = [node for statement in tree for node in ast.walk(statement) if isinstance(node, ast.Return)]
    last = statements[-1] if statements else None
    is_last = isinstance(last, cst.SimpleStatementLine) and len(last.body) == 1 and isinstance(last.body[0], cst.Return)
    decline_if(len(returns) > is_last, "the function returns in several places")
    return last if is_last and isinstance(last, cst.SimpleStatementLine) else None


def _line(node: cst.BaseStatement, owner: str) -> _Line:
    found = flow(parsed([node]))
    return _Line(node, found, touched(node, owner))


def _separated(source: SourceFile, statements: Sequence[cst.BaseStatement]) -> Iterator[cst.BaseStatement]:
    """The statements; an ``if`` on what was computed that both computes and reports becomes two, the report first."""
    local = flow(parsed(statements)).assigned
    for statement in statements:
        parts = _reports_apart(source, statement, local) if isinstance(statement, cst.If) else ()
        yield from parts or (statement,)


def _reports_apart(source: SourceFile, statement: cst.If, local: set[str]) -> Sequence[cst.BaseStatement]:
    """The ``if`` with its reports, and the one with all else; empty if it has only one kind."""
    body = statement.body
    if statement.orelse is not None or not isinstance(body, cst.IndentedBlock):
        return ()
    reports = [node for node in body.body if is_report(source, node)]
    rest = [node for node in body.body if not is_report(source, node)]
    if not reports or not rest or not local & _read_names(statement.test):
        return ()
    after = body.body[body.body.index(rest[0]) :]
    late = [node for node in after if is_report(source, node)]
    if flow(parsed(late)).read_first & flow(parsed(rest)).assigned:
        return ()
    first = statement.with_changes(body=body.with_changes(body=reports, footer=()))
    return first, statement.with_changes(body=body.with_changes(body=rest), leading_lines=())


def _inner(statement: cst.If) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = list(statement.body.body)
    match statement.orelse:
        case cst.Else(body=body):
            found += body.body
        case cst.If() as other:
            found += _inner(other)
    return found


def _is_effect(source: SourceFile, node: cst.CSTNode) -> bool:
    """Whether a statement under a moved ``if`` records, reports or raises."""
    match node:
        case cst.If():
            return all(_is_effect(source, inner) for inner in _inner(node))
        case cst.SimpleStatementLine(body=smalls):
            return all(_is_effect(source, small) for small in smalls)
        case cst.Raise() | cst.Pass():
            return True
        case cst.Expr(value=cst.Call() as call):
            return not is_in_place(call)
        case cst.Assign(targets=targets, value=value):
            is_kept = all(isinstance(target.target, cst.Attribute | cst.Subscript) for target in targets)
            return is_kept or reads_tensor(source, value)
        case cst.AugAssign(target=target, value=value):
            return isinstance(target, cst.Attribute | cst.Subscript) or reads_tensor(source, value)
    return False


def _is_writing(source: SourceFile, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.If) and "torch.compiler.is_compiling()" in source.code(node.test):
        return False
    if isinstance(node, cst.Call) and is_output(source, node):
        return True
    return any(_is_writing(source, child) for child in node.children)


def _is_made_of(source: SourceFile, node: cst.CSTNode, names: set[str]) -> bool:
    """Whether a line makes text or a number of names that moved lines set."""
    match node:
        case cst.SimpleStatementLine(body=[cst.Assign(value=cst.BaseString())]):
            return True
        case cst.SimpleStatementLine(body=[cst.Assign(value=value)]):
            return all(
                name.value in names or dotted_name(source, name).startswith("builtins.") for name in names_in(value)
            )
    return False


def _is_check(node: cst.CSTNode) -> bool:
    """``if x.isnan().any(): raise …`` or ``assert x.isfinite().all()``."""
    match node:
        case cst.If(test=test) | cst.SimpleStatementLine(body=[cst.Assert(test=test)]):
            return any(isinstance(part, cst.Call) and called(part) in _TESTS for part in walk(test))
    return False


def _starts_clock(source: SourceFile, node: cst.CSTNode) -> bool:
    """``start = time.time()``."""
    match node:
        case cst.SimpleStatementLine(body=[cst.Assign(value=cst.Call(args=[]) as call)]):
            return reads_clock(source, call)
    return False


def _names_of_clocks(source: SourceFile, lines: Sequence[_Line]) -> set[str]:
    return set().union(*(line.flow.assigned for line in lines if reads_clock(source, line.node)))


def _is_of_clock(source: SourceFile, node: cst.CSTNode, timed: set[str]) -> bool:
    """Whether a line only handles times: it reads a clock, or uses only names that such lines set."""
    match node:
        case cst.SimpleStatementLine(body=[cst.Assign(value=value)]):
            return reads_clock(source, value)
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call() as call)]):
            return bool(timed & _read_names(call))
        case cst.If(test=test):
            is_timed = timed >= _read_names(test)
            return is_timed and all(_is_effect(source, inner) for inner in _inner(node))
    return False


def _name_for(found: cst.BaseExpression) -> str:
    """A name for a value: ``mean`` for ``x.mean()``."""
    if isinstance(found, cst.Comparison):
        return "condition"
    if isinstance(found, cst.Call):
        name = called(found)
        return f"{name}_value" if name.isidentifier() else "value"
    return "value"


def _assigned(name: str, value: cst.BaseExpression) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], value)])


def _put(node: cst.BaseStatement, changes: Sequence[Change]) -> cst.BaseStatement:
    changed = with_replaced(node, changes).deep_clone()
    assert isinstance(changed, cst.BaseStatement)
    return changed


def _read_names(node: cst.CSTNode) -> set[str]:
    return {name.value for name in names_in(node)}


def _renamed(node: cst.BaseStatement, old: str, new: str) -> cst.BaseStatement:
    return _put(node, [(name, name.with_changes(value=new)) for name in names_in(node) if name.value == old])


def _tuple(values: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    if len(values) == 1:
        return values[0]
    return cst.Tuple([cst.Element(value) for value in values], lpar=[], rpar=[])


def _plain(body: Sequence[cst.CSTNode]) -> list[cst.BaseStatement]:
    listed = [node for node in body if isinstance(node, cst.BaseStatement)]
    first = listed[0]
    lines = list(getattr(first, "leading_lines", ()))
    while lines and lines[0].comment is None:
        lines.pop(0)
    return [first.with_changes(leading_lines=lines), *listed[1:]]


def _parameters(params: cst.Parameters) -> cst.Parameters:
    def plain(param: cst.Param) -> cst.Param:
        return cst.Param(cst.Name(param.name.value), star=param.star)

    star = params.star_arg
    return cst.Parameters(
        params=[plain(param) for param in [*params.posonly_params, *params.params]],
        star_arg=plain(star) if isinstance(star, cst.Param) else star,
        kwonly_params=[plain(param) for param in params.kwonly_params],
        star_kwarg=plain(params.star_kwarg) if params.star_kwarg is not None else None,
    )


def _arguments(params: cst.Parameters) -> Iterator[cst.Arg]:
    for param in [*params.posonly_params, *params.params][1:]:
        yield cst.Arg(cst.Name(param.name.value))
    if isinstance(params.star_arg, cst.Param):
        yield cst.Arg(cst.Name(params.star_arg.name.value), star="*")
    for param in params.kwonly_params:
        yield cst.Arg(cst.Name(param.name.value), keyword=cst.Name(param.name.value), equal=_EQUAL)
    if params.star_kwarg is not None:
        yield cst.Arg(cst.Name(params.star_kwarg.name.value), star="**")


_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))

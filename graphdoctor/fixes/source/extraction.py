"""Moves a run of statements into its own function or method, unless that could change what the
program does.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from libcst import (
    BaseCompoundStatement,
    BaseSmallStatement,
    BaseStatement,
    BaseSuite,
    CSTNode,
    EmptyLine,
    FunctionDef,
    IndentedBlock,
    Module,
    SimpleStatementLine,
    parse_statement,
)

from graphdoctor.fixes.source.flow import (
    Flow,
    captured,
    flow,
    flow_of,
    jumps,
    names,
    parameter_names,
    swallows,
    targets,
)
from graphdoctor.fixes.source.nodes import above, alone, called, calls_in
from graphdoctor.fixes.source.tree import (
    DeclinedError,
    SourceFile,
    Statement,
    decline_if,
    find,
    known,
    need,
    parsed,
)

_LOOKS_AT_LOCALS = {"locals", "vars", "dir", "eval", "exec"}
_NOT_IN_FUNCTION = "the line isn't in a function"
_Level = tuple[ast.AST, list[ast.stmt], list[ast.stmt], list[ast.stmt]]


@dataclass(frozen=True)
class Run:
    """Consecutive statements of a body of a function: those from ``start`` up to ``stop``."""

    source: SourceFile
    function: FunctionDef
    suite: BaseSuite
    start: int
    stop: int

    @classmethod
    def of_suite(cls, source: SourceFile, suite: BaseSuite) -> Run:
        """Return a whole body."""
        function = need(source.function_of(suite), FunctionDef, _NOT_IN_FUNCTION)
        return cls(source, function, suite, 0, len(suite.body))

    @classmethod
    def of_statement(cls, source: SourceFile, statement: Statement) -> Run:
        """Return one statement."""
        shares = "the statement shares its line with other statements"
        suite = need(source.parent(statement), IndentedBlock, shares)
        at = suite.body.index(statement)
        function = need(source.function_of(suite), FunctionDef, _NOT_IN_FUNCTION)
        return cls(source, function, suite, at, at + 1)

    @cached_property
    def statements(self) -> list[BaseStatement]:
        """The statements, each on its own line."""
        nodes = self.suite.body[self.start : self.stop]
        return [node if isinstance(node, BaseStatement) else alone(node) for node in nodes]

    @cached_property
    def parsed(self) -> list[ast.stmt]:
        """The same in Python's own syntax tree of the function."""
        inner = find(self.function.body, BaseSmallStatement, BaseCompoundStatement)
        same: dict[CSTNode, ast.stmt] = dict(zip(inner, _in_order(self._tree.body), strict=True))
        nodes = self.suite.body[self.start : self.stop]
        return [
            same[small]
            for node in nodes
            for small in (node.body if isinstance(node, SimpleStatementLine) else [node])
        ]

    @cached_property
    def flow(self) -> Flow:
        """Return the names that the run reads and sets."""
        return flow(self.parsed)

    @cached_property
    def _tree(self) -> ast.FunctionDef | ast.AsyncFunctionDef:
        return _tree_of(self.function)

    @cached_property
    def _body(self) -> Flow:
        return flow(self._tree.body)

    @cached_property
    def _around(self) -> list[_Level]:
        """The code around the run, innermost first: its body on the way there, and what is before
        and after in it.
        """
        parents = {
            child: node for node in ast.walk(self._tree) for child in ast.iter_child_nodes(node)
        }
        levels: list[_Level] = []
        first: ast.AST = self.parsed[0]
        last: ast.AST = self.parsed[-1]
        while first is not self._tree:
            outer = parents[first]
            bodies = (value for _, value in ast.iter_fields(outer) if isinstance(value, list))
            body = next(value for value in bodies if first in value)
            before = after = []
            if isinstance(first, ast.stmt):
                before, after = body[: body.index(first)], body[body.index(last) + 1 :]
            levels.append((outer, body, before, after))
            first = last = outer
        return levels

    @cached_property
    def local_names(self) -> set[str]:
        """All local variables of the function."""
        return (self._body.assigned | parameter_names(self._tree.args)) - self._foreign

    @cached_property
    def _foreign(self) -> set[str]:
        declared = (
            statement
            for statement in ast.walk(self._tree)
            if isinstance(statement, ast.Global | ast.Nonlocal)
        )
        return {name for statement in declared for name in statement.names}

    @cached_property
    def bound_before(self) -> set[str]:
        """Names that are always bound when the run begins."""
        bound = parameter_names(self._tree.args)
        for outer, body, before, _ in reversed(self._around):
            bound |= _entered(outer, body) | known(flow(before).bound, "it's never reached")
        return bound

    @cached_property
    def read_after(self) -> set[str]:
        """Names that may be read once the run has ended."""
        return set().union(
            *(_read_next(outer) | flow(after).read_first for outer, _, _, after in self._around)
        )

    def check(self) -> None:
        """Decline if the run can't be moved."""
        for node in jumps(self.parsed):
            if isinstance(node, ast.Break | ast.Continue):
                word = type(node).__name__.lower()
                raise DeclinedError(f"it has a `{word}` of the loop around it")
            decline_if(not isinstance(node, ast.Return), "it yields or awaits")
            decline_if(self.flow.ends, "it returns from the function only in some cases")
        for inner in (node for statement in self.parsed for node in ast.walk(statement)):
            is_deleting = isinstance(inner, ast.Delete) and names(inner) & self.read_after
            decline_if(is_deleting, "it deletes what is read after it")
            if isinstance(inner, ast.Name) and inner.id in _LOOKS_AT_LOCALS:
                raise DeclinedError(f"it calls `{inner.id}`, which reads the variables around it")
        bound = self.flow.assigned
        within = captured(self.parsed) & self.local_names & self._body.assigned
        for shared, reason in (
            (bound & self._foreign, "it binds `{}`, which is global or nonlocal"),
            (bound & captured(self._tree.body), "an inner function shares `{}` with it"),
            (within, "one of its inner functions shares `{}` with the code around it"),
            (self._stale(), "if it raises halfway, `{}` would have a different value afterwards"),
        ):
            decline_if(shared, reason.format(min(shared, default="")))

    def _stale(self) -> set[str]:
        """Names that something reads after the run raised, and that would lack what the run had
        assigned to them.
        """
        read: set[str] = set()
        later: set[str] = set()
        for outer, body, _, after in reversed(self._around):
            read |= _read_when_raised(outer, body, later=later)
            later |= _read_next(outer) | flow(after).read_first
        is_last_set = isinstance(self.parsed[-1], ast.Assign | ast.AnnAssign | ast.AugAssign)
        return read & (flow(self.parsed[:-1]) if is_last_set else self.flow).assigned

    @cached_property
    def returns(self) -> list[str]:
        """Names that it binds and that are read after it."""
        shared = sorted(self.flow.assigned & self.read_after & self.local_names, key=self._order)
        for name in shared:
            is_unset = not self.flow.has(name) and name not in self.bound_before
            decline_if(is_unset, f"`{name}` may be unset after it")
        return shared if self.flow.ends else []

    @cached_property
    def _bound_elsewhere(self) -> set[str]:
        """Local variables that can have a value when the run begins, be it from an earlier turn of
        a loop.
        """
        if any(isinstance(outer, ast.For | ast.AsyncFor | ast.While) for outer, *_ in self._around):
            return self.local_names
        tree = _tree_of(self._caller("pass"))
        return self.local_names & (flow(tree.body).assigned | parameter_names(tree.args))

    @cached_property
    def parameters(self) -> list[str]:
        """Names that it needs from the function around it."""
        needed = self.flow.read_first & self._bound_elsewhere
        for name in sorted(needed):
            decline_if(name not in self.bound_before, f"`{name}` may be unset before it")
        needed |= {name for name in self.returns if not self.flow.has(name)}
        return sorted(needed, key=self._order)

    def _order(self, name: str) -> tuple[int, int, str]:
        places = [
            (node.lineno, node.col_offset)
            for statement in self.parsed
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and node.id == name
        ]
        return (*min(places, default=(0, 0)), name)

    def moved(self, name: str) -> SourceFile:
        """Return the file with the run in its own function; decline if that could change what the
        program does.
        """
        self.check()
        owner = self._owner()
        parameters = [parameter for parameter in self.parameters if parameter != owner]
        function = self._definition(name, [owner, *parameters] if owner else parameters)
        if owner is None and isinstance(self.source.parent(self.function), Module):
            function = function.with_changes(leading_lines=[EmptyLine(indent=False)] * 2)
        has_return = any(isinstance(jump, ast.Return) for jump in jumps(self.parsed))
        call = f"{owner}.{name}" if owner else name
        call = f"{call}({', '.join(parameters)})"
        if not self.flow.ends and has_return:
            call = f"return {call}"
        elif self.returns:
            call = f"{', '.join(self.returns)} = {call}"
        return self.source.changed((self.function, [self._caller(call), function]))

    def _owner(self) -> str | None:
        """The name of a method's object, such as ``self``; None for a function."""
        if not self.source.is_method(self.function):
            uses = set[str]().union(*map(names, self.parsed))
            decline_if(uses & {"super", "__class__"}, "it calls `super`")
            return None
        decorators = {
            self.source.code(decorator.decorator) for decorator in self.function.decorators
        }
        decline_if(
            decorators & {"staticmethod", "classmethod"},
            "a static or class method has no object whose methods it could call",
        )
        owner = first_parameter(self.function)
        decline_if(owner in self._body.assigned, f"the method binds `{owner}` anew")
        return owner

    def _caller(self, call: str) -> FunctionDef:
        """The function with a statement in place of the run."""
        line = parse_statement(call).with_changes(leading_lines=_blank(self.statements[0]))
        body = [*self.suite.body[: self.start], line, *self.suite.body[self.stop :]]
        # Comments after the last line of a block stay: they could be about any of the lines.
        is_block = isinstance(self.suite, IndentedBlock)
        suite = self.suite.with_changes(body=body) if is_block else IndentedBlock(body)
        return need(self.function.deep_replace(self.suite, suite), FunctionDef)

    def _definition(self, name: str, parameters: Sequence[str]) -> FunctionDef:
        first, *rest = self.statements
        comments = [line.deep_clone() for line in above(first)[len(_blank(first)) :]]
        ending = [parse_statement(f"return {', '.join(self.returns)}")] if self.returns else []
        body = IndentedBlock([first.with_changes(leading_lines=comments), *rest, *ending])
        function = parse_statement(f"def {name}({', '.join(parameters)}): pass")
        blank = [EmptyLine(indent=False)]
        return need(function, FunctionDef).with_changes(body=body, leading_lines=blank)


def first_parameter(method: FunctionDef) -> str:
    """Return a method's name for its object; decline if it has none."""
    params = [*method.params.posonly_params, *method.params.params]
    decline_if(not params, "the method has no parameter for its object")
    return params[0].name.value


def call_of(source: SourceFile, name: str) -> Statement:
    """Return the statement that calls a function that ``moved`` created."""
    call = next(call for call in calls_in(source.tree) if called(call) == name)
    return known(source.around(call, SimpleStatementLine))


@lru_cache(maxsize=8)
def functions_in(source: SourceFile) -> list[FunctionDef]:
    """Return the functions of a file, in order."""
    return find(source.tree, FunctionDef)


def _tree_of(function: FunctionDef) -> ast.FunctionDef | ast.AsyncFunctionDef:
    tree = parsed([function])[0]
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)  # it was parsed from one
    return tree


def _in_order(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    for node in nodes:
        if isinstance(node, ast.stmt):
            yield node
        yield from _in_order(ast.iter_child_nodes(node))


def _entered(node: ast.AST, body: list[ast.stmt]) -> set[str]:
    match node:
        case ast.For() | ast.AsyncFor() if body is node.body:
            return targets(node.target)
        case ast.With() | ast.AsyncWith():
            items = (item.optional_vars for item in node.items if item.optional_vars)
            return set().union(*map(targets, items))
        case ast.ExceptHandler(name=str(name)):
            return {name}
        case ast.Try() | ast.TryStar() if body is node.orelse:
            return flow(node.body).bound or set()
    return set()


def _read_next(node: ast.AST) -> set[str]:
    match node:
        case ast.For() | ast.AsyncFor() | ast.While():
            return flow([node]).read_first
        case ast.Try() | ast.TryStar():
            later = [statement for handler in node.handlers for statement in handler.body]
            flows = [
                *(flow_of(handler.type) for handler in node.handlers),
                *(flow([statement]) for statement in (*later, *node.orelse, *node.finalbody)),
            ]
            return set().union(*(flow.read_first for flow in flows))
    return set()


def _read_when_raised(node: ast.AST, body: list[ast.stmt], *, later: set[str]) -> set[str]:
    match node:
        case ast.With() | ast.AsyncWith() if any(map(swallows, node.items)):
            return later
        case ast.Try() | ast.TryStar() if body is not node.finalbody:
            read = flow(node.finalbody).read_first
            for handler in node.handlers if body is node.body else ():
                caught = flow(handler.body)
                read |= caught.read_first | (later if caught.ends else set())
            return read
    return set()


def _blank(line: CSTNode) -> list[EmptyLine]:
    return list(itertools.takewhile(lambda empty: empty.comment is None, above(line)))

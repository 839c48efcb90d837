"""Moves a run of statements into its own function or method, unless that could change what the program does."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

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
from graphdoctor.fixes.source.nodes import alone, assigned, called, calls_in, joined
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile, Statement, decline_if, need, parsed, walk

_LOOKS_AT_LOCALS = {"locals", "vars", "dir", "eval", "exec"}


@dataclass(frozen=True)
class Run:
    """Consecutive statements of a body of a function: those from ``start`` up to ``stop``."""

    source: SourceFile
    function: cst.FunctionDef
    suite: cst.BaseSuite
    start: int
    stop: int

    @classmethod
    def of_suite(cls, source: SourceFile, suite: cst.BaseSuite) -> Run:
        """A whole body."""
        return cls(source, _function_around(source, suite), suite, 0, len(suite.body))

    @classmethod
    def of_statement(cls, source: SourceFile, statement: Statement) -> Run:
        """One statement."""
        shared = "the statement shares its line with other statements"
        suite = need(source.parent(statement), cst.IndentedBlock, shared)
        at = suite.body.index(statement)
        return cls(source, _function_around(source, suite), suite, at, at + 1)

    @cached_property
    def statements(self) -> list[cst.BaseStatement]:
        """The statements, each on its own line."""
        nodes = self.suite.body[self.start : self.stop]
        return [node if isinstance(node, cst.BaseStatement) else alone(node) for node in nodes]

    @cached_property
    def parsed(self) -> list[ast.stmt]:
        """The same as Python's own syntax tree."""
        return parsed(self.statements)

    @cached_property
    def flow(self) -> Flow:
        """What it does with names."""
        return flow(self.parsed)

    @cached_property
    def _around(self) -> list[tuple[cst.CSTNode, cst.BaseSuite]]:
        found: list[tuple[cst.CSTNode, cst.BaseSuite]] = []
        suite = self.suite
        for node in self.source.parents(self.suite):
            if node is self.function:
                break
            if isinstance(node, cst.BaseSuite):
                suite = node
            elif isinstance(node, cst.BaseCompoundStatement):
                found.append((node, suite))
        return found

    @cached_property
    def _tree(self) -> ast.FunctionDef | ast.AsyncFunctionDef:
        tree = parsed([self.function])[0]
        assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)  # it was parsed from one
        return tree

    @cached_property
    def local_names(self) -> set[str]:
        """All local variables of the function."""
        return (flow(self._tree.body).assigned | parameter_names(self._tree.args)) - self._foreign

    @cached_property
    def _foreign(self) -> set[str]:
        declared = [node for node in ast.walk(self._tree) if isinstance(node, ast.Global | ast.Nonlocal)]
        return {name for node in declared for name in node.names}

    @cached_property
    def bound_before(self) -> set[str]:
        """Names that are always bound when the run begins."""
        bound = parameter_names(self._tree.args)
        # From the function's body inward: what comes before in each body, and what entering the next one binds.
        outwards = list(reversed(self._around))
        bodies = [self.function.body, *(suite for _, suite in outwards)]
        for body, step in zip(bodies, [*outwards, None], strict=True):
            bound |= self._bound_by(_before(body, step[0], 0) if step else _before(body, None, self.start))
            bound |= _entered(*step) if step else set()
        return bound

    @staticmethod
    def _bound_by(statements: Sequence[cst.BaseStatement | cst.BaseSmallStatement]) -> set[str]:
        bound = flow(parsed(statements)).bound
        if bound is None:
            raise DeclinedError("it's never reached")
        return bound

    @cached_property
    def read_after(self) -> set[str]:
        """Names that may be read once the run has ended."""
        found = flow(parsed(self.suite.body[self.stop :])).read_first
        for node, _ in self._around:
            found |= _read_next(node)
            found |= self._read_below(node)
        return found

    def _read_below(self, node: cst.CSTNode) -> set[str]:
        suite = self.source.parent(node)
        if not isinstance(suite, cst.BaseSuite):
            return set()  # an elif: the code after its if is looked at
        return flow(parsed(suite.body[suite.body.index(node) + 1 :])).read_first

    def check(self) -> None:
        """Decline if the run can't be moved."""
        for node in jumps(self.parsed):
            if isinstance(node, ast.Return):
                decline_if(self.flow.ends, "it returns from the function only in some cases")
            elif isinstance(node, ast.Break | ast.Continue):
                raise DeclinedError(f"it has a `{type(node).__name__.lower()}` of the loop around it")
            else:
                raise DeclinedError("it yields or awaits")
        for inner in (node for statement in self.parsed for node in ast.walk(statement)):
            is_deleting = isinstance(inner, ast.Delete) and names(inner) & self.read_after
            decline_if(is_deleting, "it deletes what is read after it")
            if isinstance(inner, ast.Name) and inner.id in _LOOKS_AT_LOCALS:
                raise DeclinedError(f"it calls `{inner.id}`, which reads the variables around it")
        bound = self.flow.assigned
        within = captured(self.parsed) & self.local_names & flow(self._tree.body).assigned
        for shared, reason in (
            (bound & self._foreign, "it binds `{}`, which is global or nonlocal"),
            (bound & captured(self._tree.body), "an inner function shares `{}` with it"),
            (within, "one of its inner functions shares `{}` with the code around it"),
            (self._stale(), "if it raises halfway, `{}` would have a different value afterwards"),
        ):
            decline_if(shared, reason.format(min(shared, default="")))

    def _stale(self) -> set[str]:
        """Names that something reads after the run raised, and that would lack what the run had assigned to them."""
        read: set[str] = set()
        later: set[str] = set()
        for node, suite in reversed(self._around):
            later |= self._read_below(node)
            read |= _read_when_raised(node, suite, later=later)
            later |= _read_next(node)
        if isinstance(self.parsed[-1], ast.Assign | ast.AnnAssign | ast.AugAssign):
            return read & flow(self.parsed[:-1]).assigned
        return read & self.flow.assigned

    @cached_property
    def returns(self) -> list[str]:
        """Names that it binds and that are read after it."""
        read = self.read_after & self.local_names
        found = sorted((self.flow.assigned & read), key=self._order)
        for name in found:
            decline_if(not self.flow.has(name) and name not in self.bound_before, f"`{name}` may be unset after it")
        return found if self.flow.ends else []

    @cached_property
    def _bound_elsewhere(self) -> set[str]:
        """Local variables that can have a value when the run begins, be it from an earlier turn of a loop."""
        if any(isinstance(node, cst.For | cst.While) for node, _ in self._around):
            return self.local_names
        kept = [*self.suite.body[: self.start], cst.Pass(), *self.suite.body[self.stop :]]
        if isinstance(self.suite, cst.IndentedBlock):
            kept[self.start] = cst.SimpleStatementLine([cst.Pass()])
        rest = self.function.deep_replace(self.suite, self.suite.with_changes(body=kept))
        tree = parsed([need(rest, cst.FunctionDef, "")])[0]
        assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)  # it was parsed from one
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
        """The file with the run in its own function, unless that could change what the program does."""
        self.check()
        owner = self._owner()
        parameters = [parameter for parameter in self.parameters if parameter != owner]
        function = _definition(name, [owner, *parameters] if owner else parameters, self.statements, self.returns)
        if owner is None and isinstance(self.source.parent(self.function), cst.Module):
            function = function.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * 2)
        called = cst.Attribute(cst.Name(owner), cst.Name(name)) if owner else cst.Name(name)
        has_return = any(isinstance(jump, ast.Return) for jump in jumps(self.parsed))
        call = _call(called, parameters, self.returns, is_last=not self.flow.ends and has_return)
        caller = self.function.deep_replace(self.suite, self._with(call))
        return self.source.changed((self.function, [need(caller, cst.FunctionDef, ""), function]))

    def moved_and(self, name: str, change: Callable[[SourceFile, cst.FunctionDef], cst.FunctionDef]) -> bytes:
        """The file with the run in its own function, and with a change of the function that it was in."""
        at = functions_in(self.source).index(self.function)
        moved = self.moved(name)
        # The new function comes after the one that calls it, which keeps its number.
        caller = functions_in(moved)[at]
        return moved.replaced((caller, change(moved, caller)))

    def _owner(self) -> str | None:
        """The name of a method's object, such as ``self``; None for a function."""
        suite = self.source.parent(self.function)
        if not isinstance(next(self.source.parents(suite), None), cst.ClassDef):
            decline_if(any(names(statement) & {"super", "__class__"} for statement in self.parsed), "it calls `super`")
            return None
        decorators = [self.source.code(decorator.decorator) for decorator in self.function.decorators]
        if any(decorator in ("staticmethod", "classmethod") for decorator in decorators):
            raise DeclinedError("a static or class method has no object whose methods it could call")
        parameters = [*self._tree.args.posonlyargs, *self._tree.args.args]
        decline_if(not parameters, "the method has no parameter for its object")
        owner = parameters[0].arg
        decline_if(owner in flow(self._tree.body).assigned, f"the method binds `{owner}` anew")
        return owner

    def _with(self, call: cst.SimpleStatementLine) -> cst.BaseSuite:
        first = self.statements[0]
        blank = _blank(getattr(first, "leading_lines", ()))
        body = [*self.suite.body[: self.start], call.with_changes(leading_lines=blank), *self.suite.body[self.stop :]]
        if isinstance(self.suite, cst.IndentedBlock):
            # Comments after its last line stay: they could be about any of the lines.
            return self.suite.with_changes(body=body)
        return cst.IndentedBlock(body)


def call_of(source: SourceFile, name: str) -> Statement:
    """The statement that calls a function that ``moved`` created."""
    call = next(call for call in calls_in(source.tree) if called(call) == name)
    return next(outer for outer in source.parents(call) if isinstance(outer, cst.SimpleStatementLine))


def functions_in(source: SourceFile) -> list[cst.FunctionDef]:
    """The functions of a file, in order."""
    return [node for node in walk(source.tree) if isinstance(node, cst.FunctionDef)]


def not_traced(function: cst.FunctionDef, decorator: str | None = None) -> cst.FunctionDef:
    """A function that Dynamo doesn't trace, while it compiles what the function calls."""
    added = cst.Decorator(cst.parse_expression(decorator or "torch.compiler.disable(recursive=False)"))
    return function.with_changes(decorators=[*function.decorators, added])


def _function_around(source: SourceFile, node: cst.CSTNode) -> cst.FunctionDef:
    return need(source.function_of(node), cst.FunctionDef, "the line isn't in a function")


def _before(
    suite: cst.BaseSuite, node: cst.CSTNode | None, start: int
) -> Sequence[cst.BaseStatement | cst.BaseSmallStatement]:
    return suite.body[: next((index for index, other in enumerate(suite.body) if other is node), start)]


def _entered(node: cst.CSTNode, suite: cst.BaseSuite) -> set[str]:
    match node:
        case cst.For() if suite is node.body:
            return _targets_of(node.target)
        case cst.With() if suite is node.body:
            return set().union(*(_targets_of(item.asname.name) for item in node.items if item.asname is not None))
        case cst.Try() | cst.TryStar():
            for handler in node.handlers:
                if handler.body is suite and handler.name is not None:
                    return _targets_of(handler.name.name)
            if node.orelse is not None and node.orelse.body is suite:
                return flow(parsed(node.body.body)).bound or set()
    return set()


def _targets_of(target: cst.BaseExpression) -> set[str]:
    return targets(parsed([cst.Assign([cst.AssignTarget(target)], cst.Name("_"))])[0])  # type: ignore[arg-type]


def _tree_of(node: cst.CSTNode) -> ast.stmt:
    assert isinstance(node, cst.BaseStatement)
    return parsed([node])[0]


def _read_next(node: cst.CSTNode) -> set[str]:
    match tree := _tree_of(node):
        case ast.For() | ast.AsyncFor() | ast.While():
            return flow([tree]).read_first
        case ast.Try() | ast.TryStar():
            later = [*(statement for handler in tree.handlers for statement in handler.body)]
            types = set().union(*(flow_of(handler.type).read_first for handler in tree.handlers))
            return types | set().union(*(flow([s]).read_first for s in [*later, *tree.orelse, *tree.finalbody]))
    return set()


def _read_when_raised(node: cst.CSTNode, suite: cst.BaseSuite, *, later: set[str]) -> set[str]:
    match node:
        case cst.With():
            tree = _tree_of(node)
            assert isinstance(tree, ast.With | ast.AsyncWith)
            return later if any(map(swallows, tree.items)) else set()
        case cst.Try() | cst.TryStar() if suite is node.body:
            tree = _tree_of(node)
            assert isinstance(tree, ast.Try | ast.TryStar)
            found = flow(tree.finalbody).read_first
            for handler in tree.handlers:
                caught = flow(handler.body)
                found |= caught.read_first | (later if caught.ends else set())
            return found
        case cst.Try() | cst.TryStar() if node.finalbody is not None and node.finalbody.body is not suite:
            return flow(parsed(node.finalbody.body.body)).read_first
    return set()


def _blank(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    return list(itertools.takewhile(lambda line: line.comment is None, lines))


def _definition(
    name: str, parameters: Sequence[str], statements: Sequence[cst.BaseStatement], returns: Sequence[str]
) -> cst.FunctionDef:
    first, *rest = statements
    leading: Sequence[cst.EmptyLine] = getattr(first, "leading_lines", ())
    above = [line.deep_clone() for line in leading[len(_blank(leading)) :]]
    ending = [cst.SimpleStatementLine([cst.Return(_names(returns))])] if returns else []
    return cst.FunctionDef(
        cst.Name(name),
        cst.Parameters([cst.Param(cst.Name(parameter)) for parameter in parameters]),
        cst.IndentedBlock([first.with_changes(leading_lines=above), *rest, *ending]),
        leading_lines=[cst.EmptyLine(indent=False)],
    )


def _call(
    called: cst.BaseExpression, arguments: Sequence[str], returns: Sequence[str], *, is_last: bool
) -> cst.SimpleStatementLine:
    call = cst.Call(called, [cst.Arg(cst.Name(argument)) for argument in arguments])
    if returns and not is_last:
        return assigned(_names(returns), call)
    return cst.SimpleStatementLine([cst.Return(call) if is_last else cst.Expr(call)])


def _names(listed: Sequence[str]) -> cst.BaseExpression:
    return joined([cst.Name(name) for name in listed])

"""Moves a run of statements into its own function or method, unless that could change what the
program does.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

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
from graphdoctor.fixes.source.nodes import after_lines, alone, called, calls_in, lines_of
from graphdoctor.fixes.source.tree import (
    DeclinedError,
    SourceFile,
    Statement,
    decline_if,
    dotted,
    known,
    need,
    parsed,
    walk,
)

_LOOKS_AT_LOCALS = {"locals", "vars", "dir", "eval", "exec"}
_Level = tuple[ast.AST, list[ast.stmt], list[ast.stmt], list[ast.stmt]]


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
        suite = need(
            source.parent(statement),
            cst.IndentedBlock,
            "the statement shares its line with other statements",
        )
        at = suite.body.index(statement)
        return cls(source, _function_around(source, suite), suite, at, at + 1)

    @cached_property
    def statements(self) -> list[cst.BaseStatement]:
        """The statements, each on its own line."""
        nodes = self.suite.body[self.start : self.stop]
        return [node if isinstance(node, cst.BaseStatement) else alone(node) for node in nodes]

    @cached_property
    def parsed(self) -> list[ast.stmt]:
        """The same in Python's own syntax tree of the function."""
        kinds = cst.BaseSmallStatement | cst.BaseCompoundStatement
        own = [node for node in walk(self.function.body) if isinstance(node, kinds)]
        same: dict[cst.CSTNode, ast.stmt] = dict(zip(own, _in_order(self._tree.body), strict=True))
        nodes = self.suite.body[self.start : self.stop]
        return [
            same[small]
            for node in nodes
            for small in (node.body if isinstance(node, cst.SimpleStatementLine) else [node])
        ]

    @cached_property
    def flow(self) -> Flow:
        """What it does with names."""
        return flow(self.parsed)

    @cached_property
    def _tree(self) -> ast.FunctionDef | ast.AsyncFunctionDef:
        return _tree_of(self.function)

    @cached_property
    def _around(self) -> list[_Level]:
        """What is around the run, innermost first: its body on the way there, and what is before
        and after in it.
        """
        parents = {
            child: node for node in ast.walk(self._tree) for child in ast.iter_child_nodes(node)
        }
        found: list[_Level] = []
        first: ast.AST = self.parsed[0]
        last: ast.AST = self.parsed[-1]
        while first is not self._tree:
            outer = parents[first]
            bodies = (value for _, value in ast.iter_fields(outer) if isinstance(value, list))
            body = next(value for value in bodies if first in value)
            if isinstance(first, ast.stmt):
                found.append((outer, body, body[: body.index(first)], body[body.index(last) + 1 :]))
            else:
                found.append((outer, body, [], []))
            first = last = outer
        return found

    @cached_property
    def local_names(self) -> set[str]:
        """All local variables of the function."""
        return (flow(self._tree.body).assigned | parameter_names(self._tree.args)) - self._foreign

    @cached_property
    def _foreign(self) -> set[str]:
        declared = [
            node for node in ast.walk(self._tree) if isinstance(node, ast.Global | ast.Nonlocal)
        ]
        return {name for node in declared for name in node.names}

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
            *[_read_next(outer) | flow(after).read_first for outer, _, _, after in self._around]
        )

    def check(self) -> None:
        """Decline if the run can't be moved."""
        for node in jumps(self.parsed):
            if isinstance(node, ast.Return):
                decline_if(self.flow.ends, "it returns from the function only in some cases")
            elif isinstance(node, ast.Break | ast.Continue):
                raise DeclinedError(
                    f"it has a `{type(node).__name__.lower()}` of the loop around it"
                )
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
        """Names that something reads after the run raised, and that would lack what the run had
        assigned to them.
        """
        read: set[str] = set()
        later: set[str] = set()
        for outer, body, _, after in reversed(self._around):
            read |= _read_when_raised(outer, body, later=later)
            later |= _read_next(outer) | flow(after).read_first
        if isinstance(self.parsed[-1], ast.Assign | ast.AnnAssign | ast.AugAssign):
            return read & flow(self.parsed[:-1]).assigned
        return read & self.flow.assigned

    @cached_property
    def returns(self) -> list[str]:
        """Names that it binds and that are read after it."""
        found = sorted(self.flow.assigned & self.read_after & self.local_names, key=self._order)
        for name in found:
            decline_if(
                not self.flow.has(name) and name not in self.bound_before,
                f"`{name}` may be unset after it",
            )
        return found if self.flow.ends else []

    @cached_property
    def _bound_elsewhere(self) -> set[str]:
        """Local variables that can have a value when the run begins, be it from an earlier turn of
        a loop.
        """
        if any(isinstance(outer, ast.For | ast.AsyncFor | ast.While) for outer, *_ in self._around):
            return self.local_names
        rest = self.function.deep_replace(self.suite, self._with(cst.parse_statement("pass")))
        tree = _tree_of(need(rest, cst.FunctionDef, ""))
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
        """The file with the run in its own function, unless that could change what the program
        does.
        """
        self.check()
        owner = self._owner()
        parameters = [parameter for parameter in self.parameters if parameter != owner]
        function = _definition(
            name, [owner, *parameters] if owner else parameters, self.statements, self.returns
        )
        if owner is None and isinstance(self.source.parent(self.function), cst.Module):
            function = function.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * 2)
        has_return = any(isinstance(jump, ast.Return) for jump in jumps(self.parsed))
        called = f"{owner}.{name}" if owner else name
        call = f"{called}({', '.join(parameters)})"
        if not self.flow.ends and has_return:
            call = f"return {call}"
        elif self.returns:
            call = f"{', '.join(self.returns)} = {call}"
        caller = self.function.deep_replace(self.suite, self._with(cst.parse_statement(call)))
        return self.source.changed((self.function, [need(caller, cst.FunctionDef, ""), function]))

    def moved_and(
        self, name: str, change: Callable[[SourceFile, cst.FunctionDef], cst.FunctionDef]
    ) -> bytes:
        """The file with the run in its own function, and with a change of the function that it was
        in.
        """
        at = functions_in(self.source).index(self.function)
        moved = self.moved(name)
        # The new function comes after the one that calls it, which keeps its number.
        caller = functions_in(moved)[at]
        return moved.replaced((caller, change(moved, caller)))

    def _owner(self) -> str | None:
        """The name of a method's object, such as ``self``; None for a function."""
        suite = self.source.parent(self.function)
        if not isinstance(next(self.source.parents(suite), None), cst.ClassDef):
            decline_if(
                any(names(statement) & {"super", "__class__"} for statement in self.parsed),
                "it calls `super`",
            )
            return None
        decorators = [
            self.source.code(decorator.decorator) for decorator in self.function.decorators
        ]
        if any(decorator in ("staticmethod", "classmethod") for decorator in decorators):
            raise DeclinedError(
                "a static or class method has no object whose methods it could call"
            )
        parameters = [*self._tree.args.posonlyargs, *self._tree.args.args]
        decline_if(not parameters, "the method has no parameter for its object")
        owner = parameters[0].arg
        decline_if(owner in flow(self._tree.body).assigned, f"the method binds `{owner}` anew")
        return owner

    def _with(self, call: cst.BaseStatement) -> cst.BaseSuite:
        blank = _blank(getattr(self.statements[0], "leading_lines", ()))
        body = [
            *self.suite.body[: self.start],
            call.with_changes(leading_lines=blank),
            *self.suite.body[self.stop :],
        ]
        if isinstance(self.suite, cst.IndentedBlock):
            # Comments after its last line stay: they could be about any of the lines.
            return self.suite.with_changes(body=body)
        return cst.IndentedBlock(body)


def call_of(source: SourceFile, name: str) -> Statement:
    """The statement that calls a function that ``moved`` created."""
    call = next(call for call in calls_in(source.tree) if called(call) == name)
    return next(
        outer for outer in source.parents(call) if isinstance(outer, cst.SimpleStatementLine)
    )


@lru_cache(maxsize=8)
def functions_in(source: SourceFile) -> list[cst.FunctionDef]:
    """The functions of a file, in order."""
    return [node for node in walk(source.tree) if isinstance(node, cst.FunctionDef)]


def with_lines(
    source: SourceFile, function: cst.FunctionDef, lines: Sequence[cst.BaseStatement]
) -> tuple[SourceFile, cst.FunctionDef]:
    """The file with other lines in a function, and the function in it."""
    changed = source.changed(
        (function, function.with_changes(body=function.body.with_changes(body=lines)))
    )
    return changed, functions_in(changed)[functions_in(source).index(function)]


def not_traced(function: cst.FunctionDef, decorator: str | None = None) -> cst.FunctionDef:
    """A function that Dynamo doesn't trace, while it compiles what the function calls."""
    added = cst.Decorator(
        cst.parse_expression(decorator or "torch.compiler.disable(recursive=False)")
    )
    return function.with_changes(decorators=[*function.decorators, added])


def shell(function: cst.FunctionDef, *, is_method: bool) -> cst.FunctionDef:
    """The function that torch.compile is given as one that isn't traced: it calls what is compiled.

    ``torch.compile`` looks through ``torch.compiler.disable`` on a function that isn't a method and
    compiles what is in it (``innermost_fn`` in ``torch/_dynamo/eval_frame.py``, 2.11 to 2.15), and
    breaks in any other wrapper that the function could get. No public name does what ``skip`` does
    there.
    """
    return not_traced(function, None if is_method else "torch._dynamo.decorators.skip")


_NOT_TRACED = ("disable(recursive=False)", "decorators.skip")


def is_not_traced(source: SourceFile, function: cst.CSTNode | None) -> bool:
    """Whether a function is one that Dynamo doesn't trace, such as ``shell`` makes."""
    decorators = function.decorators if isinstance(function, cst.FunctionDef) else ()
    code = " ".join(source.code(one.decorator) for one in decorators)
    return any(marker in code for marker in _NOT_TRACED)


def splits(before: bytes, after: bytes) -> bool:
    """Whether an edit makes a function one that Dynamo doesn't trace."""
    return any(
        after.count(marker) > before.count(marker)
        for marker in [marker.encode() for marker in _NOT_TRACED]
    )


def call_of_part(source: SourceFile, function: cst.FunctionDef) -> cst.SimpleStatementLine | None:
    """The line that calls a function from one that isn't traced; None if it's no such part."""
    found = [call for call in calls_in(source.tree) if called(call) == function.name.value]
    for call in found:
        if not is_not_traced(source, source.function_of(call)):
            continue
        decline_if(len(found) != 1, "several lines call the compiled part")
        around = next(
            (one for one in source.parents(call) if isinstance(one, cst.BaseStatement)), None
        )
        line = need(around, cst.SimpleStatementLine, "the call isn't on a line")
        names = [dotted(argument.value) for argument in call.args]
        params = [param.name.value for param in function.params.params]
        decline_if(
            names != params[len(params) - len(names) :],
            "the compiled part gets other values than its names say",
        )
        return line
    return None


def returns_only(line: cst.SimpleStatementLine, part: cst.FunctionDef) -> bool:
    """Whether a line returns what a part of its function gives, as it is."""
    match line.body:
        case [cst.Return(value=cst.Call() as call)]:
            return called(call) == part.name.value
    return False


def leaves(line: cst.CSTNode) -> bool:
    """Whether a line leaves a loop, a turn of it, or its function, other than by an exception."""
    return isinstance(line, cst.BaseStatement) and any(True for _ in jumps(parsed([line])))


def without_part(source: SourceFile, part: str) -> bytes:
    """The file with a part of a function back in the one that calls it, which isn't traced and only
    returns it.
    """
    function = next(found for found in functions_in(source) if found.name.value == part)
    line = call_of_part(source, function)
    assert line is not None  # it is such a part
    first, *rest = lines_of(function.body)
    return source.replaced((line, [after_lines(first, line.leading_lines), *rest]), (function, []))


def owner_of(source: SourceFile, function: cst.FunctionDef) -> str | None:
    """The name of a method's object; None for a function of the module. Declines if it can't be
    such a shell.
    """
    decorators = [one.decorator for one in function.decorators]
    is_plain = all(
        source.is_without_grad(one) or source.dotted_name(one) == "torch.enable_grad"
        for one in decorators
    )
    decline_if(not is_plain, "the function has a decorator")
    decline_if(function.asynchronous is not None, "the function is asynchronous")
    owner = None
    if not isinstance(source.parent(function), cst.Module):
        is_method = isinstance(next(source.parents(source.parent(function)), None), cst.ClassDef)
        params = [*function.params.posonly_params, *function.params.params]
        decline_if(not is_method or not params, "it isn't in a method or a function of the module")
        owner = params[0].name.value
    # After a break, Dynamo begins with a function that the compiled one calls as if it had been
    # given that.
    name = function.name.value if owner is None else f"{owner}.{function.name.value}"
    callers = [
        source.function_of(call) for call in calls_in(source.tree) if dotted(call.func) == name
    ]
    is_called = any(
        one not in (None, function) and not is_not_traced(source, one) for one in callers
    )
    decline_if(
        is_called, f"`{function.name.value}` is called by another function, which would break there"
    )
    return owner


def operations_in(lines: Iterable[cst.CSTNode]) -> int:
    """The most tensor operations that lines can do by themselves."""
    kinds = cst.Call | cst.BinaryOperation | cst.Comparison | cst.UnaryOperation | cst.Subscript
    return sum(isinstance(node, kinds) for line in lines for node in walk(line))


def computes(line: cst.CSTNode) -> bool:
    """Whether a line does more than pass values on."""
    return any(isinstance(node, cst.Call | cst.BinaryOperation) for node in walk(line))


def _function_around(source: SourceFile, node: cst.CSTNode) -> cst.FunctionDef:
    return need(source.function_of(node), cst.FunctionDef, "the line isn't in a function")


def _tree_of(function: cst.FunctionDef) -> ast.FunctionDef | ast.AsyncFunctionDef:
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
            return set().union(
                *(targets(item.optional_vars) for item in node.items if item.optional_vars)
            )
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
            later = [*(statement for handler in node.handlers for statement in handler.body)]
            types = set().union(*(flow_of(handler.type).read_first for handler in node.handlers))
            return types | set().union(
                *(flow([s]).read_first for s in [*later, *node.orelse, *node.finalbody])
            )
    return set()


def _read_when_raised(node: ast.AST, body: list[ast.stmt], *, later: set[str]) -> set[str]:
    match node:
        case ast.With() | ast.AsyncWith() if any(map(swallows, node.items)):
            return later
        case ast.Try() | ast.TryStar() if body is node.body:
            found = flow(node.finalbody).read_first
            for handler in node.handlers:
                caught = flow(handler.body)
                found |= caught.read_first | (later if caught.ends else set())
            return found
        case ast.Try() | ast.TryStar() if body is not node.finalbody:
            return flow(node.finalbody).read_first
    return set()


def _blank(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    return list(itertools.takewhile(lambda line: line.comment is None, lines))


def _definition(
    name: str,
    parameters: Sequence[str],
    statements: Sequence[cst.BaseStatement],
    returns: Sequence[str],
) -> cst.FunctionDef:
    first, *rest = statements
    leading: Sequence[cst.EmptyLine] = getattr(first, "leading_lines", ())
    above = [line.deep_clone() for line in leading[len(_blank(leading)) :]]
    ending = [cst.parse_statement(f"return {', '.join(returns)}")] if returns else []
    function = need(
        cst.parse_statement(f"def {name}({', '.join(parameters)}): pass"), cst.FunctionDef, ""
    )
    body = cst.IndentedBlock([first.with_changes(leading_lines=above), *rest, *ending])
    return function.with_changes(body=body, leading_lines=[cst.EmptyLine(indent=False)])

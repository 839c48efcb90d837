"""Which parts of a function certainly run while torch traces it, and which names statements read
and bind in order.

A loop's body counts as run. If the order of reads and bindings is uncertain, a name counts as read,
and as possibly unbound.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from graphdoctor.fixes.source.program import Program, Scope

_TRUE_WHILE_TRACING = (
    "torch.compiler.is_compiling",
    "torch.compiler.is_dynamo_compiling",
    "torch._dynamo.is_compiling",
    "torch._dynamo.external_utils.is_compiling",
    "torch._utils.is_compiling",
)
_FALSE_WHILE_TRACING = (
    "torch.jit.is_scripting",
    "torch.jit.is_tracing",
    "torch.compiler.is_exporting",
    "typing.TYPE_CHECKING",
    "typing_extensions.TYPE_CHECKING",
)
_COMPILING_ENDS = ("is_torchdynamo_compiling", "is_dynamo_compiling", "is_compiling")
"""Names of libraries' own checks, such as those in diffusers and transformers."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class Surrounding:
    """The code around a node within its function."""

    statement: ast.stmt
    around: tuple[ast.stmt, ...] = ()
    is_test: bool = False


_Certain = Iterator[tuple[ast.AST, Surrounding]]


def certain_nodes(scope: Scope, program: Program) -> _Certain:
    """The statements and expressions that certainly run when a function is called, as Python gets
    to them.

    An expression comes after its parts, a statement after its expressions and before the statements
    in it.
    """
    walk = _Walk(scope, program)
    if isinstance(scope.node, ast.Lambda):
        statement = ast.copy_location(ast.Expr(scope.node.body), scope.node)
        yield from walk.expression(scope.node.body, Surrounding(statement))
    elif not isinstance(scope.node, ast.Module):
        yield from walk.block(scope.node.body, ())


@dataclass(frozen=True)
class _Walk:
    scope: Scope
    program: Program

    def block(self, body: list[ast.stmt], around: tuple[ast.stmt, ...]) -> _Certain:
        for statement in body:
            yield from self._statement(statement, around)
            if self._ends(statement):
                return

    def _statement(self, node: ast.stmt, around: tuple[ast.stmt, ...]) -> _Certain:
        place = Surrounding(node, around)
        if not isinstance(node, _SCOPES):
            read_at = replace(place, is_test=isinstance(node, ast.If | ast.While | ast.Assert))
            for head in _heads(node):
                yield from self.expression(head, read_at)
        yield node, place
        match node:
            case ast.If(test=test, body=body, orelse=orelse):
                truth = self._truth(test)
                if truth is not None:
                    yield from self.block(body if truth else orelse, around)
            case ast.While(test=test) if self._truth(test) is False:
                return
            case ast.For() | ast.AsyncFor() | ast.While() | ast.With() | ast.AsyncWith():
                yield from self.block(node.body, (node, *around))
            case ast.Try() | ast.TryStar():
                yield from self.block(node.body, (node, *around))
                yield from self.block(node.finalbody, (node, *around))

    def _ends(self, node: ast.stmt) -> bool:
        if isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
            return True
        if isinstance(node, ast.If):
            truth = self._truth(node.test)
            if truth is not None:
                return any(
                    self._ends(statement) for statement in (node.body if truth else node.orelse)
                )
        # An exception raised under a condition is a check: the program usually goes on.
        return _leaves(node, in_loop=False)

    def expression(self, node: ast.expr, place: Surrounding) -> _Certain:
        match node:
            case ast.BoolOp(values=[first, *_]):
                parts = [first]
            case ast.IfExp(test=test, body=body, orelse=orelse):
                truth = self._truth(test)
                parts = [test] if truth is None else [test, body if truth else orelse]
            case ast.Lambda() | ast.GeneratorExp():
                parts = [node.generators[0].iter] if isinstance(node, ast.GeneratorExp) else []
            case ast.ListComp() | ast.SetComp() | ast.DictComp():
                parts = [node.generators[0].iter]
                if len(node.generators) == 1 and not node.generators[0].ifs:
                    parts += (
                        [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
                    )
            case ast.Compare(left=left, comparators=[first, *_]):
                parts = [left, first]
            case ast.Call(func=func, args=args, keywords=keywords):
                parts = [func, *args, *(keyword.value for keyword in keywords)]
            case _:
                parts = _heads(node)
        keeps = isinstance(node, ast.BoolOp) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        )
        for part in parts:
            is_test = (place.is_test and keeps) or (
                isinstance(node, ast.IfExp) and part is node.test
            )
            yield from self.expression(part, replace(place, is_test=is_test))
        yield node, place

    def _truth(self, test: ast.expr) -> bool | None:
        """A condition's value while torch traces; None if it's unknown."""
        match test:
            case ast.Constant(value=value):
                return bool(value)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._truth(operand)
                return None if inner is None else not inner
            case ast.BoolOp(op=op, values=values):
                truths = [self._truth(value) for value in values]
                decisive = isinstance(op, ast.Or)
                if decisive in truths:
                    return decisive
                return (not decisive) if all(value is not None for value in truths) else None
            case ast.Call(func=func):
                dotted = self.program.dotted(func, self.scope) or ""
                name = (
                    func.attr
                    if isinstance(func, ast.Attribute)
                    else func.id
                    if isinstance(func, ast.Name)
                    else ""
                )
                if dotted in _TRUE_WHILE_TRACING or name in _COMPILING_ENDS:
                    return True
                return False if dotted in _FALSE_WHILE_TRACING else None
            case ast.Name() | ast.Attribute():
                return (
                    False if self.program.dotted(test, self.scope) in _FALSE_WHILE_TRACING else None
                )
        return None


def _heads(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.For() | ast.AsyncFor():
            return [node.iter]
        case ast.With() | ast.AsyncWith():
            return [item.context_expr for item in node.items]
        case ast.Assert():
            return [node.test]
        case ast.Assign():
            return [node.value, *node.targets]
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def _leaves(node: ast.AST, *, in_loop: bool) -> bool:
    if isinstance(node, ast.Return) or (
        isinstance(node, (ast.Break, ast.Continue)) and not in_loop
    ):
        return True
    if isinstance(node, (*_SCOPES, ast.expr)):
        return False
    deeper = in_loop or isinstance(node, (ast.For, ast.AsyncFor, ast.While))
    return any(_leaves(child, in_loop=deeper) for child in ast.iter_child_nodes(node))


_SWALLOWS = re.compile(r"suppress|raises", re.IGNORECASE)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass
class Flow:
    """The names that a run of statements reads and sets.

    Args:
        read_first: Names that may be read before the run binds them.
        bound: Names that are always bound when the run ends normally; None if it never does.
    """

    read_first: set[str] = field(default_factory=set)
    bound: set[str] | None = field(default_factory=set)

    @property
    def ends(self) -> bool:
        """Check whether the run can end normally."""
        return self.bound is not None

    def has(self, name: str) -> bool:
        """Check whether a name is bound after the run."""
        return self.bound is None or name in self.bound

    def then(self, other: Flow) -> Flow:
        """This run followed by the other."""
        if self.bound is None:
            return self
        read = self.read_first | (other.read_first - self.bound)
        return Flow(read, None if other.bound is None else self.bound | other.bound)

    def either(self, other: Flow) -> Flow:
        """This run or the other."""
        ends = [run.bound for run in (self, other) if run.bound is not None]
        bound = set.intersection(*ends) if ends else None
        return Flow(self.read_first | other.read_first, bound)

    def perhaps(self) -> Flow:
        """This run or nothing."""
        return self.either(Flow())


def flow(statements: Sequence[ast.stmt]) -> Flow:
    """Return the names that a run of statements reads and sets."""
    whole = Flow()
    for statement in statements:
        whole = whole.then(_statement(statement))
    return whole


def _names(node: ast.AST) -> set[str]:
    """Return every name in a node, read or bound."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _targets(node: ast.AST) -> set[str]:
    """Return the names that an assignment's target, an import or a pattern binds."""
    target_names = set()
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name, ctx=ast.Store()):
                target_names.add(name)
            case ast.alias():
                target_names.add((inner.asname or inner.name).partition(".")[0])
            case (
                ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                target_names.add(name)
    return target_names


def _reads(node: ast.AST, hidden: frozenset[str] = frozenset()) -> set[str]:
    """Return the names that a node reads, other than its own; all of it may be left out."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            return {name} - hidden
        case ast.NamedExpr(value=value):
            return _reads(value, hidden)
        case ast.Lambda(args=args):
            hidden |= {inner.arg for inner in ast.walk(args) if isinstance(inner, ast.arg)}
        case _ if isinstance(node, _COMPREHENSIONS):
            hidden = hidden.union(*(_targets(generator.target) for generator in node.generators))
    return set().union(*(_reads(child, hidden) for child in ast.iter_child_nodes(node)))


def _reading(node: ast.AST | None) -> Flow:
    """Run an expression: what a ``:=`` in it binds may stay unbound."""
    return Flow(_reads(node)) if node is not None else Flow()


def _binding(node: ast.AST | None) -> Flow:
    """Set a target: ``a, b[i]`` binds ``a`` and reads ``b`` and ``i``."""
    return Flow(_reads(node), _targets(node)) if node is not None else Flow()


def _statement(node: ast.stmt) -> Flow:
    match node:
        case ast.Assign(targets=targets, value=value):
            whole = _reading(value)
            for target in targets:
                whole = whole.then(_binding(target))
            return whole
        case ast.AugAssign(target=target, value=value):
            return Flow(_targets(target)).then(_reading(value)).then(_binding(target))
        case ast.AnnAssign(target=target, value=value):
            return _reading(value).then(_binding(target)) if value is not None else Flow()
        case ast.Import() | ast.ImportFrom():
            return _binding(node)
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return Flow(_reads(node), None)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return Flow(_names(node), {node.name})
        case ast.If():
            return _reading(node.test).then(flow(node.body).either(flow(node.orelse)))
        case ast.For() | ast.AsyncFor():
            body = _binding(node.target).then(_turn(node.body))
            return _reading(node.iter).then(body.perhaps()).then(flow(node.orelse).perhaps())
        case ast.While(test=test):
            body = _reading(test).then(_turn(node.body).perhaps())
            inner = (part for line in node.body for part in ast.walk(line))
            is_forever = isinstance(test, ast.Constant) and bool(test.value)
            if is_forever and not any(isinstance(part, ast.Break) for part in inner):
                return Flow(body.read_first, None)
            return body.then(flow(node.orelse).perhaps())
        case ast.With() | ast.AsyncWith():
            whole = Flow()
            for item in node.items:
                whole = whole.then(_reading(item.context_expr)).then(_binding(item.optional_vars))
            # Guessed from its name, as it may suppress exceptions.
            is_caught = any(_SWALLOWS.search(ast.unparse(item.context_expr)) for item in node.items)
            body = flow(node.body)
            return whole.then(body.perhaps() if is_caught else body)
        case ast.Try() | ast.TryStar():
            return _try(node)
        case ast.Match():
            cases = Flow()
            for case in node.cases:
                begun = _binding(case.pattern).then(_reading(case.guard))
                cases = cases.either(begun.then(flow(case.body)))
            return _reading(node.subject).then(cases)
    return _reading(node)


def _turn(body: Sequence[ast.stmt]) -> Flow:
    return Flow(flow(body).read_first)


def _try(node: ast.Try | ast.TryStar) -> Flow:
    ended = flow([*node.body, *node.orelse])
    for handler in node.handlers:
        caught, own = flow(handler.body), {handler.name or ""}
        handled = _reading(handler.type).then(Flow(caught.read_first - own, caught.bound))
        if handled.bound is not None:
            handled.bound -= own
        ended = ended.either(handled)
    last = flow(node.finalbody)
    # What the last part reads may be unbound: it also runs if the body raised.
    whole = ended.then(last)
    return Flow(whole.read_first | last.read_first, whole.bound)

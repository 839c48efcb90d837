"""Which parts of a function certainly run while torch traces it.

Leaves out code under a condition, in an exception handler, after a conditional ``return``, in the second operand of an
``and``, and code that ``torch.compiler.is_compiling()`` excludes. A loop's body counts as run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from graphdoctor.fixes.lint.program import Program, Scope

Around = Literal["for", "while", "try", "with"]

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
class Place:
    """What surrounds a node within its function.

    Args:
        statement: The innermost statement.
        around: The enclosing compound statements, innermost first.
        is_test: Whether the node decides a branch.
    """

    statement: ast.stmt
    around: tuple[ast.stmt, ...] = ()
    is_test: bool = False


def certain_nodes(scope: Scope, program: Program) -> Iterator[tuple[ast.AST, Place]]:
    """The statements and expressions that certainly run when a function is called, as Python gets to them.

    An expression comes after its parts, a statement after its expressions and before the statements in it.
    """
    if isinstance(scope.node, ast.Lambda):
        statement = ast.copy_location(ast.Expr(scope.node.body), scope.node)
        yield from _expressions(scope.node.body, Place(statement), scope, program)
    elif not isinstance(scope.node, ast.Module):
        yield from _Walk(scope, program).block(scope.node.body, ())


def truth(test: ast.expr, scope: Scope, program: Program) -> bool | None:
    """A condition's value while torch traces; None if it's unknown."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = truth(operand, scope, program)
            return None if inner is None else not inner
        case ast.BoolOp(op=op, values=values):
            known = [truth(value, scope, program) for value in values]
            decisive = isinstance(op, ast.Or)
            if decisive in known:
                return decisive
            return (not decisive) if all(value is not None for value in known) else None
        case ast.Call(func=func):
            dotted = program.dotted(func, scope) or ""
            name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
            if dotted in _TRUE_WHILE_TRACING or name in _COMPILING_ENDS:
                return True
            return False if dotted in _FALSE_WHILE_TRACING else None
        case ast.Name() | ast.Attribute():
            return False if program.dotted(test, scope) in _FALSE_WHILE_TRACING else None
        case _:
            return None


class _Walk:
    """Walks a function's statements."""

    def __init__(self, scope: Scope, program: Program) -> None:
        self._scope = scope
        self._program = program

    def block(self, body: list[ast.stmt], around: tuple[ast.stmt, ...]) -> Iterator[tuple[ast.AST, Place]]:
        for statement in body:
            yield from self._statement(statement, around)
            if self._ends(statement):
                return

    def _statement(self, node: ast.stmt, around: tuple[ast.stmt, ...]) -> Iterator[tuple[ast.AST, Place]]:
        place = Place(node, around)
        inside = (node, *around)
        if isinstance(node, _SCOPES):
            yield node, place
            return
        match node:
            case ast.If(test=test, body=body, orelse=orelse):
                yield from self._read(test, replace(place, is_test=True))
                yield node, place
                known = truth(test, self._scope, self._program)
                if known is not None:
                    yield from self.block(body if known else orelse, around)
            case ast.For(iter=iterated, body=body) | ast.AsyncFor(iter=iterated, body=body):
                yield from self._read(iterated, place)
                yield node, place
                yield from self.block(body, inside)
            case ast.While(test=test, body=body):
                yield from self._read(test, replace(place, is_test=True))
                yield node, place
                if truth(test, self._scope, self._program) is not False:
                    yield from self.block(body, inside)
            case ast.Try(body=body, finalbody=finalbody) | ast.TryStar(body=body, finalbody=finalbody):
                yield node, place
                yield from self.block(body, inside)
                yield from self.block(finalbody, inside)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    yield from self._read(item.context_expr, place)
                yield node, place
                yield from self.block(body, inside)
            case ast.Match(subject=subject):
                yield from self._read(subject, place)
                yield node, place
            case ast.Assert(test=test):
                yield from self._read(test, replace(place, is_test=True))
                yield node, place
            case ast.Assign(targets=targets, value=value):
                for part in (value, *targets):
                    yield from self._read(part, place)
                yield node, place
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        yield from self._read(child, place)
                yield node, place

    def _read(self, node: ast.expr, place: Place) -> Iterator[tuple[ast.AST, Place]]:
        yield from _expressions(node, place, self._scope, self._program)

    def _ends(self, node: ast.stmt) -> bool:
        """Whether the rest of the block may not run."""
        if isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
            return True
        if isinstance(node, ast.If):
            known = truth(node.test, self._scope, self._program)
            if known is not None:
                return any(self._ends(one) for one in (node.body if known else node.orelse))
        # An exception raised under a condition is a check: the program usually goes on.
        return _leaves(node, in_loop=False)


def _leaves(node: ast.AST, *, in_loop: bool) -> bool:
    """Whether a node contains a ``return``, or a ``break`` or ``continue`` of an enclosing loop."""
    if isinstance(node, ast.Return) or (isinstance(node, (ast.Break, ast.Continue)) and not in_loop):
        return True
    if isinstance(node, (*_SCOPES, ast.expr)):
        return False
    deeper = in_loop or isinstance(node, (ast.For, ast.AsyncFor, ast.While))
    return any(_leaves(child, in_loop=deeper) for child in ast.iter_child_nodes(node))


def _expressions(node: ast.expr, place: Place, scope: Scope, program: Program) -> Iterator[tuple[ast.AST, Place]]:
    """The parts of an expression that are certainly evaluated, and the expression."""
    match node:
        case ast.BoolOp(values=[first, *_]):
            parts = [first]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            known = truth(test, scope, program)
            parts = [test] if known is None else [test, body if known else orelse]
        case ast.Lambda() | ast.GeneratorExp():
            parts = [node.generators[0].iter] if isinstance(node, ast.GeneratorExp) else []
        case ast.ListComp() | ast.SetComp() | ast.DictComp():
            parts = [node.generators[0].iter]
            if len(node.generators) == 1 and not node.generators[0].ifs:
                parts += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        case ast.Compare(left=left, comparators=[first, *_]):
            parts = [left, first]
        case ast.Call(func=func, args=args, keywords=keywords):
            parts = [func, *args, *(keyword.value for keyword in keywords)]
        case _:
            parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    keeps = isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
    for part in parts:
        is_test = (place.is_test and keeps) or (isinstance(node, ast.IfExp) and part is node.test)
        yield from _expressions(part, replace(place, is_test=is_test), scope, program)
    yield node, place

"""Which parts of a function certainly run while torch traces it; a loop's body counts as run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

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

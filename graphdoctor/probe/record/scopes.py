"""Which names can certainly be read just before a statement: the path to it in a module's tree in, names out.

Standard library only. Whoever writes code for a place needs them; a name isn't listed if the order is uncertain.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BUILTINS = frozenset(dir(builtins))

_Bound = set[str] | None
"""Names that are bound; None where the code is never reached."""


def readable_names(path: Sequence[ast.AST], statement: ast.stmt) -> tuple[str, ...]:
    """The names in a statement, built-in ones aside, that certainly have a value just before it, in order."""
    scope = _Scope(path, statement)
    found = (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
    return tuple(dict.fromkeys(name for name in found if name not in _BUILTINS and scope.has(name)))


def torch_name(path: Sequence[ast.AST], statement: ast.stmt) -> str | None:
    """What the torch package is called just before a statement: ``torch``, an alias, or None where it can't be read."""
    scope = _Scope(path, statement)
    names = dict.fromkeys(
        alias.asname or "torch"
        for node in path
        if isinstance(node, (ast.Module, *_FUNCTIONS))
        for inner in _own(node)
        if isinstance(inner, ast.Import)
        for alias in inner.names
        if alias.name == "torch" or (alias.asname is None and alias.name.startswith("torch."))
    )
    return next((name for name in names if scope.has(name) and not scope.is_rebound(name)), None)


class _Scope:
    """The scopes around a statement."""

    def __init__(self, path: Sequence[ast.AST], statement: ast.stmt) -> None:
        self._around = [node for node in path if isinstance(node, (ast.Module, *_FUNCTIONS))]
        inner = self._around[-1]
        self._locals: set[str] = set()
        self._before: set[str] = set()
        if isinstance(inner, ast.Module):
            self._locals = _bindings(inner)
            self._before = _before(inner.body, statement, set()) or set()
        else:
            parameters = _parameters(inner.args)
            self._locals = _bindings(inner) | parameters
            body = [] if isinstance(inner, ast.Lambda) else inner.body
            self._before = _before(body, statement, parameters) or set()

    def has(self, name: str) -> bool:
        """Whether a name can be read just before the statement."""
        if name in self._locals:
            return name in self._before
        return any(name in _visible(scope) for scope in self._around[:-1])

    def is_rebound(self, name: str) -> bool:
        """Whether something other than an import binds the name in the scope that it is read from."""
        for scope in reversed(self._around):
            if name in _visible(scope):
                return name in _bindings(scope, imports=False)
        return False


def _visible(scope: ast.AST) -> set[str]:
    own = _parameters(scope.args) if isinstance(scope, _FUNCTIONS) else set()
    return own | _bindings(scope)


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, (ast.ClassDef, *_FUNCTIONS, *_COMPREHENSIONS)):
            yield from _own(child)


def _bindings(scope: ast.AST, *, imports: bool = True) -> set[str]:
    """Names that a scope binds anywhere, but those that it declares as another scope's."""
    found: set[str] = set()
    others: set[str] = set()
    for node in _own(scope):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            others |= set(node.names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= _targets(node) if imports else set()
        else:
            found |= _targets(node)
    if isinstance(scope, _FUNCTIONS) and not imports:
        found |= _parameters(scope.args)
    return found - others


def _targets(node: ast.AST) -> set[str]:
    """The names that one node itself binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return {name}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {(alias.asname or alias.name).partition(".")[0] for alias in aliases}
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return {name}
        case ast.MatchMapping(rest=str(name)):
            return {name}
    return set()


def _all_targets(nodes: Iterable[ast.AST | None]) -> set[str]:
    return {name for node in nodes if node is not None for inner in ast.walk(node) for name in _targets(inner)}


def _parameters(arguments: ast.arguments) -> set[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return {parameter.arg for parameter in every if parameter is not None}


def _before(body: Sequence[ast.stmt], wanted: ast.stmt, bound: set[str]) -> set[str] | None:
    """The names bound where a statement starts; None if it isn't in this body."""
    for one in body:
        if one is wanted:
            return bound
        for inner, at in _inside(one, bound):
            found = _before(inner, wanted, at)
            if found is not None:
                return found
        after = _after(one, bound)
        bound = set() if after is None else after
    return None


def _inside(one: ast.stmt, bound: set[str]) -> Iterator[tuple[Sequence[ast.stmt], set[str]]]:
    """The bodies of a compound statement, each with the names bound where it starts."""
    removed = {name for node in ast.walk(one) if isinstance(node, ast.Delete) for name in _all_targets(node.targets)}
    match one:
        case ast.If():
            yield one.body, bound
            yield one.orelse, bound
        case ast.For() | ast.AsyncFor():
            yield one.body, (bound - removed) | _all_targets([one.target])
            yield one.orelse, bound - removed
        case ast.While():
            yield one.body, bound - removed
            yield one.orelse, bound - removed
        case ast.With() | ast.AsyncWith():
            yield one.body, bound | _all_targets(item.optional_vars for item in one.items)
        case ast.Try() | ast.TryStar():
            yield one.body, bound
            for handler in one.handlers:
                yield handler.body, (bound - removed) | ({handler.name} if handler.name else set())
            yield one.orelse, _run(one.body, bound) or set()
            yield one.finalbody, bound - removed
        case ast.Match():
            for case in one.cases:
                yield case.body, bound | _all_targets([case.pattern])


def _run(body: Sequence[ast.stmt], bound: _Bound) -> _Bound:
    """The names bound after a body."""
    for one in body:
        if bound is None:
            return None
        bound = _after(one, bound)
    return bound


def _after(one: ast.stmt, bound: set[str]) -> _Bound:
    """The names bound after a statement."""
    match one:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return None
        case ast.Delete():
            return bound - _all_targets(one.targets)
        case ast.If():
            return _either(_run(one.body, bound), _run(one.orelse, bound))
        case ast.For() | ast.AsyncFor() | ast.While() | ast.Match():
            # The body may not run at all, and may remove names.
            removed = [node for node in ast.walk(one) if isinstance(node, ast.Delete)]
            return bound - _all_targets(target for node in removed for target in node.targets)
        case ast.With() | ast.AsyncWith():
            inside = bound | _all_targets(item.optional_vars for item in one.items)
            # A manager such as `suppress` may end the body early.
            is_plain = all("suppress" not in ast.unparse(item.context_expr) for item in one.items)
            return _run(one.body, inside) if is_plain else inside
        case ast.Try() | ast.TryStar():
            whole = _run(one.orelse, _run(one.body, bound))
            for handler in one.handlers:
                whole = _either(whole, _run(handler.body, bound))
            return whole if whole is None else _run(one.finalbody, whole)
        case ast.AnnAssign(value=None):
            return bound
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            return bound | _all_targets(targets)
    return bound | _targets(one)


def _either(one: _Bound, other: _Bound) -> _Bound:
    if one is None or other is None:
        return other if one is None else one
    return one & other

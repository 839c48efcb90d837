"""Reads what surrounds a line of Python source: qualified name, statements around it, names that
have a value.

A file that can't be read or parsed yields None. Only names that certainly have a value just before
the statement are listed.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from ...facts.recording import Enclosing, EnclosingKind, SourceContext

_MAX_STATEMENT_LINES = 12
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (ast.Module, *_FUNCTIONS)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_KINDS: dict[type[ast.AST], EnclosingKind] = {
    **dict.fromkeys((ast.For, ast.AsyncFor), "for"),
    ast.While: "while",
    **dict.fromkeys((ast.Try, ast.TryStar), "try"),
    **dict.fromkeys((ast.With, ast.AsyncWith), "with"),
    ast.If: "if",
    **dict.fromkeys(_COMPREHENSIONS, "comprehension"),
}
_CODE_NAMES: dict[str | None, type[ast.AST]] = {
    "<lambda>": ast.Lambda,
    "<listcomp>": ast.ListComp,
    "<setcomp>": ast.SetComp,
    "<dictcomp>": ast.DictComp,
    "<genexpr>": ast.GeneratorExp,
}
"""Code objects without a name of their own; Python 3.12 made the comprehensions part of their
function."""

_BUILTINS = frozenset(dir(builtins))


class SourceReader:
    """Parses each file once, and reads each place once: a program that goes on recompiling asks for
    the same ones.
    """

    def __init__(self) -> None:
        self._tree = cache(parsed)
        self.context = cache(self._context)

    def _context(self, file: str, line: int, code_name: str | None = None) -> SourceContext | None:
        """What surrounds a line; None when the source can't be read.

        ``file``: path, or a name that ``linecache`` knows, such as a notebook cell. ``code_name``
        of the code object that the line ran in says which of its lambdas and comprehensions is
        meant.
        """
        tree = self._tree(file)
        if not tree.body or line < 1:
            return None
        path = _path_to(tree, line, _CODE_NAMES.get(code_name))
        function_at = max(
            (i for i, node in enumerate(path) if isinstance(node, _FUNCTIONS)), default=0
        )
        inner = path[function_at + 1 :]
        statement = next((node for node in reversed(inner) if isinstance(node, ast.stmt)), None)
        lines = linecache.getlines(file)
        if statement is None:
            text = lines[line - 1].strip() if line <= len(lines) else ""
        else:
            last = min(statement.end_lineno or line, statement.lineno + _MAX_STATEMENT_LINES - 1)
            text = textwrap.dedent("".join(lines[statement.lineno - 1 : last])).rstrip()
        names = [
            getattr(node, "name", "<lambda>")
            for node in path
            if isinstance(node, (ast.ClassDef, *_FUNCTIONS))
        ]
        scope = None if statement is None else _Scope(path, statement)
        return SourceContext(
            file=file,
            line=line,
            qualname=".".join(names) or "<module>",
            function_line=getattr(path[function_at], "lineno", None),
            statement=text,
            statement_line=statement.lineno if statement else None,
            statement_end_line=statement.end_lineno if statement else None,
            readable=tuple(scope.readable_names()) if scope else (),
            torch=scope.torch_name() if scope else None,
            enclosing=tuple(
                Enclosing(kind=kind, line=node.lineno, text=lines[node.lineno - 1].strip())  # type: ignore[attr-defined]
                for node in reversed(inner)
                if (kind := _KINDS.get(type(node)))
            ),
        )

    def boolean_operation(self, file: str, line: int, column: int) -> tuple[int, int | None] | None:
        """The outermost ``and``/``or`` around a place, from its start to its end; None if that is
        on another line.

        CPython gives the jump of each operand the position of the one before it (3.11), so only the
        whole is certain. Columns are 0-based, in UTF-8 bytes.
        """
        for node in ast.walk(self._tree(file)):
            if (
                isinstance(node, ast.BoolOp)
                and node.lineno == line
                and node.col_offset <= column
                and (node.end_lineno != line or column < (node.end_col_offset or 0))
            ):
                return node.col_offset, node.end_col_offset if node.end_lineno == line else None
        return None


def parsed(file: str) -> ast.Module:
    """What a file has, such as a notebook's cell; nothing where it can't be read or parsed."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _path_to(tree: ast.Module, line: int, meant: type[ast.AST] | None) -> list[ast.AST]:
    """The nodes from the module down to a line's innermost one, by the first branch with a node
    that is meant.
    """
    path: list[ast.AST] = [tree]
    while children := [child for child in _children(path[-1]) if _covers(child, line)]:
        path.append(
            next(
                (
                    child
                    for child in children
                    if meant
                    and any(
                        isinstance(each, meant) and _covers(each, line) for each in ast.walk(child)
                    )
                ),
                children[0],
            )
        )
    return path


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The child nodes that have a line; a function's arguments or a ``match``'s case have none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.arguments, ast.withitem, ast.match_case, ast.comprehension)):
            yield from _children(child)
        else:
            yield child


def _covers(node: ast.AST, line: int) -> bool:
    # A decorated definition starts at its first decorator, as its code object does.
    first = getattr(next(iter(getattr(node, "decorator_list", ())), node), "lineno", None)
    return first is not None and first <= line <= (getattr(node, "end_lineno", None) or first)


class _Scope:
    """The scopes around a statement: which names can certainly be read just before it."""

    def __init__(self, path: Sequence[ast.AST], statement: ast.stmt) -> None:
        self._statement = statement
        *self._outer, self._inner = (node for node in path if isinstance(node, _SCOPES))
        body = [] if isinstance(self._inner, ast.Lambda) else self._inner.body
        self._before = _Flow(body, _parameters(self._inner)).before.get(statement, set())

    def _has(self, name: str) -> bool:
        if name in _bindings(self._inner):
            return name in self._before
        return any(name in _bindings(scope) for scope in self._outer)

    def readable_names(self) -> list[str]:
        """The names in the statement, built-in ones aside, in order."""
        found = dict.fromkeys(
            node.id for node in ast.walk(self._statement) if isinstance(node, ast.Name)
        )
        return [name for name in found if name not in _BUILTINS and self._has(name)]

    def torch_name(self) -> str | None:
        """What the torch package is called, such as ``torch``; None where it can't be read, or is
        something else.
        """
        imports = [
            each
            for scope in (*self._outer, self._inner)
            for each in _own(scope)
            if isinstance(each, ast.Import)
        ]
        names = dict.fromkeys(
            alias.asname or "torch"
            for each in imports
            for alias in each.names
            if alias.name == "torch" or (alias.asname is None and alias.name.startswith("torch."))
        )
        for name in filter(self._has, names):
            # Something other than an import may bind it in the scope that it is read from.
            scope = next(
                scope for scope in (self._inner, *reversed(self._outer)) if name in _bindings(scope)
            )
            if name not in _bindings(scope, imports=False):
                return name
        return None


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, (ast.ClassDef, *_FUNCTIONS, *_COMPREHENSIONS)):
            yield from _own(child)


def _bindings(scope: ast.AST, *, imports: bool = True) -> set[str]:
    """Names that a scope binds anywhere, parameters included, but those that it declares as another
    scope's.
    """
    found = _parameters(scope)
    others: set[str] = set()
    for node in _own(scope):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            others |= set(node.names)
        elif imports or not isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= _targets(node)
    return found - others


def _parameters(scope: ast.AST) -> set[str]:
    if not isinstance(scope, _FUNCTIONS):
        return set()
    given = scope.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {parameter.arg for parameter in every if parameter is not None}


def _targets(node: ast.AST) -> set[str]:
    """The names that one node itself binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return {name}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {(alias.asname or alias.name).partition(".")[0] for alias in aliases}
        case (
            ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
        ):
            return {name}
        case ast.MatchMapping(rest=str(name)):
            return {name}
    return set()


def _all_targets(nodes: Iterable[ast.AST | None]) -> set[str]:
    return {
        name
        for node in nodes
        if node is not None
        for inner in ast.walk(node)
        for name in _targets(inner)
    }


_Bound = set[str] | None
"""Names that are certainly bound; None where the code is never reached."""


class _Flow:
    """The names that are certainly bound before each statement of a body; none where it is never
    reached.
    """

    def __init__(self, body: Iterable[ast.stmt], bound: set[str]) -> None:
        self.before: dict[ast.stmt, set[str]] = {}
        self._run(body, bound)

    def _run(self, body: Iterable[ast.stmt], bound: _Bound) -> _Bound:
        for one in body:
            self.before[one] = bound or set()
            after = self._after(one, self.before[one])
            bound = None if bound is None else after
        return bound

    def _after(self, one: ast.stmt, bound: set[str]) -> _Bound:
        match one:
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                return None
            case ast.Delete():
                return bound - _all_targets(one.targets)
            case ast.If():
                return _either(self._run(one.body, bound), self._run(one.orelse, bound))
            case ast.With() | ast.AsyncWith():
                inside = bound | _all_targets(item.optional_vars for item in one.items)
                after = self._run(one.body, inside)
                # A manager such as `suppress` may end the body early.
                return (
                    after
                    if all("suppress" not in ast.unparse(item.context_expr) for item in one.items)
                    else inside
                )
            case ast.Match():
                for case in one.cases:
                    self._run(case.body, bound | _all_targets([case.pattern]))
                return bound - _removed(one)
            case ast.For() | ast.AsyncFor() | ast.While():
                # The body may not run at all, and may remove names.
                left = bound - _removed(one)
                self._run(
                    one.body,
                    left if isinstance(one, ast.While) else left | _all_targets([one.target]),
                )
                self._run(one.orelse, left)
                return left
            case ast.Try() | ast.TryStar():
                return self._after_try(one, bound, bound - _removed(one))
            case ast.AnnAssign(value=None):
                return bound
            case ast.Assign(targets=targets):
                return bound | _all_targets(targets)
            case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
                return bound | _all_targets([target])
        return bound | _targets(one)

    def _after_try(self, one: ast.Try | ast.TryStar, bound: set[str], left: set[str]) -> _Bound:
        """``left``: what is bound wherever the body ends."""
        whole = self._run(one.orelse, self._run(one.body, bound))
        for handler in one.handlers:
            own = {handler.name} if handler.name else set()
            handled = self._run(handler.body, left | own)
            # Python removes the name when the handler ends.
            whole = _either(whole, None if handled is None else handled - own)
        after = None if whole is None else self._run(one.finalbody, whole)
        self._run(one.finalbody, left)
        return after


def _removed(one: ast.stmt) -> set[str]:
    return {
        name
        for node in ast.walk(one)
        if isinstance(node, ast.Delete)
        for name in _all_targets(node.targets)
    }


def _either(one: _Bound, other: _Bound) -> _Bound:
    if one is None or other is None:
        return other if one is None else one
    return one & other

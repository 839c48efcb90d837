"""Reads what surrounds a line of Python source: qualified name, statements around it, names that
have a value.

A file that can't be read or parsed yields None. Only names that certainly have a value just before
the statement are listed.
"""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Iterator, Sequence
from dis import Positions
from functools import cache
from typing import Any

from ...facts.recording import Enclosing, EnclosingKind, SourceContext

_MAX_STATEMENT_LINES = 12
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_NAMED = (ast.ClassDef, *_FUNCTIONS)
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

_Names = set[str]


class SourceReader:
    """Parses each file once, and reads each place once: a program that goes on recompiling asks for
    the same ones.
    """

    def __init__(self) -> None:
        self._tree = cache(parsed)
        self.context = cache(self._context)

    def _context(self, file: str, line: int, code_name: str | None = None) -> SourceContext | None:
        """Return the source around a line; None if it can't be read.

        ``file``: path, or a name that ``linecache`` has, such as a notebook cell. ``code_name`` of
        the code object that the line ran in says which of its lambdas and comprehensions is meant.
        """
        tree = self._tree(file)
        if not tree.body or line < 1:
            return None
        path = _path_to(tree, line, _CODE_NAMES.get(code_name))
        functions = (at for at, node in enumerate(path) if isinstance(node, _FUNCTIONS))
        function_at = max(functions, default=0)
        inner = path[:function_at:-1]
        statement = next((node for node in inner if isinstance(node, ast.stmt)), None)
        lines = linecache.getlines(file)
        if statement is None:
            text = lines[line - 1].strip() if line <= len(lines) else ""
        else:
            last = min(statement.end_lineno or line, statement.lineno + _MAX_STATEMENT_LINES - 1)
            text = textwrap.dedent("".join(lines[statement.lineno - 1 : last])).rstrip()
        names = [getattr(node, "name", "<lambda>") for node in path if isinstance(node, _NAMED)]
        return SourceContext(
            file=file,
            line=line,
            function=code_name,
            qualname=".".join(names) or "<module>",
            function_line=getattr(path[function_at], "lineno", None),
            statement=text,
            statement_line=statement.lineno if statement else None,
            module_names=tuple(_module_names(path, statement)) if statement else (),
            enclosing=tuple(
                Enclosing(kind=kind, line=node.lineno, text=lines[node.lineno - 1].strip())  # type: ignore[attr-defined]
                for node in inner
                if (kind := _KINDS.get(type(node)))
            ),
        )

    def expression_path(self, file: str, positions: Positions | None) -> list[ast.AST]:
        """Return the nodes from the module down to the expression of an instruction; the module
        alone if that isn't known.
        """
        path: list[ast.AST] = [self._tree(file)]
        if positions is None or None in positions:
            return path
        start, end = (positions.lineno, positions.col_offset), positions[1::2]
        while child := next(
            (node for node in _children(path[-1]) if _spans(node, start, end)), None
        ):
            path.append(child)
        return path if isinstance(path[-1], ast.expr) else path[:1]

    def boolean_operation(self, file: str, line: int, column: int) -> tuple[int, int | None] | None:
        """Find the outermost ``and``/``or`` around a place, from its start to its end; None if that
        is on another line.

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
    """Parse a file, or a notebook's cell; one that can't be read or parsed is empty."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _path_to(tree: ast.Module, line: int, meant: type[ast.AST] | None) -> list[ast.AST]:
    """Return the nodes from the module down to a line's innermost one, by the first branch with a
    node that is meant.
    """

    def has_meant(child: ast.AST) -> bool:
        nodes = ast.walk(child) if meant is not None else ()
        return any(isinstance(node, meant or ()) and _covers(node, line) for node in nodes)

    path: list[ast.AST] = [tree]
    while children := [child for child in _children(path[-1]) if _covers(child, line)]:
        path.append(next(filter(has_meant, children), children[0]))
    return path


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the child nodes that have a line; a function's arguments or a ``match``'s case have
    none.
    """
    for child in ast.iter_child_nodes(node):
        if hasattr(child, "lineno"):
            yield child
        else:
            yield from _children(child)


def _covers(node: Any, line: int) -> bool:
    # A decorated definition starts at its first decorator, as its code object does.
    first = next(iter(getattr(node, "decorator_list", ())), node).lineno
    return first <= line <= node.end_lineno


def _spans(node: Any, start: tuple[Any, ...], end: tuple[Any, ...]) -> bool:
    """Tell whether a node, its decorators included, has a place within it."""
    first = min([node, *getattr(node, "decorator_list", ())], key=lambda it: it.lineno)
    of_node = (first.lineno, first.col_offset), (node.end_lineno, node.end_col_offset)
    return of_node[0] <= start and end <= of_node[1]


def _module_names(path: Sequence[ast.AST], statement: ast.stmt) -> list[str]:
    """List the names in a statement that no function around it binds, but the module does."""
    module, *functions = (node for node in path if isinstance(node, _SCOPES))
    bound = _bindings(module).difference(*map(_bindings, functions))
    nodes = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return [name for name in dict.fromkeys(node.id for node in nodes) if name in bound]


def _nodes_of(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without those of scopes inside."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, (*_NAMED, *_COMPREHENSIONS)):
            yield from _nodes_of(child)


def _bindings(scope: ast.AST) -> _Names:
    """Names that a scope binds anywhere, parameters included, but those that it declares as another
    scope's.
    """
    names = _parameters(scope)
    others = set()
    for node in _nodes_of(scope):
        if isinstance(node, ast.Global | ast.Nonlocal):
            others |= set(node.names)
        else:
            names |= _targets(node)
    return names - others


def _parameters(scope: ast.AST) -> _Names:
    if not isinstance(scope, _FUNCTIONS):
        return set()
    args = scope.args
    parameters = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {parameter.arg for parameter in parameters if parameter is not None}


def _targets(node: ast.AST) -> _Names:
    """Return the names that one node itself binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return {name}
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {(alias.asname or alias.name).partition(".")[0] for alias in aliases}
        case (
            ast.FunctionDef(name=name)
            | ast.AsyncFunctionDef(name=name)
            | ast.ClassDef(name=name)
            | ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
        ):
            return {name}
    return set()

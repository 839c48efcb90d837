"""Reads what surrounds a line of Python source: qualified name, statement, enclosing compound statements.

Standard library only. A file that can't be read or parsed yields None; its content raises nothing here.
"""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Iterator

from ..wire import EnclosingRecord, SourceRecord
from .scopes import readable_names, torch_name

_MAX_STATEMENT_LINES = 12
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_KINDS: dict[type[ast.AST], str] = {
    ast.For: "for",
    ast.AsyncFor: "for",
    ast.While: "while",
    ast.Try: "try",
    ast.TryStar: "try",
    ast.With: "with",
    ast.AsyncWith: "with",
    ast.If: "if",
    ast.ListComp: "comprehension",
    ast.SetComp: "comprehension",
    ast.DictComp: "comprehension",
    ast.GeneratorExp: "comprehension",
}
_CODE_NAMES: dict[str, tuple[type[ast.AST], ...]] = {
    "<lambda>": (ast.Lambda,),
    "<listcomp>": (ast.ListComp,),
    "<setcomp>": (ast.SetComp,),
    "<dictcomp>": (ast.DictComp,),
    "<genexpr>": (ast.GeneratorExp,),
}
"""Code objects without a name of their own; Python 3.12 made the comprehensions part of their function."""


class SourceReader:
    """Parses each file once, and reads each place once: a program that goes on recompiling asks for the same ones."""

    def __init__(self) -> None:
        self._trees: dict[str, ast.Module | None] = {}
        self._contexts: dict[tuple[str, int, str | None], SourceRecord | None] = {}

    def context(self, file: str, line: int, code_name: str | None = None) -> SourceRecord | None:
        """What surrounds a line.

        ``file``: path, or a name that ``linecache`` knows, such as a notebook cell.
        ``code_name``: name of the code object that the line ran in. A line can hold several: the name says whether a
        lambda or a comprehension is meant.

        Returns:
            What surrounds it, or None when the source can't be read.
        """
        place = (file, line, code_name)
        if place not in self._contexts:
            self._contexts[place] = self._read_context(*place)
        return self._contexts[place]

    def _read_context(self, file: str, line: int, code_name: str | None) -> SourceRecord | None:
        tree = self._tree(file)
        if tree is None or line < 1:
            return None
        path = _path_to(tree, line, _CODE_NAMES.get(code_name or "", ()))
        function_at = max((i for i, node in enumerate(path) if isinstance(node, _FUNCTIONS)), default=None)
        names = [_name(node) for node in path if isinstance(node, (ast.ClassDef, *_FUNCTIONS))]
        inner = path[function_at + 1 :] if function_at is not None else path[1:]
        statement = next((node for node in reversed(inner) if isinstance(node, ast.stmt)), None)
        lines = linecache.getlines(file)
        if statement is None:
            text = lines[line - 1].strip() if line <= len(lines) else ""
        else:
            last = min(statement.end_lineno or line, statement.lineno + _MAX_STATEMENT_LINES - 1)
            text = textwrap.dedent("".join(lines[statement.lineno - 1 : last])).rstrip()
        enclosing = [
            EnclosingRecord(kind=kind, line=node.lineno, text=lines[node.lineno - 1].strip())  # type: ignore[attr-defined]
            for node in reversed(inner)
            if (kind := _KINDS.get(type(node)))
        ]
        function = path[function_at] if function_at is not None else None
        return SourceRecord(
            file=file,
            line=line,
            qualname=".".join(names) or "<module>",
            function_line=getattr(function, "lineno", None),
            statement=text,
            statement_line=statement.lineno if statement else None,
            statement_end_line=statement.end_lineno if statement else None,
            readable=list(readable_names(path, statement)) if statement else [],
            torch=torch_name(path, statement) if statement else None,
            enclosing=enclosing,
        )

    def boolean_operation(self, file: str, line: int, column: int) -> tuple[int, int | None] | None:
        """The outermost ``and``/``or`` around a place.

        CPython gives the jump of each operand the position of the one before it (3.11, ``dis.Positions`` of
        ``if a is not None and b:``), so for a branch on several operands only the whole is certain.

        ``column``: 0-based, in UTF-8 bytes.

        Returns:
            Start and end on its first line, 0-based in bytes; the end is None when it continues on another line.
        """
        tree = self._tree(file)
        if tree is None:
            return None
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.BoolOp)
                and node.lineno == line
                and node.col_offset <= column
                and (node.end_lineno != line or column < (node.end_col_offset or 0))
            ):
                return node.col_offset, node.end_col_offset if node.end_lineno == line else None
        return None

    def _tree(self, file: str) -> ast.Module | None:
        if file not in self._trees:
            try:
                self._trees[file] = ast.parse("".join(linecache.getlines(file)) or "!")
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._trees[file] = None
        return self._trees[file]


def _path_to(tree: ast.Module, line: int, meant: tuple[type[ast.AST], ...]) -> list[ast.AST]:
    """The nodes from the module down to the innermost one on a line, outermost first.

    If several branches are on the line: the first with a node of the kind that is meant, otherwise the first.
    """
    path: list[ast.AST] = [tree]
    while True:
        children = [child for child in _children(path[-1]) if _covers(child, line)]
        if not children:
            return path
        path.append(next((child for child in children if meant and _holds(child, line, meant)), children[0]))


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The child nodes that have a line; a function's arguments or a ``match``'s case have none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.arguments, ast.withitem, ast.match_case, ast.comprehension)):
            yield from _children(child)
        else:
            yield child


def _covers(node: ast.AST, line: int) -> bool:
    first = _first_line(node)
    return first is not None and first <= line <= (getattr(node, "end_lineno", None) or first)


def _holds(node: ast.AST, line: int, kinds: tuple[type[ast.AST], ...]) -> bool:
    return any(isinstance(inner, kinds) and _covers(inner, line) for inner in ast.walk(node))


def _first_line(node: ast.AST) -> int | None:
    """Where a node starts; a decorated definition starts at its first decorator, as its code object does."""
    decorators = getattr(node, "decorator_list", None)
    if decorators:
        return int(decorators[0].lineno)
    return getattr(node, "lineno", None)


def _name(node: ast.AST) -> str:
    return getattr(node, "name", "<lambda>")

"""The functions of a source text, and the lines of their own statements. Imports little.

A function's *own* statements run in its frame; the bodies of functions and classes defined in it
run in other frames.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from graphdoctor.facts.stack import parsed as parsed_code

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_TRIES = (ast.Try, ast.TryStar)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Function:
    """A function in a source text."""

    name: str
    line: int
    first_line: int
    """The line of its first decorator, otherwise ``line``: where its code object starts."""
    end_line: int
    outermost: int
    """``first_line`` of the outermost function around it, which can be the function itself."""
    class_lines: tuple[int, ...]
    """The lines where the classes around it start."""
    body: tuple[ast.stmt, ...]
    """Its statements; empty for a lambda."""


def parsed(text: str) -> SourceFile | None:
    """A parsed text; None if this Python can't parse it: it is from a newer one, or has a
    notebook's commands.
    """
    tree = parsed_code(text)
    with suppress(RecursionError):
        return None if tree is None else SourceFile(text, tree)
    return None


class SourceFile:
    """One parsed text."""

    def __init__(self, text: str, tree: ast.Module) -> None:
        self._lines = text.split("\n")
        self.functions = tuple(_functions(tree, (), None))
        """In the order of their definitions; an inner one comes after the one around it."""

    def around(self, line: int) -> Function | None:
        """The innermost function around a line."""
        return self._innermost(
            function for function in self.functions if _is_inside(function, line)
        )

    def named(self, name: str, line: int) -> Function | None:
        """The innermost function with a name around a line."""
        return self._innermost(
            function
            for function in self.functions
            if function.name == name and _is_inside(function, line)
        )

    @staticmethod
    def _innermost(functions: Iterable[Function]) -> Function | None:
        return max(functions, key=lambda function: function.first_line, default=None)

    def own_lines(self, function: Function) -> set[int]:
        """The lines of a function's own statements, without its docstring."""
        body = function.body
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        return self._with_code(_lines_of(body))

    def lines_after(self, function: Function, line: int) -> set[int]:
        """The lines of a function's own statements that can only run after the statement on a line.

        They come after it in its block, or after a statement around it in that one's block. If the
        line heads a compound statement, that statement's own blocks belong to them. Other branches
        of an ``if`` or ``match`` don't, and neither do earlier lines of a loop, which run again
        only if the loop continues.
        """
        return self._with_code(_lines_after(function.body, line))

    def _with_code(self, numbers: Iterable[int]) -> set[int]:
        """Without blank lines and comments inside a statement of several lines."""
        return {
            number
            for number in numbers
            if (text := self._lines[number - 1].strip()) and text[0] != "#"
        }


def _functions(
    node: ast.AST, classes: tuple[int, ...], outermost: int | None
) -> Iterator[Function]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*_DEFINITIONS, ast.Lambda)):
            yield from _functions(child, classes, outermost)
            continue
        first = _first_line(child)
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, (*classes, child.lineno), outermost)
            continue
        around = first if outermost is None else outermost
        yield Function(
            name="<lambda>" if isinstance(child, ast.Lambda) else child.name,
            line=child.lineno,
            first_line=first,
            end_line=child.end_lineno or child.lineno,
            outermost=around,
            class_lines=classes,
            body=() if isinstance(child, ast.Lambda) else tuple(child.body),
        )
        yield from _functions(child, classes, around)


def _is_inside(function: Function, line: int) -> bool:
    return function.first_line <= line <= function.end_line


def _first_line(node: ast.stmt | ast.expr) -> int:
    """A decorated definition starts at its first decorator, as its code object does."""
    decorators = getattr(node, "decorator_list", None)
    return int(decorators[0].lineno) if decorators else node.lineno


def _blocks(statement: ast.AST) -> dict[str, list[ast.AST]]:
    """The blocks of a compound statement that run in the same frame, by field name."""
    if isinstance(statement, _DEFINITIONS):
        return {}
    return {name: block for name in _BLOCKS if (block := getattr(statement, name, None))}


def _own_head(statement: ast.AST) -> range:
    """The lines of a statement, an ``except`` or a ``case``, without those of its blocks."""
    heads = [
        child
        for name, value in ast.iter_fields(statement)
        if name not in _BLOCKS
        for child in _nodes(value)
    ]
    if isinstance(statement, ast.stmt) and not any(hasattr(statement, name) for name in _BLOCKS):
        return range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    placed = [child for head in heads for child in ast.walk(head)]
    starts = [child.lineno for child in placed if hasattr(child, "lineno")]
    ends = [child.end_lineno for child in placed if hasattr(child, "end_lineno")]
    if isinstance(statement, (ast.stmt, ast.ExceptHandler)):
        starts.append(
            _first_line(statement) if isinstance(statement, ast.stmt) else statement.lineno
        )
        ends.append(statement.lineno)
    return range(min(starts), max(ends) + 1)


def _nodes(value: object) -> Iterator[ast.AST]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, ast.AST):
            yield item


def _lines_of(statements: Iterable[ast.AST]) -> Iterator[int]:
    for statement in statements:
        yield from _own_head(statement)
        for block in _blocks(statement).values():
            yield from _lines_of(block)


def _lines_after(block: Sequence[ast.AST], line: int) -> Iterator[int]:
    for index, statement in enumerate(block):
        if not _covers(statement, line):
            continue
        blocks = _blocks(statement)
        inner = next(
            (name for name, body in blocks.items() if any(_covers(item, line) for item in body)),
            None,
        )
        if inner is None:
            yield from _lines_of(item for body in blocks.values() for item in body)
        elif inner in ("handlers", "cases"):
            # Only one of several alternatives runs.
            chosen = next(item for item in blocks[inner] if _covers(item, line))
            yield from _lines_after([chosen], line)
        else:
            yield from _lines_after(blocks[inner], line)
        if inner is not None:
            for name in _following(statement, inner):
                yield from _lines_of(blocks.get(name, ()))
        yield from _lines_of(block[index + 1 :])
        return


def _covers(node: ast.AST, line: int) -> bool:
    # A ``case`` has no position of its own.
    placed: list[ast.AST] = [*node.body] if isinstance(node, ast.match_case) else [node]
    end = max(getattr(item, "end_lineno", 0) for item in placed)
    return _own_head(node).start <= line <= end


def _following(statement: ast.AST, inner: str) -> tuple[str, ...]:
    """The blocks of a compound statement that can run after one of its blocks has started."""
    if isinstance(statement, _LOOPS) and inner == "body":
        return ("orelse",)
    if isinstance(statement, _TRIES):
        return {
            "body": ("handlers", "orelse", "finalbody"),
            "handlers": ("finalbody",),
            "orelse": ("finalbody",),
        }.get(inner, ())
    return ()

"""The functions of a source text, and the lines of their own statements. Imports little.

A function's *own* statements run in its frame; the bodies of functions and classes defined in it
run in other frames.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from graphdoctor.facts.stack import parsed as parsed_code

_Statement = ast.stmt | ast.excepthandler | ast.match_case

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_RUN_AFTER: Mapping[str, tuple[str, ...]] = {
    "body": ("handlers", "orelse", "finalbody"),
    "handlers": ("finalbody",),
    "orelse": ("finalbody",),
}
"""The blocks of a loop or a ``try`` that can run after one of its blocks has started."""


@dataclass(frozen=True)
class Function:
    """A function in a source text."""

    name: str
    line: int
    first_line: int
    """The line of its first decorator, otherwise ``line``: where its code object starts."""
    end_line: int
    surroundings: frozenset[int]
    """The lines of the outermost function around it, which can be the function itself, and those
    where the classes around that one start."""
    body: tuple[ast.stmt, ...]
    """Its statements; empty for a lambda."""


def parsed(text: str) -> SourceFile | None:
    """Return a parsed text; None if this Python can't parse it: it is from a newer one, or has a
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
        self.functions = tuple(_functions(tree, frozenset(), is_inside=False))
        """In the order of their definitions; an inner one comes after the one around it."""

    def function_at(self, line: int, name: str | None = None) -> Function | None:
        """Return the innermost function around a line, or the innermost of a name."""
        around = (
            function
            for function in self.functions
            if function.first_line <= line <= function.end_line and name in (None, function.name)
        )
        return max(around, key=lambda function: function.first_line, default=None)

    def own_lines(self, function: Function) -> set[int]:
        """Return the lines of a function's own statements, without its docstring."""
        body = function.body
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        return self._with_code(_lines_of(body))

    def lines_after(self, function: Function, line: int) -> set[int]:
        """Return the lines of a function's own statements that can only run after the statement on
        a line.

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
    node: ast.AST, surroundings: frozenset[int], *, is_inside: bool
) -> Iterator[Function]:
    """Yield the functions in a node; ``is_inside``: of a function, whose surroundings are
    theirs.
    """
    for child in ast.iter_child_nodes(node):
        around = surroundings
        if isinstance(child, ast.ClassDef) and not is_inside:
            around |= {child.lineno}
        if isinstance(child, _FUNCTIONS):
            first = child.lineno if isinstance(child, ast.Lambda) else _start(child)
            body = () if isinstance(child, ast.Lambda) else tuple(child.body)
            end = child.end_lineno or child.lineno
            if not is_inside:
                around |= {*range(first, end + 1)}
            name = getattr(child, "name", "<lambda>")
            yield Function(name, child.lineno, first, end, around, body)
        yield from _functions(child, around, is_inside=is_inside or isinstance(child, _FUNCTIONS))


def _start(statement: _Statement) -> int:
    """Return the line of a decorator, as in the code object, or of the keyword; of a ``case``,
    which has no position, of its pattern.
    """
    placed = statement.pattern if isinstance(statement, ast.match_case) else statement
    decorators = getattr(statement, "decorator_list", [])
    return decorators[0].lineno if decorators else placed.lineno


def _end(statement: _Statement) -> int:
    placed = statement.body[-1] if isinstance(statement, ast.match_case) else statement
    return placed.end_lineno or placed.lineno


def _covers(statement: _Statement, line: int) -> bool:
    return _start(statement) <= line <= _end(statement)


def _blocks(statement: _Statement) -> dict[str, list[_Statement]]:
    return {name: block for name in _BLOCKS if (block := getattr(statement, name, None))}


def _inner_blocks(statement: _Statement) -> dict[str, list[_Statement]]:
    """Return the blocks of a compound statement that run in the same frame."""
    return {} if isinstance(statement, _DEFINITIONS) else _blocks(statement)


def _lines_of(statements: Iterable[_Statement]) -> Iterator[int]:
    for statement in statements:
        start = _start(statement)
        starts = [_start(block[0]) for block in _blocks(statement).values()]
        # What is before the first block.
        yield from range(start, max(start + 1, min(starts)) if starts else _end(statement) + 1)
        for block in _inner_blocks(statement).values():
            yield from _lines_of(block)


def _lines_after(block: Sequence[_Statement], line: int) -> Iterator[int]:
    index = next((at for at, item in enumerate(block) if _covers(item, line)), None)
    if index is None:
        return
    statement, blocks = block[index], _inner_blocks(block[index])
    for name, inner in blocks.items():
        on_line = [item for item in inner if _covers(item, line)]
        if on_line:
            # Of handlers and cases, only one runs.
            is_alternative = name in ("handlers", "cases")
            yield from _lines_after(on_line if is_alternative else inner, line)
            after = () if isinstance(statement, ast.If) else _RUN_AFTER.get(name, ())
            for later in after:
                yield from _lines_of(blocks.get(later, ()))
            break
    else:
        for inner in blocks.values():
            yield from _lines_of(inner)
    yield from _lines_of(block[index + 1 :])

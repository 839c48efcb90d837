"""The functions of a source text, and the lines of their own statements. Imports little.

A function's *own* statements run in its frame; the bodies of functions and classes defined in it
run in other frames.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from graphdoctor.facts.stack import parsed as parsed_code

_Statement = ast.stmt | ast.excepthandler | ast.match_case

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


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
        """Return the lines of a function's own statements, without its docstring, blank lines and
        comments.
        """
        body = function.body
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        lines = _lines(body)
        for statement in _inner(body):
            if isinstance(statement, _DEFINITIONS):
                # What runs in this frame is its head.
                lines -= _lines(statement.body) - {statement.lineno}
        return {
            number
            for number in lines
            if (text := self._lines[number - 1].strip()) and text[0] != "#"
        }

    def lines_after(self, function: Function, line: int) -> set[int]:
        """Return the lines of a function's own statements that can only run after the statement on
        a line.

        If the line heads a compound statement, that statement's own blocks belong to them. Other
        branches of an ``if``, a ``try`` or a ``match`` don't, and neither do earlier lines of a
        loop, which run again only if the loop continues.
        """
        last, others = line, set[int]()
        for statement in _inner(function.body):
            if line not in _lines([statement]):
                continue
            blocks = _blocks(statement)
            if not blocks:
                last = max(last, _end(statement))
            branches = [*blocks.get("handlers", ()), *blocks.get("cases", ())]
            is_in_branch = line in _lines(branches)
            if is_in_branch:
                others |= _lines(branch for branch in branches if line not in _lines([branch]))
            is_in_body = isinstance(statement, ast.If) and line in _lines(statement.body)
            if is_in_branch or is_in_body:
                others |= _lines(blocks.get("orelse", ()))
        return {number for number in self.own_lines(function) if number > last} - others


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


def _lines(statements: Iterable[_Statement]) -> set[int]:
    return {
        number
        for statement in statements
        for number in range(_start(statement), _end(statement) + 1)
    }


def _blocks(statement: _Statement) -> dict[str, list[_Statement]]:
    """Return the blocks of a compound statement."""
    return {name: block for name in _BLOCKS if (block := getattr(statement, name, None))}


def _inner(statements: Iterable[_Statement]) -> Iterator[_Statement]:
    """Yield statements and those in them that run in the same frame."""
    for statement in statements:
        yield statement
        if not isinstance(statement, _DEFINITIONS):
            for block in _blocks(statement).values():
                yield from _inner(block)

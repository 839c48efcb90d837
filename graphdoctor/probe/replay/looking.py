"""Looks at the program's own code while calls are made: at each line before it runs, and at the
steps from one instruction to the next.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any, Generic, TypeVar

from ..record.files import is_user_file

_PLAIN = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.Constant, ast.UnaryOp,
    ast.BinOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword, ast.operator, ast.unaryop,
    ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip

Line = tuple[str, int]
"""A file and the number of a line."""

Arcs = Counter[tuple[CodeType, int, int]]
"""How often code went from one instruction to another."""

_Site = TypeVar("_Site")


class Looker(ABC, Generic[_Site]):
    """Looks at some lines of the program, its sites, just before they run."""

    def __init__(self) -> None:
        self._sites = cache(self._sites_by_line)

    def _sites_by_line(self, file: str) -> dict[int, list[_Site]]:
        sites = defaultdict(list)
        for line, site in self.find(parsed(file)):
            sites[line].append(site)
        return sites

    @abstractmethod
    def find(self, tree: ast.Module) -> Iterable[tuple[int, _Site]]:
        """Find sites in a file, with their lines."""

    @abstractmethod
    def look(self, frame: FrameType) -> None:
        """Look at the line that is about to run."""

    def sites(self, frame: FrameType) -> list[_Site]:
        """List the sites of the line that is about to run."""
        return self._sites(frame.f_code.co_filename).get(frame.f_lineno, [])

    def has_sites(self, code: CodeType) -> bool:
        """Return whether lines of a function are worth looking at."""
        sites = self._sites(code.co_filename)
        return any(line in sites for *_, line in code.co_lines())


def parsed(file: str) -> ast.Module:
    """Parse a file as it was imported, with edits that aren't on disk; empty if it isn't Python."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def called_name(call: ast.Call) -> str:
    """Return the last part of the name of what is called; empty where it has none."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def is_pure(expression: ast.expr, functions: re.Pattern[str]) -> bool:
    """Return whether an expression can be computed once more, if these functions have no effect."""
    return all(
        isinstance(node, _PLAIN)
        and (not isinstance(node, ast.Call) or functions.fullmatch(called_name(node)))
        for node in ast.walk(expression)
    )


def value_in(frame: FrameType, expression: ast.expr) -> Any:
    """Compute an expression where a function is."""
    return eval(_compiled(expression), frame.f_globals, frame.f_locals)


@cache
def _compiled(expression: ast.expr) -> CodeType:
    return compile(ast.Expression(expression), "<expression>", "eval")


@contextmanager
def traced(arcs: Arcs | None, *lookers: Looker[Any]) -> Iterator[None]:
    """Note the steps that the program's own code takes meanwhile, and have its lines looked at;
    only the latter, which costs less, if there is nothing to note them in.
    """
    before = sys.gettrace()

    def local(frame: FrameType, event: str, _: object) -> Any:
        if event == "opcode" and arcs is not None:
            # Lines wouldn't do: `a if c else b` is one.
            arcs[frame.f_code, last.get(frame, 0), frame.f_lasti] += 1
            last[frame] = frame.f_lasti
        elif event == "line":
            for looker in looking[frame.f_code]:
                looker.look(frame)
        elif event == "return":
            last.pop(frame, None)
        return local

    def enter(frame: FrameType, _: str, __: object) -> Any:
        if not is_user_file(frame.f_code.co_filename):
            return None
        if frame.f_code not in looking:
            looking[frame.f_code] = [it for it in lookers if it.has_sites(frame.f_code)]
        is_looked_at = bool(looking[frame.f_code])
        frame.f_trace_lines, frame.f_trace_opcodes = is_looked_at, arcs is not None
        return local if is_looked_at or arcs is not None else None

    last: dict[FrameType, int] = {}
    looking: dict[CodeType, list[Looker[Any]]] = {}
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


@cache
def _line_at(code: CodeType) -> Callable[[int], int | None]:
    """Return what finds the line of an instruction."""
    lines = {at: line for start, end, line in code.co_lines() for at in range(start, end)}
    return lines.get


def lines_in(arcs: Arcs) -> set[Line]:
    """Return the lines that were run."""
    lines = {(code.co_filename, _line_at(code)(at)) for code, _, at in arcs}
    return {(file, line) for file, line in lines if line is not None}


def lines_left_twice(arcs: Arcs) -> set[Line]:
    """Return the lines after which one line ran at one time, and another one at another."""
    after = defaultdict(set)
    for code, *offsets in arcs:
        first, second = map(_line_at(code), offsets)
        if first is not None and second is not None and first != second:
            after[code, first].add(second)
    return {(code.co_filename, line) for (code, line), then in after.items() if len(then) > 1}

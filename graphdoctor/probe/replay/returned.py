"""The kinds of values that the program's own functions return, where others may rely on them.

Others are callers of a public function, and whatever uses a function or method in code that didn't
run: what leaves the compiled part there is stored, logged, serialized or compared.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from torch import Tensor

from ..record.files import is_user_file
from .looking import parsed

_MAX_DEPTH = 3
_MAX_ITEMS = 8


class Returns:
    """Notes them by code."""

    def __init__(self) -> None:
        self._kinds: dict[CodeType, set[str]] = defaultdict(set)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note those of the calls that are made meanwhile."""
        before = sys.getprofile()

        def look(frame: FrameType, event: str, value: Any) -> None:
            file = frame.f_code.co_filename
            # What a package's function returns is no promise of the program's.
            if event == "return" and is_user_file(file) and "site-packages" not in file:
                self._kinds[frame.f_code].add(_kind(value))

        sys.setprofile(look)
        try:
            yield
        finally:
            sys.setprofile(before)

    def all(self) -> dict[str, set[str]]:
        """Return the kinds by function."""
        kinds: dict[str, set[str]] = defaultdict(set)
        for code, of_code in self._kinds.items():
            kinds[f"{code.co_filename}:{_name(code)}"] |= of_code
        return kinds

    def relied_on(self) -> dict[str, list[str]]:
        """Return the kinds of the functions that others may use."""
        used: set[str] = set()
        for file in {code.co_filename for code in self._kinds}:
            lines = {code.co_firstlineno for code in self._kinds if code.co_filename == file}
            used |= _names_outside(parsed(file), lines)
        return {
            f"{code.co_filename}:{_name(code)}": sorted(kinds)
            for code, kinds in self._kinds.items()
            if "<" not in _name(code) and (_is_public(_name(code)) or code.co_name in used)
        }


def _name(code: CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)


def _is_public(name: str) -> bool:
    return "." not in name and not name.startswith("_")


def _names_outside(tree: ast.AST, ran: set[int]) -> set[str]:
    """Return the names in code other than that of the functions that ran, by their first lines."""
    if isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)):
        first = min([tree.lineno, *(decorator.lineno for decorator in tree.decorator_list)])
        if first in ran:
            return set()
    names = {tree.id} if isinstance(tree, ast.Name) else set[str]()
    names |= {tree.attr} if isinstance(tree, ast.Attribute) else set()
    return names.union(*(_names_outside(child, ran) for child in ast.iter_child_nodes(tree)))


def _kind(value: object, depth: int = 0) -> str:
    if isinstance(value, Tensor):
        return "a tensor"
    kind = type(value).__name__
    if depth < _MAX_DEPTH and type(value) in (tuple, list, dict):
        whole: Any = value.values() if isinstance(value, dict) else value
        items = [*whole][:_MAX_ITEMS]
        return f"{kind} of {', '.join(dict.fromkeys(_kind(item, depth + 1) for item in items))}"
    return kind

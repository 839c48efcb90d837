"""Reads Python code."""

from __future__ import annotations

import ast
import warnings


def parsed(code: str | bytes) -> ast.Module | None:
    """The tree of code, without what Python warns about in it; None if this version of Python can't
    parse it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

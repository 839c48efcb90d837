"""Writes what a rule suggests for a line into the program, so that it can be tried.

Recipes write edits that hold for every program of their kind. An export has none for a check such as
``torch._check(n > 2)``, which holds or not for the calls at hand: those tell.
"""

from __future__ import annotations

import ast

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.fixes.patch import FileChange
from graphdoctor.fixes.source.tree import SourceFile


def written(fix: Fix, source: SourceFile) -> FileChange | None:
    """A suggestion as an edit; None if it has no code for a statement, or the statement shares its lines.

    Args:
        fix: The suggestion.
        source: The file of the finding, as the program has it.
    """
    place = fix.place
    if fix.snippet is None or place is None or place.line is None or place.end_line is None:
        return None
    if place.where not in ("before", "instead"):
        return None
    code = source.tree.code
    statement = _statement(code, place.line)
    if statement is None or statement.end_lineno != place.end_line:
        return None
    lines = code.splitlines(keepends=True)
    newline = source.tree.default_newline
    indent = lines[place.line - 1][: statement.col_offset]
    added = [f"{indent}{line}{newline}" for line in fix.snippet.splitlines()]
    end = place.end_line if place.where == "instead" else place.line - 1
    edited = "".join([*lines[: place.line - 1], *added, *lines[end:]])
    try:
        ast.parse(edited)
        return FileChange(source.path, source.content, edited.encode(source.tree.encoding))
    except (SyntaxError, ValueError):
        return None


def _statement(code: str, line: int) -> ast.stmt | None:
    """The statement that begins a line and has its lines to itself."""
    found = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.stmt)]
    beginning = [node for node in found if node.lineno == line]
    if not beginning:
        return None
    first = min(beginning, key=lambda node: node.col_offset)
    text = code.splitlines()[line - 1]
    is_alone = not text[: first.col_offset].strip() and text.isascii()
    ends = [node.lineno for node in found if node is not first and node.lineno == first.end_lineno]
    # A second statement after a semicolon begins where this one ends.
    shares = (
        ends and first.lineno == first.end_lineno and not isinstance(first, ast.If | ast.While | ast.For | ast.With)
    )
    return first if is_alone and not shares else None

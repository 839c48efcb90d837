"""Writes ``fullgraph=True`` into the call of ``torch.compile`` that compiles the target.

Comes in: the file's bytes and the target. Goes out: the edited bytes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoctor.facts.recording import TargetInfo
from graphdoctor.facts.stack import parsed
from graphdoctor.fixes.grades import dotted_name, imported_names
from graphdoctor.fixes.source.program import keyword_value

FULLGRAPH = "fullgraph"
_COMPILE = "torch.compile"
_METHODS = ("forward", "__call__")


def with_fullgraph(source: bytes, target: TargetInfo) -> bytes | None:
    """Pass ``fullgraph=True`` where a file compiles the target; None unless one place does."""
    tree = parsed(source)
    places = [] if tree is None else list(_places(tree, target))
    if tree is None or len(places) != 1:
        return None
    [place] = places
    if isinstance(place, ast.Call) and keyword_value(place, FULLGRAPH) is not None:
        return None
    line, column, text = _addition(place)
    lines = source.splitlines(keepends=True)
    head, rest = lines[line - 1][:column], lines[line - 1][column:]
    lines[line - 1] = head + text.encode() + rest
    edited = b"".join(lines)
    # Columns count bytes of UTF-8, which not every file is.
    after = parsed(edited)
    is_same = after is not None and ast.dump(after) == ast.dump(_Passing(place).visit(tree))
    return edited if is_same else None


class _Passing(ast.NodeTransformer):
    """Passes the argument in a tree."""

    def __init__(self, place: ast.expr) -> None:
        self._place = place

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace the place, and leave the rest."""
        if node is not self._place:
            return self.generic_visit(node)
        passed = ast.keyword(FULLGRAPH, ast.Constant(value=True))
        if isinstance(node, ast.Call):
            node.keywords.append(passed)
            return node
        return ast.Call(self._place, [], [passed])


def _addition(place: ast.expr) -> tuple[int, int, str]:
    """Find the line, the column and the text to add there."""
    passed = f"{FULLGRAPH}=True"
    end_line, end = place.end_lineno or 0, place.end_col_offset or 0
    if not isinstance(place, ast.Call):
        return end_line, end, f"({passed})"
    arguments = [*place.args, *(keyword.value for keyword in place.keywords)]
    if not arguments:
        return end_line, end - 1, passed
    last = max(arguments, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
    return last.end_lineno or 0, last.end_col_offset or 0, f", {passed}"


def _places(tree: ast.Module, target: TargetInfo) -> Iterator[ast.expr]:
    """Find the calls that compile a target, and decorators without a call."""
    origins = dict(imported_names(tree))
    names = {target.name, target.class_name} - {None}
    assigned = [
        (name.id, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for name in node.targets
        if isinstance(name, ast.Name)
    ]
    # Objects of the class, and what is made by calling the target.
    names |= {
        name
        for name, value in assigned
        if isinstance(value, ast.Call) and dotted_name(value.func) in names
    }

    def is_compile(node: ast.expr) -> bool:
        first, dot, rest = (dotted_name(node) or "").partition(".")
        return f"{origins.get(first, first)}{dot}{rest}" == _COMPILE

    for node in ast.walk(tree):
        decorated = [node] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        if isinstance(node, ast.ClassDef):
            methods = (method for method in node.body if isinstance(method, ast.FunctionDef))
            decorated += [method for method in methods if method.name in _METHODS]
        for definition in decorated if getattr(node, "name", None) in names else ():
            for decorator in definition.decorator_list:
                if is_compile(decorator.func if isinstance(decorator, ast.Call) else decorator):
                    yield decorator
        if isinstance(node, ast.Call) and is_compile(node.func) and node.args:
            given = {name.id for name in ast.walk(node.args[0]) if isinstance(name, ast.Name)}
            given |= {name for name, value in assigned if value is node}
            if given & names:
                yield node

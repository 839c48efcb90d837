"""Writes settings of torch into the file that a program starts with: beside its own settings, or
after its imports.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Sequence

from graphdoctor.facts.stack import parsed

_COMPOUND = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.If,
    ast.Try,
    ast.With,
    ast.For,
    ast.While,
)
"""What ends a file's head, in which its imports and settings stand."""

_NEWLINE = re.compile(rb"\r\n|\r|\n")


def with_settings(source: bytes, lines: Sequence[str]) -> bytes | None:
    """Add lines that set torch up to a file; None if it isn't Python.

    Args:
        source: The file's bytes, in whatever encoding.
        lines: Imports and settings, in ASCII; those that the file has already aren't added.
    """
    tree = parsed(source)
    if tree is None:
        return None
    text = source.splitlines(keepends=True)
    written = {ast.unparse(node) for node in tree.body}
    missing = [line for line in dict.fromkeys(["import torch", *lines]) if line not in written]
    imports = [line for line in missing if line.startswith("import ")]
    settings = [line for line in missing if line not in imports]
    if not settings:
        return source
    head = list(itertools.takewhile(lambda node: not isinstance(node, _COMPOUND), tree.body))
    imported = [node for node in head if isinstance(node, ast.Import | ast.ImportFrom)]
    settings_before = [node for node in head if _is_setting(node)]
    documented = tree.body[:1] if ast.get_docstring(tree, clean=False) is not None else []
    # The first comments may name an interpreter and an encoding.
    comments = itertools.takewhile(lambda line: line.startswith(b"#"), text)
    at = _end(imported or documented) or len(list(comments))
    match = _NEWLINE.search(source)
    newline = match[0] if match else b"\n"
    if settings_before and _end(settings_before) >= at:
        added = [(at, imports), (_end(settings_before), settings)]
    else:
        # A blank line on each side, as between sections.
        after = [""] if at < len(text) and text[at].strip() else []
        added = [(at, [*imports, *([""] if at or imports else []), *settings, *after])]
    if text and not text[-1].endswith((b"\n", b"\r")):
        text[-1] += newline
    for line, new in reversed(added):
        text[line:line] = [item.encode() + newline for item in new]
    return b"".join(text)


def _end(nodes: Sequence[ast.stmt]) -> int:
    return max((node.end_lineno or node.lineno for node in nodes), default=0)


def _is_setting(node: ast.stmt) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute() as target]):
            return ast.unparse(target).startswith("torch.")
        case ast.Expr(value=ast.Call(func=ast.Attribute() as function)):
            return bool(
                re.match(
                    r"torch\.(set_|backends\.|_dynamo\.config|compiler\.config)",
                    ast.unparse(function),
                )
            )
    return False

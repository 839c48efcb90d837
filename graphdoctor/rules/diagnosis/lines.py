"""Reads the line of a break site: a ``BreakSite`` in, what it calls and how to show it out."""

from __future__ import annotations

import ast
import re

from graphdoctor.rules.diagnosis.rule import BreakSite

_CALLED = re.compile(r"([A-Za-z_][\w.]*)\s*\(")
_MAX_LENGTH = 60
_WITH_VALUE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)


def called_name(site: BreakSite) -> str | None:
    """The dotted name of the function called where torch points, such as ``log.info`` or ``open(...).read``."""
    tree = expression_node(site)
    if tree is None:
        match = _CALLED.search(site.expression)
        return match[1] if match else None
    if not isinstance(tree, ast.Call):
        return None
    for node in ast.walk(tree.func):
        # Only the called function matters, not the arguments that made the object before the dot.
        if isinstance(node, ast.Call):
            node.args, node.keywords = [ast.Constant(...)], []
    return ast.unparse(tree.func)


def expression_node(site: BreakSite) -> ast.expr | None:
    """The expression that torch points to, or None if it points to only a part of one.

    If torch reports only the line, this is the value that the statement computes.
    """
    try:
        return ast.parse(site.expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        statement = None if is_pointed(site) else statement_node(site)
        return statement.value if isinstance(statement, _WITH_VALUE) else None


def is_pointed(site: BreakSite) -> bool:
    """Torch reports the expression within the line, not only the line."""
    return site.entry.column is not None


def statement_node(site: BreakSite) -> ast.stmt | None:
    """The statement that the line belongs to, or None if it is cut off or can't be parsed."""
    written = re.sub(r"^elif\b", "if", site.statement)
    # A log that graphdoctor didn't record has only the line: a compound statement then lacks its body.
    for text in (written, f"{written}\n    ..."):
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError):
            continue
        return body[0] if body else None
    return None


def bare_call(site: BreakSite) -> ast.Call | None:
    """The call, if the statement is a call whose result isn't used, so that no other line needs it; otherwise None."""
    statement = statement_node(site)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return statement.value
    return None


def in_with_header(site: BreakSite) -> bool:
    """The line is the ``with`` itself, not part of its body."""
    return isinstance(statement_node(site), ast.With | ast.AsyncWith)


def managers(site: BreakSite) -> str:
    """What the ``with`` at the line enters, or the expression if there is no ``with``."""
    statement = statement_node(site)
    if isinstance(statement, ast.With | ast.AsyncWith):
        return shortened(", ".join(ast.unparse(item.context_expr) for item in statement.items))
    return shortened(site.expression)


def looped_over(site: BreakSite) -> str:
    """What the ``for`` at the line iterates over, or the expression if there is no ``for``."""
    statement = statement_node(site)
    if isinstance(statement, ast.For | ast.AsyncFor):
        return shortened(ast.unparse(statement.iter))
    return shortened(site.expression)


def shortened(text: str) -> str:
    """An expression on one line of at most 60 characters; ``…`` where the log doesn't have the line's text."""
    flat = " ".join(text.split()) or "…"
    return flat if len(flat) <= _MAX_LENGTH else flat[: _MAX_LENGTH - 1] + "…"


def in_context(site: BreakSite, pattern: str) -> str | None:
    """The first group of a pattern in torch's developer context of the cause, or None."""
    match = re.search(pattern, site.cause.context or "")
    return match[1] if match else None

"""What several rules say alike: the called function in a line, a torch setting as a fix."""

from __future__ import annotations

import ast
import re

from graphdoctor.model.diagnosis import Fix
from graphdoctor.rules.base import BreakSite

_CALLED = re.compile(r"([A-Za-z_][\w.]*)\s*\(")
_MAX_LENGTH = 60


def called_name(site: BreakSite) -> str | None:
    """The dotted name of the function called where torch points to, or None."""
    try:
        tree = ast.parse(site.expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        match = _CALLED.search(site.expression)
        return match[1] if match else None
    if isinstance(tree, ast.Call):
        return ast.unparse(tree.func)
    return None


def shortened(text: str) -> str:
    """An expression in one line of at most 60 characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _MAX_LENGTH else flat[: _MAX_LENGTH - 1] + "…"


def in_context(site: BreakSite, pattern: str) -> str | None:
    """The first group of a pattern in torch's developer context of the cause, or None."""
    match = re.search(pattern, site.cause.context or "")
    return match[1] if match else None


def setting(name: str, title: str, *, value: str = "True", is_safe: bool = False, source: str | None = None) -> Fix:
    """A torch config value as a fix.

    Args:
        name: Such as ``capture_scalar_outputs``, below ``torch._dynamo.config``.
        title: One imperative sentence.
        value: What to set it to, as Python text.
        is_safe: It keeps results as they are.
        source: Where the remedy is recommended.
    """
    return Fix(
        title=title,
        kind="config",
        snippet=f"torch._dynamo.config.{name} = {value}",
        is_safe=is_safe,
        source=source or "torch/_dynamo/config.py, 2.13",
    )


def own_function(what: str) -> Fix:
    """The official way to live with a break: keep it in a small function of its own."""
    return Fix(
        title=f"If {what} must stay, keep it in a small function under torch.compiler.disable, outside loops and with",
        kind="code",
        snippet="@torch.compiler.disable\ndef eager_part(...): ...",
        is_safe=True,
        source="PyTorch user guide: torch.compile, common graph breaks",
    )


def guard_while_compiling(site: BreakSite, *, source: str, is_safe: bool = False) -> tuple[Fix, ...]:
    """The statement under ``if not torch.compiler.is_compiling()``; nothing where the program needs its value."""
    try:
        statements = ast.parse(site.statement).body
    except (SyntaxError, ValueError):
        return ()
    if len(statements) != 1 or not isinstance(statements[0], ast.Expr):
        return ()
    body = "\n".join("    " + line for line in site.statement.splitlines())
    snippet = f"if not torch.compiler.is_compiling():\n{body}"
    return (Fix(title="Skip it while compiling", kind="code", snippet=snippet, is_safe=is_safe, source=source),)

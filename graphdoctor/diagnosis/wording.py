"""What several rules say alike: the called function in a line, its statement, a torch setting as a fix."""

from __future__ import annotations

import ast
import re

from graphdoctor.diagnosis.rule import BreakSite
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.run import Setting

_CALLED = re.compile(r"([A-Za-z_][\w.]*)\s*\(")
_MAX_LENGTH = 60
_WITH_VALUE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)
_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"


def called_name(site: BreakSite) -> str | None:
    """The dotted name of the function called where torch points to, such as ``log.info`` or ``open(...).read``."""
    tree = expression_node(site)
    if tree is None:
        match = _CALLED.search(site.expression)
        return match[1] if match else None
    if not isinstance(tree, ast.Call):
        return None
    for node in ast.walk(tree.func):
        # Who is called is what matters here, not with which arguments the object before the dot was made.
        if isinstance(node, ast.Call):
            node.args, node.keywords = [ast.Constant(...)], []
    return ast.unparse(tree.func)


def expression_node(site: BreakSite) -> ast.expr | None:
    """The expression that torch points to, or None where it is no whole expression.

    Where torch told the line alone, it is what the statement computes.
    """
    try:
        return ast.parse(site.expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        statement = None if is_pointed(site) else statement_node(site)
        return statement.value if isinstance(statement, _WITH_VALUE) else None


def is_pointed(site: BreakSite) -> bool:
    """Torch told the expression within the line."""
    return site.entry.column is not None


def statement_node(site: BreakSite) -> ast.stmt | None:
    """The statement that the line belongs to, or None where it is cut or cannot be parsed."""
    written = re.sub(r"^elif\b", "if", site.statement)
    # A log without our records has the line alone: a compound statement then lacks its body.
    for text in (written, f"{written}\n    ..."):
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError):
            continue
        return body[0] if body else None
    return None


def is_bare_call(site: BreakSite) -> bool:
    """The statement is a call whose result nobody uses, so that leaving it out breaks no other line."""
    return _bare_call(site) is not None


def _bare_call(site: BreakSite) -> ast.Call | None:
    statement = statement_node(site)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return statement.value
    return None


def in_with_header(site: BreakSite) -> bool:
    """The line is the ``with`` itself, not something in its body."""
    return isinstance(statement_node(site), ast.With | ast.AsyncWith)


def managers(site: BreakSite) -> str:
    """What the ``with`` at the line enters, else the expression."""
    statement = statement_node(site)
    if isinstance(statement, ast.With | ast.AsyncWith):
        return shortened(", ".join(ast.unparse(item.context_expr) for item in statement.items))
    return shortened(site.expression)


def looped_over(site: BreakSite) -> str:
    """What a `for` at the line goes through, else the expression."""
    statement = statement_node(site)
    if isinstance(statement, ast.For | ast.AsyncFor):
        return shortened(ast.unparse(statement.iter))
    return shortened(site.expression)


def shortened(text: str) -> str:
    """An expression in one line of at most 60 characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _MAX_LENGTH else flat[: _MAX_LENGTH - 1] + "…"


def in_context(site: BreakSite, pattern: str) -> str | None:
    """The first group of a pattern in torch's developer context of the cause, or None."""
    match = re.search(pattern, site.cause.context or "")
    return match[1] if match else None


def setting(
    name: str, title: str, *, value: bool | int = True, is_safe: bool = False, source: str | None = None
) -> Fix:
    """A value of ``torch._dynamo.config`` as a fix.

    Args:
        name: Such as ``capture_scalar_outputs``.
        title: One imperative sentence.
        value: What to set it to.
        is_safe: Whether it keeps results as they are.
        source: Where the fix is recommended.
    """
    return from_setting(
        Setting(name=f"torch._dynamo.config.{name}", value=value), title, is_safe=is_safe, source=source
    )


def from_setting(chosen: Setting, title: str, *, is_safe: bool = False, source: str | None = None) -> Fix:
    """A torch setting as a fix.

    Args:
        chosen: The setting.
        title: One imperative sentence.
        is_safe: Whether it keeps results as they are.
        source: Where the fix is recommended.
    """
    return Fix(
        title=title,
        kind="config",
        snippet=chosen.line,
        setting=chosen,
        is_safe=is_safe,
        source=source or "torch/_dynamo/config.py, 2.13",
    )


def guard_filter(name: str, risk: str) -> Fix:
    """One of ``torch.compiler``'s guard filters as a fix, marked unsafe.

    Args:
        name: Such as ``skip_guard_on_inbuilt_nn_modules_unsafe``.
        risk: What goes wrong in silence, a clause.
    """
    return Fix(
        title=f"Unsafe: leave guards out with torch.compiler.{name}; {risk}",
        kind="call",
        snippet=f'torch.compile(model, options={{"guard_filter_fn": torch.compiler.{name}}})',
        is_safe=False,
        source="torch/compiler/__init__.py, 2.13",
    )


def own_function(what: str) -> Fix:
    """The official way to live with a break: keep it in a small function of its own."""
    return Fix(
        title=f"If {what} must stay, keep it in a small function of its own, outside loops, `try` and `with`",
        kind="code",
        snippet="@torch.compiler.disable\ndef eager_part(*args):\n    ...",
        is_safe=True,
        source=_GUIDE,
    )


def guard_while_compiling(site: BreakSite, *, is_safe: bool = False) -> tuple[Fix, ...]:
    """The statement under ``if not torch.compiler.is_compiling()``; nothing where the program needs its value."""
    call, pointed = _bare_call(site), expression_node(site)
    if not site.is_own_code or call is None:
        return ()
    # The break may lie in an argument, such as a hook that is being registered: then the call itself is needed.
    if pointed is not None and ast.dump(pointed) != ast.dump(call):
        return ()
    body = "\n".join("    " + line for line in site.statement.splitlines())
    return (
        Fix(
            title=f"Skip `{shortened(site.statement)}` while compiling",
            kind="code",
            snippet=f"if not torch.compiler.is_compiling():\n{body}",
            is_safe=is_safe,
            source=_GUIDE,
        ),
    )

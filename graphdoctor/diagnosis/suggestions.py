"""Fixes that several rules suggest: settings, guard filters, a separate function, a check for compiling."""

from __future__ import annotations

import ast

from graphdoctor.diagnosis.lines import bare_call, expression_node, shortened
from graphdoctor.diagnosis.rule import BreakSite
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.run import Setting

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"


def setting(
    name: str, title: str, *, value: bool | int = True, is_safe: bool = False, source: str | None = None
) -> Fix:
    """A value of ``torch._dynamo.config`` as a fix.

    Args:
        name: The setting, such as ``capture_scalar_outputs``.
        title: One imperative sentence.
        value: What to set it to.
        is_safe: Whether results stay the same for every input.
        source: Where the fix is recommended.
    """
    chosen = Setting(name=f"torch._dynamo.config.{name}", value=value)
    return from_setting(chosen, title, is_safe=is_safe, source=source)


def from_setting(chosen: Setting, title: str, *, is_safe: bool = False, source: str | None = None) -> Fix:
    """A torch setting as a fix.

    Args:
        chosen: The setting.
        title: One imperative sentence.
        is_safe: Whether results stay the same for every input.
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
        name: The filter, such as ``skip_guard_on_inbuilt_nn_modules_unsafe``.
        risk: What torch no longer notices, a clause.
    """
    return Fix(
        title=f"Unsafe: drop guards with torch.compiler.{name}; {risk}",
        kind="call",
        snippet=f'torch.compile(model, options={{"guard_filter_fn": torch.compiler.{name}}})',
        is_safe=False,
        source="torch/compiler/__init__.py, 2.13",
    )


def own_function(what: str) -> Fix:
    """The official way to live with a break: move the code into a small function that stays eager."""
    return Fix(
        title=f"If {what} must stay, move it into a small function, called outside loops, `try` and `with`",
        kind="code",
        snippet="@torch.compiler.disable\ndef eager_part(*args):\n    ...",
        is_safe=True,
        source=_GUIDE,
    )


def guard_while_compiling(site: BreakSite, *, is_safe: bool = False) -> tuple[Fix, ...]:
    """The statement under ``if not torch.compiler.is_compiling()``; nothing if the program needs its value."""
    call, pointed = bare_call(site), expression_node(site)
    if not site.is_own_code or call is None:
        return ()
    # The break can be in an argument, such as a hook that is being registered: then the call itself is needed.
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

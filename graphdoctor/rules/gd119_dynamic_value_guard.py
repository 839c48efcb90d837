"""GD119: control flow on a size or number that only the data tells."""

from __future__ import annotations

import ast
from typing import ClassVar

from graphdoctor.diagnosis.lines import expression_node, shortened, statement_node
from graphdoctor.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.model.diagnosis import Fix

_GUIDE = "PyTorch user guide: torch.compile, dynamic shapes"
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}
_WORDS = ("Could not guard on data-dependent expression", "Could not extract specialized integer")


class DynamicValueGuard(BreakRule):
    """A decision about a size or number that torch captured without knowing it.

    ## What it finds
    `if`, `while`, `range`, `max` or another use that needs the value of a number which came out of a tensor: the
    length of `x[mask]` or `nonzero()`, or an `.item()`, captured under `capture_dynamic_output_shape_ops` or
    `capture_scalar_outputs`.

    ## Why it costs
    The number is symbolic while tracing. Where Python must know it, Dynamo ends the graph, although the operator that
    made it was captured.

    ## Example
    ```python
    import torch

    CONFIG = {"torch._dynamo.config.capture_dynamic_output_shape_ops": True}

    def forward(x):
        kept = x[x > 0]
        if kept.numel() > 2:
            return kept.sum()
        return kept.sum() * 0

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    CONFIG = {"torch._dynamo.config.capture_dynamic_output_shape_ops": True}

    def forward(x):
        kept = x[x > 0]
        torch._check(kept.numel() > 2)
        return kept.sum()

    def inputs():
        return (torch.randn(4, 8),)
    ```
    `torch._check(condition)` promises torch that the condition holds, and raises at run time where it does not.
    `torch.fx.experimental.symbolic_shapes.guard_or_false(condition)` takes the general way without asking.


    ## Fix safety
    Unsafe: with `torch._check` the other way of the branch becomes an error.

    ## Source
    PyTorch user guide, "Dynamic shapes" (data-dependent expressions);
    `torch/fx/experimental/symbolic_shapes.py`, 2.13 (`guard_or_false`).
    """

    code: ClassVar = "GD119"
    name: ClassVar = "dynamic-value-guard"
    severity: ClassVar = "warning"

    def matches(self, site: BreakSite) -> bool:
        """By a branch on a symbolic number, or by the words of the guard that torch could not make."""
        is_branch = site.cause.gb_type.lower().startswith("data-dependent branch")
        is_symbolic = "SymNodeVariable" in (site.cause.context or "")
        words = site.records[0].words
        return (is_branch and is_symbolic) or any(text in words for text in _WORDS)

    def message(self, site: BreakSite) -> str:
        """What needs the number."""
        return f"`{_shown(site)}` needs the value of a number that torch captured as unknown"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """A promise, or the way that is right for every value."""
        if not site.is_own_code:
            return ()
        statement, condition = statement_node(site), _condition(site)
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise):
            opposite = _opposite(statement.test)
            title = f"Replace `if {_shown(site)}: raise` by a check in the graph"
            return (_fix(title, snippet=f"torch._check({opposite})" if opposite else None),)
        if condition is None:
            return (_fix("Make the number known before the compiled function, or compute with a tensor in its place"),)
        test = ast.unparse(condition)
        check = _fix("If it always holds, say so before", snippet=f"torch._check({test})")
        general = _fix(
            "If one way is right for every value, take it by `guard_or_false`",
            snippet=f"torch.fx.experimental.symbolic_shapes.guard_or_false({test})",
        )
        return (check, general)


def _fix(title: str, *, snippet: str | None = None) -> Fix:
    return Fix(title=title, kind="code", snippet=snippet, source=_GUIDE)


def _condition(site: BreakSite) -> ast.expr | None:
    """What is asked about the number, where the line branches."""
    statement, pointed = statement_node(site), expression_node(site)
    if isinstance(statement, ast.If | ast.Assert):
        return statement.test
    return pointed if isinstance(pointed, ast.Compare) and not isinstance(statement, ast.While) else None


def _shown(site: BreakSite) -> str:
    condition = _condition(site)
    return shortened(ast.unparse(condition) if condition else site.expression)


def _opposite(test: ast.expr) -> str | None:
    """The comparison that holds where this one does not; None for anything but one comparison."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or type(test.ops[0]) not in _OPPOSITES:
        return None
    return ast.unparse(ast.Compare(test.left, [_OPPOSITES[type(test.ops[0])]()], test.comparators))

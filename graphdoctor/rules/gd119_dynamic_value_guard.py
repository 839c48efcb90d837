"""GD119: control flow on a size or number that depends on the data."""

from __future__ import annotations

import ast

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix, rewritten, shortened

_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}


class DynamicValueGuard(BreakRule):
    """Code that needs the value of a size or number that torch captured as a symbol.

    ## What it finds
    `if`, `while`, `range`, `max` or another operation that needs the value of a number computed
    from a tensor: the length of `x[mask]` or `nonzero()`, or an `.item()`, captured with
    `capture_dynamic_output_shape_ops` or `capture_scalar_outputs`.

    ## Why it costs
    The number is symbolic while tracing. If Python needs its value, Dynamo ends the graph, although
    it captured the operator that computes the number.

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
    CONFIG = {"torch._dynamo.config.capture_dynamic_output_shape_ops": True}

    def forward(x):
        kept = x[x > 0]
        torch._check(kept.numel() > 2)
        return kept.sum()
    ```
    `torch._check(condition)` tells torch that the condition holds, and raises at run time if it
    doesn't. `torch.fx.experimental.symbolic_shapes.guard_or_false(condition)` is false if torch
    doesn't know, without a guard.


    ## Fix safety
    Unsafe: with `torch._check`, the other branch becomes an error.

    ## Source
    PyTorch user guide, "Dynamic shapes" (data-dependent expressions);
    `torch/fx/experimental/symbolic_shapes.py`, 2.13 (`guard_or_false`).
    """

    guide = "PyTorch user guide: torch.compile, dynamic shapes"
    topic = "symbolic_number"

    def matches(self, site: BreakSite) -> bool:
        is_branch = site.gb_type.lower().startswith("data-dependent branch")
        return (is_branch and "SymNodeVariable" in site.torch_context) or super().matches(site)

    def message(self, site: BreakSite) -> str:
        return f"`{_shown(site)}` needs the value of a number that is symbolic here"

    def suggested(self, site: BreakSite) -> Fixes:
        statement, condition = site.statement_node, _condition(site)
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise):
            opposite = _opposite(statement.test)
            title = f"Replace `if {_shown(site)}: raise` with a check in the graph, `torch._check`"
            is_only = opposite is not None and len(statement.body) == 1 and not statement.orelse
            yield rewritten(site, f"torch._check({opposite})" if is_only else None, title)
            return
        # `not` of a captured bool needs its value, in a check too.
        if condition is None or isinstance(condition, ast.UnaryOp):
            yield code_fix(
                "Compute the number before calling the compiled function, or use a tensor instead"
            )
            return
        test = ast.unparse(condition)
        # An empty selection is what a program excludes.
        opposite = _opposite(condition) if test.endswith(" == 0") else None
        often = "never" if opposite else "always"
        title = f"If `{shortened(test)}` {often} holds, tell torch first, with `torch._check`"
        yield rewritten(site, f"torch._check({opposite or test})", title, where="before")
        yield code_fix(
            "If one branch is right for every value, choose it with `guard_or_false` of "
            "`torch.fx.experimental.symbolic_shapes`"
        )


def _condition(site: BreakSite) -> ast.expr | None:
    """The condition on the number, or None if the line doesn't branch."""
    statement, pointed = site.statement_node, site.node
    if isinstance(statement, ast.If | ast.Assert):
        return statement.test
    return (
        pointed
        if isinstance(pointed, ast.Compare) and not isinstance(statement, ast.While)
        else None
    )


def _shown(site: BreakSite) -> str:
    condition = _condition(site)
    return shortened(ast.unparse(condition) if condition else site.expression)


def _opposite(test: ast.expr) -> str | None:
    """The opposite of a single comparison; None for any other expression."""
    if (
        not isinstance(test, ast.Compare)
        or len(test.ops) != 1
        or type(test.ops[0]) not in _OPPOSITES
    ):
        return None
    return ast.unparse(ast.Compare(test.left, [_OPPOSITES[type(test.ops[0])]()], test.comparators))

"""GD104: an operator whose output shape depends on values."""

from __future__ import annotations

import ast

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix, setting


class DynamicShapeOperator(BreakRule):
    """An operator whose output shape depends on a tensor's values.

    ## What it finds
    `nonzero`, `x[mask]`, `torch.where(cond)` with one argument, `unique`, `bincount`,
    `repeat_interleave` with a tensor, and `one_hot` without `num_classes`.

    ## Why it costs
    The size of the result is unknown while tracing. Dynamo ends the graph, runs the operator in
    Python, and compiles the rest for the size it saw.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        return y[y > 0].sum()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin()
        return torch.where(y > 0, y, 0.0).sum()
    ```
    Or set `torch.compiler.config.capture_dynamic_output_shape_ops = True` to capture the operator
    with a symbolic size.

    ## Fix safety
    Unsafe: `torch.where` keeps the shape, so the fill value must be neutral for all later
        operations: 0 for a sum, -inf
    for a maximum.

    ## Source
    PyTorch user guide, "Common graph breaks" (data-dependent operations); torch's own hints for
    GB0036 and GB0246.
    """

    torch_ids = ("GB0036", "GB0246")
    gb_type = "Dynamic shape operator"

    def message(self, site: BreakSite) -> str:
        operator = site.in_context(r"^aten\._?([a-z_]+)") or (
            "one_hot" if "one_hot" in site.gb_type else None
        )
        by = f" (`{operator}`)" if operator else ""
        if _is_combinations(site):
            return f"torch doesn't know the shape of `{site.shown}` before it has run{by}"
        return f"the shape of `{site.shown}` depends on a tensor's values{by}"

    def suggested(self, site: BreakSite) -> Fixes:
        if "one_hot" in site.gb_type:
            yield code_fix(
                "Pass `num_classes` to `one_hot`", "torch's hint for GB0246", is_safe=True
            )
            return
        if _is_combinations(site):
            # Their number depends on sizes alone, and torch raises an error if it captures the
            # operator (2.13).
            title = "Make the combinations of positions once, outside the compiled function, and index with them"
            yield code_fix(f"{title}: `t[torch.combinations(torch.arange(n))]`")
            return
        if isinstance(site.statement_node, ast.For):
            yield code_fix(
                "Compute for all elements with tensor operations: a loop over some needs their number"
            )
            return
        if site.in_context(r"^aten\.(nonzero|masked_select|index)\b") is not None:
            yield code_fix(
                "Keep the shape: choose values by a mask with `torch.where` instead of selecting elements"
            )
        title = "Let torch capture the operator with a symbolic size"
        condition = "if no branch or loop depends on that size"
        yield setting(
            "capture_dynamic_output_shape_ops",
            title,
            "torch's hint for GB0036",
            condition=condition,
        )


def _is_combinations(site: BreakSite) -> bool:
    return (site.called or "").endswith("combinations")

"""GD102: Python control flow on a tensor's value."""

from __future__ import annotations

import ast
from typing import ClassVar, Literal

from graphdoctor.model.diagnosis import Fix
from graphdoctor.rules.base import BreakRule, BreakSite
from graphdoctor.rules.wording import shortened

_GUIDE = "PyTorch user guide: torch.compile, common graph breaks"

Kind = Literal["while", "raise", "assert", "condition"]


class DataDependentBranch(BreakRule):
    """A branch whose condition is a tensor.

    ## What it finds
    `if`, `while`, `assert`, `and`/`or` or a conditional expression whose condition is computed from a tensor's values.

    ## Why it costs
    Which way the program goes is known only when the tensor has been computed. Dynamo ends the graph at the
    condition, reads the value in Python (which waits for a GPU) and compiles what follows as separate graphs, one a
    way taken.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        if y.sum() > 0:
            y = y * 2
        return y.cos()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        y = x.sin()
        y = torch.where(y.sum() > 0, y * 2, y)
        return y.cos()

    def inputs():
        return (torch.randn(4, 8, requires_grad=True),)
    ```
    Where the two ways are too different for `torch.where`, `torch.cond(pred, true_fn, false_fn, operands)` keeps
    both in the graph; a condition that never changes belongs outside the compiled function; `if bad: raise` becomes
    `torch._assert_async(~bad)`.

    ## Fix safety
    `torch.where` computes both sides: unsafe where one side has a side effect or yields NaN that the other is meant
    to avoid, because gradients then become NaN too.

    ## Source
    PyTorch user guide, "Common graph breaks" (data-dependent operations); torch's own hints for GB0170.
    """

    code: ClassVar = "GD102"
    name: ClassVar = "data-dependent-branch"
    severity: ClassVar = "warning"
    torch_ids: ClassVar = frozenset({"GB0170"})

    def matches(self, site: BreakSite) -> bool:
        """By id, or by the name that other versions give it."""
        gb_type = site.cause.gb_type.lower()
        return super().matches(site) or gb_type.startswith(("data-dependent branch", "data-dependent assert"))

    def message(self, site: BreakSite) -> str:
        """What depends on a tensor."""
        condition = f"`{shortened(site.expression)}`"
        match _kind(site):
            case "while":
                return f"the `while` loop goes on as long as a tensor says: {condition}"
            case "raise":
                return f"an exception is raised when a tensor says so: {condition}"
            case "assert":
                return f"the assertion reads a tensor: {condition}"
            case _:
                return f"the branch depends on a tensor's value: {condition}"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """What the kind of branch allows; code fixes for one's own files only."""
        if not site.is_own_code:
            return (
                Fix(
                    title="Call this part of the package under torch.compiler.disable, or pass what avoids the branch",
                    kind="call",
                    source=_GUIDE,
                ),
            )
        condition = shortened(site.expression)
        cond = Fix(
            title="Keep both ways in the graph with `torch.cond`",
            kind="code",
            snippet=f"torch.cond({condition}, true_fn, false_fn, (operands,))",
            source=_GUIDE,
        )
        match _kind(site):
            case "while":
                return (
                    Fix(
                        title="Write the loop with `torch.while_loop`, or give it a fixed number of steps",
                        kind="code",
                        source="torch/_higher_order_ops/while_loop.py, 2.13",
                    ),
                )
            case "raise" | "assert":
                return (
                    Fix(
                        title="Check it in the graph, without reading the value",
                        kind="code",
                        snippet=f"torch._assert_async({_checked(site, condition)})",
                        source=_GUIDE,
                    ),
                )
            case _:
                where = Fix(
                    title=f"Replace the branch on `{condition}` by `torch.where`",
                    kind="code",
                    snippet=f"torch.where({condition}, …, …)",
                    source=_GUIDE,
                )
                return (where, cond)


def _checked(site: BreakSite, condition: str) -> str:
    """What must hold: the asserted condition, or the opposite of the one that raises."""
    return condition if _kind(site) == "assert" else f"~({condition})"


def _kind(site: BreakSite) -> Kind:
    """What the branch is, read from the statement where it parses."""
    try:
        statement = ast.parse(site.statement).body[0]
    except (SyntaxError, IndexError, ValueError):
        if site.text.startswith("while "):
            return "while"
        return "assert" if site.text.startswith("assert ") else "condition"
    if isinstance(statement, ast.While):
        return "while"
    if isinstance(statement, ast.Assert):
        return "assert"
    if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise) and not statement.orelse:
        return "raise"
    return "condition"

"""GD100: every graph break that has no rule of its own."""

from __future__ import annotations

import re

from graphdoctor.facts.fixes import Fix
from graphdoctor.rules.toolkit import BreakRule, BreakSite, code_fix

_EMPTY_HINTS = re.compile(
    r"report an issue|file an issue|It may be possible to write Dynamo tracing rules|This graph break is fundamental"
    r"|likely to be a Dynamo bug|caused by an earlier graph break"
    r"|Your code may result in an error when running in eager|If the HOP is activation checkpointing",
    re.IGNORECASE,
)
_BUILD = "torch/_dynamo/variables/builtin.py, 2.13: __build_class__"


class GraphBreak(BreakRule):
    """A graph break without a rule of its own.

    ## What it finds
    A graph break that no other rule describes. The message and the hints are torch's own.

    ## Why it costs
    Dynamo ends the graph and starts a new one after the line. Each graph has its own guards and is
    compiled and launched separately, and no operations are fused across the break. If Dynamo can't
    resume after the line, the whole function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x):
        y = x.sin()
        y.resize_(2, 16)
        return y.cos()

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    def forward(x):
        y = x.sin().reshape(2, 16)
        return y.cos()
    ```

    ## Fix safety
    It depends on the break. Read torch's hints.

    ## Source
    torch's own messages. PyTorch's graph break website explains each id.
    """

    gb_type = ""

    def message(self, site: BreakSite) -> str:
        return f"`{site.shown}`: {site.gb_type}" if site.expression.strip() else site.gb_type

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        if site.gb_type.startswith("Invalid call to __build_class__") and site.is_own_code:
            return (
                code_fix(
                    "Move the class out of the compiled function, and pass it what it reads there",
                    _BUILD,
                ),
            )
        if site.gb_type.startswith("Uninitialized nn.Module") and site.expression.startswith(
            "super("
        ):
            return (
                code_fix(
                    "Construct the module outside the compiled function",
                    "torch/nn/modules/module.py, 2.13",
                ),
            )
        useful = [hint for hint in site.cause.hints if not _EMPTY_HINTS.search(hint)]
        return tuple(
            Fix(
                title=" ".join(hint.split()),
                kind="config" if "config." in hint else "code",
                source="torch's hint",
            )
            for hint in useful[:2]
        )

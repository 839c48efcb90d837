"""GD100: every graph break that has no rule of its own."""

from __future__ import annotations

import re
from typing import ClassVar

from graphdoctor.diagnosis.lines import shortened
from graphdoctor.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.model.diagnosis import Fix

_EMPTY_HINTS = re.compile(
    r"report an issue|file an issue|It may be possible to write Dynamo tracing rules|This graph break is fundamental"
    r"|likely to be a Dynamo bug|caused by an earlier graph break",
    re.IGNORECASE,
)


class GraphBreak(BreakRule):
    """A graph break without a rule of its own.

    ## What it finds
    Any graph break that no other rule knows; its message and hints are torch's own.

    ## Why it costs
    Dynamo ends the graph and starts another one behind the line: each part is guarded, compiled and launched by
    itself, and nothing is fused across. Where it cannot go on behind the line, the whole function runs eagerly.

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
    import torch

    def forward(x):
        y = x.sin().reshape(2, 16)
        return y.cos()

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Fix safety
    Depends on the break: read torch's hints.

    ## Source
    torch's own messages; the graph-break site of PyTorch explains each id.
    """

    code: ClassVar = "GD100"
    name: ClassVar = "graph-break"
    severity: ClassVar = "warning"

    def matches(self, site: BreakSite) -> bool:
        """Always."""
        return True

    def message(self, site: BreakSite) -> str:
        """Torch's name of the break, and the line's expression."""
        expression = shortened(site.expression)
        return f"`{expression}`: {site.cause.gb_type}" if expression else site.cause.gb_type

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """Torch's hints, without those that say nothing about the line."""
        useful = [hint for hint in site.cause.hints if not _EMPTY_HINTS.search(hint)]
        return tuple(
            Fix(title=" ".join(hint.split()), kind="config" if "config." in hint else "code", source="torch's hint")
            for hint in useful[:2]
        )

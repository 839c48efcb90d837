"""GD207: a condition on a dynamic size that no longer holds."""

from __future__ import annotations

import re
from typing import ClassVar

from graphdoctor.diagnosis.recompile_wording import GUIDE, recompiled
from graphdoctor.diagnosis.recompiles import RecompileGroup
from graphdoctor.diagnosis.rule import RecompileRule
from graphdoctor.model.diagnosis import Fix

_SMALL = re.compile(r"^2 <= (\S+\.shape\[\d+\])$")


class SpecializedDim(RecompileRule):
    """A dynamic dim for which a condition in the code no longer holds.

    ## What it finds
    Compiles although the dim is dynamic: the compiled code holds for the sizes that satisfy a condition only, and a
    call came with another. The condition is an `if` on a size, a comparison of two sizes, or torch's own: sizes of 0
    and 1 get code of their own.

    ## Why it costs
    Each compile takes as long as the first one, in the middle of a call; after `recompile_limit` of them (8) the
    function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.sin() if x.shape[0] % 2 == 0 else x.cos()

    def inputs():
        calls = [(torch.ones(4, 8),), (torch.ones(5, 8),)]
        for (x,) in calls:
            torch._dynamo.mark_dynamic(x, 0)
        return calls
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        return x.sin()

    def inputs():
        calls = [(torch.ones(4, 8),), (torch.ones(5, 8),)]
        for (x,) in calls:
            torch._dynamo.mark_dynamic(x, 0)
        return calls
    ```

    ## Fix safety
    Taking a branch away changes what the function computes; only the author knows whether both sides are needed. Where
    they are, two compiles are right.

    ## Source
    PyTorch user guide, "Dynamic shapes": 0/1 specialisation; `torch/fx/experimental/symbolic_shapes.py`, 2.13.
    """

    code: ClassVar = "GD207"
    name: ClassVar = "specialized-dim"
    severity: ClassVar = "warning"
    kinds: ClassVar = frozenset({"relation"})

    def message(self, group: RecompileGroup) -> str:
        """The condition, and the size that does not satisfy it."""
        change = group.first
        if match := _SMALL.match(change.expression):
            value = (change.new or "").rpartition(" = ")[2] or "0 or 1"
            return recompiled(group, f"`{match[1]}` is {value}: torch compiles code of its own for 0 and 1")
        told = f": it was compiled for {change.old}" if change.old else ""
        now = f", now {change.new}" if change.new else ""
        return recompiled(group, f"`{change.expression}` no longer holds{told}{now}")

    def fixes(self, group: RecompileGroup) -> tuple[Fix, ...]:
        """Edit the condition; for 0 and 1 pad, or mark the size as unbacked."""
        change = group.first
        if match := _SMALL.match(change.expression):
            tensor, _, index = match[1].partition(".shape[")
            return (
                Fix(title="Call it with a size of 1 while warming up, or pad to 2", kind="call", source=GUIDE),
                Fix(
                    title="Let torch take the size to be anything, 0 and 1 included",
                    kind="call",
                    snippet=f"torch._dynamo.decorators.mark_unbacked({tensor}, {index.rstrip(']')})",
                    source="torch's hint",
                ),
            )
        where = change.guard_location
        line = f" at line {where.line}" if where is not None else ""
        return (
            Fix(title=f"Write the code{line} so that one version holds for all sizes", kind="code", source=GUIDE),
            Fix(title="If both sides are needed, call both while warming up", kind="call", source=GUIDE),
        )

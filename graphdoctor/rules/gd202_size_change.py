"""GD202: a tensor whose size changes from call to call."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.diagnosis.recompile_wording import GUIDE, argument, changed, dim, recompiled
from graphdoctor.diagnosis.recompiles import RecompileGroup
from graphdoctor.diagnosis.rule import RecompileRule
from graphdoctor.model.diagnosis import Fix


class SizeChange(RecompileRule):
    """A tensor whose size, or number of dims, changes from call to call.

    ## What it finds
    Compiles because a dim that the compiled code takes to be fixed has another size. torch makes a dim dynamic of its
    own accord at the second size that it sees, so that a dim compiles twice; each further dim, each tensor that
    changes on its own and each size of 0 or 1 does it again.

    ## Why it costs
    Each compile takes as long as the first one, in the middle of a call; after `recompile_limit` of them (8) the
    function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.sin() + 1

    def inputs():
        return [(torch.ones(4, 8),), (torch.ones(6, 8),)]
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        return x.sin() + 1

    def inputs():
        calls = [(torch.ones(4, 8),), (torch.ones(6, 8),)]
        for (x,) in calls:
            torch._dynamo.mark_dynamic(x, 0)
        return calls
    ```

    ## Fix safety
    A dynamic dim keeps results. Code for any size can be slower than code for one: where the sizes are few, pad to
    them, or let torch compile each of them.

    ## Source
    PyTorch user guide, "Dynamic shapes" and "Recompilation"; `torch/_dynamo/decorators.py`, 2.13 (`mark_dynamic`).
    """

    code: ClassVar = "GD202"
    name: ClassVar = "size-change"
    severity: ClassVar = "warning"
    kinds: ClassVar = frozenset({"size", "rank", "dynamic_marking"})

    def message(self, group: RecompileGroup) -> str:
        """Which size changed from what to what."""
        return recompiled(group, changed(group))

    def fixes(self, group: RecompileGroup) -> tuple[Fix, ...]:
        """Mark the very dims; dynamic shapes for all."""
        if group.first.kind == "rank":
            return (Fix(title="Give the tensor the same number of dims in each call", kind="call", source=GUIDE),)
        if group.first.kind == "dynamic_marking":
            return (Fix(title="Mark the same dims in each call, from the first on", kind="call", source=GUIDE),)
        marks = {
            f"torch._dynamo.mark_dynamic({name}, {at})": None
            for changes in group.changes
            for change in changes
            if (name := argument(change)) is not None and (at := dim(change)) is not None
        }
        everything = Fix(
            title="Compile with dynamic shapes from the start",
            kind="call",
            snippet="torch.compile(model, dynamic=True)",
            is_safe=True,
            source=GUIDE,
        )
        if not marks:
            return (everything,)
        title = (
            "Mark the dim as dynamic before the first call"
            if len(marks) == 1
            else "Mark the dims before the first call"
        )
        return (Fix(title=title, kind="call", snippet="\n".join(marks), is_safe=True, source=GUIDE), everything)

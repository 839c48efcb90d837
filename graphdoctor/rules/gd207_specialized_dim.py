"""GD207: a condition on a dynamic size that no longer holds."""

from __future__ import annotations

import re

from graphdoctor.facts.guards import GuardChange
from graphdoctor.rules.toolkit import (
    Fixes,
    RecompileGroup,
    RecompileRule,
    call_fix,
    code_fix,
    config_fix,
    is_specialized,
    quoted,
    sources_setting,
)

_SMALL = re.compile(r"^(?:2 <= )?(\S+\.shape\[\d+\]|shape\[\d+\] of .+)$")


class SpecializedDim(RecompileRule):
    """A dynamic dim for which a condition in the code no longer holds.

    ## What it finds
    Recompiles although the dim is dynamic, because the compiled code is only valid for sizes that
    satisfy a condition, and a call has a different size. The condition is an `if` on a size, a
    comparison of two sizes, or one of torch's
    own: it specializes sizes 0 and 1.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly.

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
    For sizes 0 and 1, pad, or name the tensor in `torch.compiler.config.unbacked_sources`.

    ## Use instead
    ```python
    def forward(x):
        return x.sin()
    ```

    ## Fix safety
    Removing a branch changes what the function computes. If you need both branches, two compiles
    are correct.

    ## Source
    PyTorch user guide, "Dynamic shapes": 0/1 specialization;
    `torch/fx/experimental/symbolic_shapes.py`, 2.13.
    """

    kinds = ("relation",)

    def matches(self, change: GuardChange) -> bool:
        return super().matches(change) or is_specialized(change)

    def because(self, group: RecompileGroup) -> str:
        change = group.first
        if match := _SMALL.match(change.expression):
            return f"{quoted(match[1])} is {_size(change)}, and torch compiles separate code for 0 and 1"
        before = f": it was compiled for {change.old}" if change.old else ""
        now = f", now {change.new}" if change.new else ""
        return f"{quoted(change.expression)} no longer holds{before}{now}"

    def fixes(self, group: RecompileGroup) -> Fixes:
        change = group.first
        if match := _SMALL.match(change.expression):
            tensor = match[1].partition(".shape[")[0]
            title = "Tell torch that sizes can be anything, including 0 and 1"
            in_words = f"{title}: name the tensor in `torch.compiler.config.unbacked_sources`"
            warm_up = call_fix(
                f"Call it with a size of {_size(change)} during warm-up, or pad to 2"
            )
            if match[1].startswith("shape"):
                # What an earlier line computed has no name that torch takes.
                return (warm_up,)
            return (
                warm_up,
                sources_setting("unbacked_sources", [f"L['{tensor}']"], title)
                if tensor.isidentifier()
                else config_fix(in_words, "torch/compiler/config.py, 2.13"),
            )
        where = change.guard_location
        line = f" on line {where.line}" if where is not None else ""
        # torch computes with a dynamic number of a module as with a size.
        what = (
            "sizes" if ".shape[" in change.expression or ".size(" in change.expression else "values"
        )
        return (
            code_fix(f"Write the code{line} so that one version holds for all {what}"),
            call_fix("If you need both branches, call both during warm-up"),
        )


def _size(change: GuardChange) -> str:
    return (change.new or "").rpartition(" = ")[2] or "0 or 1"

"""GD200: a function that was compiled again, for a reason that no other rule knows."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.diagnosis.recompile_wording import GUIDE, changed, recompiled
from graphdoctor.diagnosis.recompiles import RecompileEvent, RecompileGroup
from graphdoctor.diagnosis.rule import RecompileRule
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.recompiles import GuardChange


class Recompile(RecompileRule):
    """A function that torch compiled again because a guard failed.

    ## What it finds
    Compiles of a function that had compiled code already, where what changed is of none of the kinds that have a rule
    of their own; torch's words say what it was.

    ## Why it costs
    Each one takes as long as the first compile, in the middle of a call, and after `recompile_limit` of them (8) torch
    stops compiling the function without a word.

    ## Example
    ```python
    import torch

    def forward(x, names):
        return x.sin() if "a" in names else x.cos()

    def inputs():
        return [(torch.ones(4), {"a"}), (torch.ones(4), {"b"})]
    ```
    In a `TORCH_TRACE` log, where torch's words (`set.__contains__(names, 'a')`) are all there is; while it runs
    graphdoctor sees that the set is another one, which is GD216.

    ## Use instead
    ```python
    import torch

    def forward(x, has_a):
        return torch.where(has_a, x.sin(), x.cos())

    def inputs():
        return [(torch.ones(4), torch.tensor(True)), (torch.ones(4), torch.tensor(False))]
    ```

    ## Fix safety
    Dynamic shapes and tensors in place of numbers keep results; code specialised on a value can be faster than general
    code.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13 (`recompile_reasons`).
    """

    code: ClassVar = "GD200"
    name: ClassVar = "recompile"
    severity: ClassVar = "warning"

    def matches(self, change: GuardChange, event: RecompileEvent) -> bool:
        """Whatever is left."""
        return True

    def message(self, group: RecompileGroup) -> str:
        """One sentence, with torch's words where nothing better is known."""
        return recompiled(group, changed(group))

    def fixes(self, group: RecompileGroup) -> tuple[Fix, ...]:
        """The general remedy."""
        return (
            Fix(
                title="Keep the value the same from call to call, or pass it as a tensor",
                kind="call",
                source=GUIDE,
            ),
        )

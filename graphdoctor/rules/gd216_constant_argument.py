"""GD216: a flag, text or None that changes from call to call."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.diagnosis.recompile_wording import GUIDE, changed, quoted, recompiled
from graphdoctor.diagnosis.recompiles import RecompileGroup
from graphdoctor.diagnosis.rule import RecompileRule
from graphdoctor.model.diagnosis import Fix


class ConstantArgument(RecompileRule):
    """A bool, a text, None or another constant that changes from call to call.

    ## What it finds
    Compiles because a value that the compiled code takes to be a constant is another one: a flag, a mode's name, an
    optional argument that is given in some calls only.

    ## Why it costs
    Each compile takes as long as the first one, in the middle of a call; after `recompile_limit` of them (8) the
    function runs eagerly. A flag has two versions, a text as many as there are texts.

    ## Example
    ```python
    import torch

    def forward(x, mode):
        return x.sin() if mode == "a" else x.cos()

    def inputs():
        return [(torch.ones(4), "a"), (torch.ones(4), "b")]
    ```

    ## Use instead
    ```python
    import torch

    def forward(x, is_first):
        return torch.where(is_first, x.sin(), x.cos())

    def inputs():
        return [(torch.ones(4), torch.tensor(True)), (torch.ones(4), torch.tensor(False))]
    ```

    ## Fix safety
    Warming up keeps results and only moves the compiles. Computing both sides and choosing costs both.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13 (`EQUALS_MATCH`).
    """

    code: ClassVar = "GD216"
    name: ClassVar = "constant-argument"
    severity: ClassVar = "warning"
    kinds: ClassVar = frozenset({"flag", "text", "none", "value"})

    def message(self, group: RecompileGroup) -> str:
        """Which constant changed from what to what."""
        return recompiled(group, changed(group))

    def fixes(self, group: RecompileGroup) -> tuple[Fix, ...]:
        """Bound the variants, or split the function."""
        name = quoted(group.first.expression)
        return (
            Fix(
                title=f"Call it once with each value of {name} before the run", kind="call", is_safe=True, source=GUIDE
            ),
            Fix(title=f"Compile one function for each value of {name}", kind="code", source=GUIDE),
        )

"""GD216: a flag, string or None that changes from call to call."""

from __future__ import annotations

from graphdoctor.rules.toolkit import (
    Fixes,
    RecompileGroup,
    RecompileRule,
    call_fix,
    code_fix,
    quoted,
)


class ConstantArgument(RecompileRule):
    """A bool, string, None or other constant that changes from call to call.

    ## What it finds
    Recompiles because a value that was compiled as a constant changed: a flag, the name of a mode,
    an optional argument that only some calls pass.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly. A flag has two versions; a string can
    have any number.

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
    def forward(x, is_first):
        return torch.where(is_first, x.sin(), x.cos())

    def inputs():
        return [(torch.ones(4), torch.tensor(True)), (torch.ones(4), torch.tensor(False))]
    ```

    ## Fix safety
    A warm-up keeps results the same and only moves the compiles. Computing both branches costs the
    time of both.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13 (`EQUALS_MATCH`).
    """

    kinds = ("flag", "text", "none", "value")
    is_about_calls = True

    def fixes(self, group: RecompileGroup) -> Fixes:
        name = quoted(group.first.expression)
        if (
            group.first.kind == "none"
            and group.first.old == "None"
            and group.passed(group.first) is None
        ):
            yield code_fix(
                f"Set {name} before the first call", condition="if it can start with a value"
            )
        yield from (
            call_fix(f"Call it once with each value of {name} during warm-up", is_safe=True),
            code_fix(f"Compile one function for each value of {name}"),
        )

"""GD205: a module's number that changes from call to call."""

from __future__ import annotations

from graphdoctor.facts.guards import GuardChange
from graphdoctor.rules.gd203_number_argument import is_index
from graphdoctor.rules.toolkit import (
    Fixes,
    RecompileGroup,
    RecompileRule,
    call_fix,
    code_fix,
    quoted,
    setting,
)


class ModuleNumber(RecompileRule):
    """An int or float attribute of a module that changes from call to call.

    ## What it finds
    Recompiles because a number that is an attribute of a module has a different value, such as a
    step counter or a scale that a schedule changes. torch treats an int attribute of a module as a
    constant, so each value causes a recompile.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly.

    ## Example
    ```python
    import torch

    class Net(torch.nn.Module):
        step = 0

        def forward(self, x):
            return x * self.step

    forward = Net()

    def inputs():
        for step in range(3):
            forward.step = step
            yield (torch.ones(4),)
    ```

    ## Use instead
    ```python
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("step", torch.tensor(0))

        def forward(self, x):
            return x * self.step

    forward = Net()

    def inputs():
        for step in range(3):
            forward.step.fill_(step)
            yield (torch.ones(4),)
    ```

    ## Fix safety
    The setting keeps results the same. A buffer is saved in the module's `state_dict` unless it has
    `persistent=False`, and moves to a device with the module.

    ## Source
    torch's hint for this guard; `torch/_dynamo/config.py`, 2.13 (`allow_unspec_int_on_nn_module`).
    """

    kinds = ("module_number",)

    def fixes(self, group: RecompileGroup) -> Fixes:
        # Of a float, torch makes a dynamic number by itself.
        ints = (
            change for found in group.changes for change in found if "." not in (change.old or ".")
        )
        return module_number_fixes(next(ints, group.first))


def module_number_fixes(change: GuardChange) -> Fixes:
    """The fixes for a number on a module, such as ``self.step``."""
    name = quoted(change.expression)
    if is_index(change):
        title = f"Call it once with each value of {name} during warm-up: torch compiles an index for its value"
        return (call_fix(title, is_safe=True),)
    how = "register it with `register_buffer` where it is first set, and update it in place"
    buffer = code_fix(f"Keep {name} in a buffer, if only tensor arithmetic uses it: {how}")
    # An int of a global stays a constant under the setting, too.
    if "." in (change.old or "") or "G[" in (change.source or ""):
        return (buffer,)
    title = "Let torch make the module's int dynamic"
    return (setting("allow_unspec_int_on_nn_module", title, "torch's hint", is_safe=True), buffer)

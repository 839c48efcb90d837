"""GD217: a call that recompiles each time, even with the same arguments."""

from __future__ import annotations

from graphdoctor.rules.diagnosis.steadiness import steadiness_of, unsettled
from graphdoctor.rules.gd205_module_number import module_number_fixes
from graphdoctor.rules.toolkit import (
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    counted,
    names,
)


class NeverSettles(RecordingRule, severity="error"):
    """A call that recompiles each time, even with the same arguments.

    ## What it finds
    A call that still compiled something each time it was repeated with the same arguments. Usually
    the function changes a value that torch guards on, such as a counter on the module.

    ## Why it costs
    Every call recompiles, which takes far longer than running eagerly. After `recompile_limit` (8)
    compiles, torch runs the function eagerly, without a warning, until the process ends. There is
    no steady call to measure, so coverage and the cost of breaks are unknown.

    ## Example
    ```python
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = 0

        def forward(self, x):
            self.seen += 1
            return x * self.seen

    forward = Net()

    def inputs():
        return [(torch.ones(4),), (torch.ones(4),)]
    ```

    ## Use instead
    ```python
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.tensor(0), persistent=False)

        def forward(self, x):
            self.seen += 1
            return x * self.seen

    forward = Net()
    ```

    ## Fix safety
    A buffer keeps results the same. It is saved in the module's `state_dict` unless it has
    `persistent=False`.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/convert_frame.py`, 2.13
    (`exceeds_recompile_limit`).
    """

    def findings(self, view: RecordingView) -> Matches:
        settling, steadiness = view.recording.settling, steadiness_of(view)
        frame, changes = unsettled(view.recording)
        if frame is None or settling is None or steadiness is None:
            return
        why = f", because {names(steadiness.changing)} changed" if steadiness.changing else ""
        end = ""
        if steadiness.compiles_to_limit is not None:
            end = f", and it runs eagerly after {counted(steadiness.compiles_to_limit, 'compile')}"
        yield RuleMatch(
            entry=frame.entry,
            message=f"`{frame.described}` recompiles in every call, even with the same arguments{why}{end}",
            count=sum(found.frame_id == frame.frame_id for found in settling.recompiles),
            changes=changes,
            # Values that aren't a number on a module have no fix of their own here.
            fixes=(
                fix
                for one in changes
                if one.kind == "module_number"
                for fix in module_number_fixes(one)
            ),
        )

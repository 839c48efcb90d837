"""GD206: a parameter whose size changes."""

from __future__ import annotations

import re
from typing import ClassVar

from graphdoctor.diagnosis.recompile_wording import GUIDE, changed, recompiled
from graphdoctor.diagnosis.recompiles import RecompileEvent, RecompileGroup
from graphdoctor.diagnosis.rule import RecompileRule
from graphdoctor.diagnosis.suggestions import setting
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.recompiles import GuardChange

_OF_MODULE = re.compile(r"\._(?:parameters|buffers|modules)\[|^L\['self'\]\.")


class ParameterShape(RecompileRule):
    """A parameter, or a tensor that a module holds, whose size changes from call to call.

    ## What it finds
    Compiles because a parameter or a module's tensor has another size. torch takes these sizes to be fixed, so each of
    them compiles anew, also where an argument's dim would have become dynamic.

    ## Why it costs
    Each compile takes as long as the first one, in the middle of a call; after `recompile_limit` of them (8) the
    function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x, weight):
        return x @ weight

    def inputs():
        return [(torch.ones(4, 8), torch.nn.Parameter(torch.ones(8, n))) for n in (2, 3, 4)]
    ```

    ## Use instead
    ```python
    import torch

    def forward(x, weight):
        return x @ weight

    def inputs():
        return [(torch.ones(4, 8), torch.nn.Parameter(torch.ones(8, n))) for n in (2, 2, 2)]
    ```

    ## Fix safety
    Dynamic sizes keep results; code for any size can be slower than code for one.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/config.py`, 2.13 (`force_parameter_static_shapes`,
    `force_nn_module_property_static_shapes`).
    """

    code: ClassVar = "GD206"
    name: ClassVar = "parameter-shape"
    severity: ClassVar = "warning"

    def matches(self, change: GuardChange, event: RecompileEvent) -> bool:
        """A size of a parameter, or of a tensor below a module."""
        return change.kind == "size" and (change.is_parameter or _OF_MODULE.search(change.source or "") is not None)

    def message(self, group: RecompileGroup) -> str:
        """Which size changed from what to what."""
        return recompiled(group, changed(group))

    def fixes(self, group: RecompileGroup) -> tuple[Fix, ...]:
        """Let the sizes be dynamic."""
        name = "force_parameter_static_shapes" if group.first.is_parameter else "force_nn_module_property_static_shapes"
        title = "Let torch make these sizes dynamic"
        return (
            setting(name, title, value=False, is_safe=True, source=GUIDE),
            Fix(title="Keep the size, and use a part of the tensor", kind="code", source=GUIDE),
        )

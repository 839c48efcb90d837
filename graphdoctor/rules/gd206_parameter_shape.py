"""GD206: a parameter whose size changes."""

from __future__ import annotations

import re

from graphdoctor.facts.guards import GuardChange
from graphdoctor.rules.toolkit import (
    Fixes,
    RecompileGroup,
    RecompileRule,
    code_fix,
    setting,
    sources_setting,
)

_OF_MODULE = re.compile(r"\._(?:parameters|buffers|modules)\[|^L\['self'\]\.")


class ParameterShape(RecompileRule):
    """A parameter, or a tensor attribute of a module, whose size changes from call to call.

    ## What it finds
    Recompiles because a parameter or a module's tensor has a different size. torch treats these
    sizes as static, so each of them causes a recompile, even where it would make the dim of an
    argument dynamic.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly.

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
    def inputs():
        return [(torch.ones(4, 8), torch.nn.Parameter(torch.ones(8, n))) for n in (2, 2, 2)]
    ```

    ## Fix safety
    Dynamic sizes keep results the same. Code for any size can be slower than code for one size.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/config.py`, 2.13
    (`force_parameter_static_shapes`); `torch/compiler/config.py`, 2.13 (`dynamic_sources`).
    """

    def matches(self, change: GuardChange) -> bool:
        return change.kind == "size" and (
            change.is_parameter or _OF_MODULE.search(change.source or "") is not None
        )

    def fixes(self, group: RecompileGroup) -> Fixes:
        title = "Let torch make these sizes dynamic"
        dynamic = setting("force_parameter_static_shapes", title, value=False, is_safe=True)
        if not group.first.is_parameter:
            source = re.sub(r"\.size\(\)\[\d+\]\Z", "", group.first.source or "")
            dynamic = sources_setting("dynamic_sources", [source], title)
        return (dynamic, code_fix("Keep the size fixed, and use a part of the tensor"))

"""GD302: thousands of guards on the structure of modules."""

from __future__ import annotations

from collections import Counter

from graphdoctor.facts.guards import GuardSet
from graphdoctor.rules.toolkit import (
    REGIONAL,
    SKIP_ALL,
    SKIP_INBUILT,
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    counted,
)

_MIN_COUNT = 1000


class GuardsOnModules(RecordingRule, severity="info"):
    """Thousands of guards on the structure of modules: types, hooks, parameters, buffers.

    ## What it finds
    A compile with 1,000 or more guards on the structure of its modules, which rarely changes.

    ## Why it costs
    torch checks each of them before each run of the compiled code. The checks cost more in a model
    of many small modules than in one of a few large modules.

    ## Example
    ```python
    import torch

    net = torch.nn.Sequential(*[torch.nn.Linear(8, 8, bias=False) for _ in range(240)])
    for layer in net:
        torch.nn.init.eye_(layer.weight)

    def forward(x):
        return net(x)

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    weights = torch.nn.Parameter(torch.eye(8).repeat(240, 1, 1))

    def forward(x):
        for weight in weights:
            x = x @ weight.T
        return x

    def inputs():
        return (torch.randn(4, 8),)
    ```
    If the modules must stay, a guard filter of `torch.compiler` drops their guards.

    ## Fix safety
    The guard filters are unsafe: if a module changes after it was compiled (a replaced parameter, a
    different flag, a new hook), torch doesn't notice, and the compiled code gives the old results.
    Fewer, larger modules keep results the same.

    ## Source
    `torch/compiler/__init__.py`, 2.13 and 2.15 (`skip_guard_on_inbuilt_nn_modules_unsafe`); PyTorch
    user guide, "Reducing guard overhead" and "Regional compilation".
    """

    def findings(self, view: RecordingView) -> Matches:
        most: dict[int, tuple[int, GuardSet]] = {}
        for found in view.recording.guards.sets if view.recording.guards else ():
            count = sum(node.is_module_internal for node in found.nodes)
            frame_id = view.compiles[found.compile_id].frame_id
            if count >= _MIN_COUNT and count > most.get(frame_id, (0, found))[0]:
                most[frame_id] = (count, found)
        for frame in view.recording.frames:
            if frame.frame_id in most:
                count, found = most[frame.frame_id]
                modules = Counter(node.path for node in found.nodes if node.is_module_internal)
                yield RuleMatch(
                    entry=frame.entry,
                    message=f"`{frame.name}` checks {count:,} guards on the structure of "
                    f"{counted(len(modules), 'module')} in each run",
                    count=count,
                    of=(found,),
                    fixes=(SKIP_INBUILT, REGIONAL, SKIP_ALL),
                )

"""GD302: thousands of guards on how modules are built."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from graphdoctor.diagnosis.frames import frame_entry, frame_name
from graphdoctor.diagnosis.rule import RecordingRule, RecordingView, RuleMatch
from graphdoctor.diagnosis.suggestions import guard_filter
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.guards import GuardSet
from graphdoctor.model.recording import Frame

_MIN_COUNT = 1000


class GuardsOnModules(RecordingRule):
    """Thousands of guards on the inside of modules: types, hooks, parameters, buffers.

    ## What it finds
    A compile with 1,000 guards or more on how its modules are built, which hardly ever changes.

    ## Why it costs
    Each is checked before each run of the compiled code. A model of many small modules pays more for the checks than
    one of few large ones.

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
    Where the modules must stay, a guard filter of `torch.compiler` leaves their guards out.

    ## Fix safety
    The guard filters are unsafe, as their names say: a module that changes after it was compiled (a replaced parameter,
    a flipped flag, a new hook) is not noticed, and the compiled code gives the old results. Fewer, larger modules keep
    results.

    ## Source
    `torch/compiler/__init__.py`, 2.13 and 2.15 (`skip_guard_on_inbuilt_nn_modules_unsafe`); PyTorch user guide,
    "Reducing guard overhead" and "Regional compilation".
    """

    code: ClassVar = "GD302"
    name: ClassVar = "guards-on-modules"
    severity: ClassVar = "info"

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        """One for each function, for the compile of it with the most of them."""
        recording = view.recording
        if recording.guards is None:
            return ()
        frame_of = {compile_.compile_id: compile_.frame_id for compile_ in recording.compiles}
        most: dict[int, tuple[int, GuardSet]] = {}
        for found in recording.guards.sets:
            count = sum(node.is_module_internal for node in found.nodes)
            frame_id = frame_of[found.compile_id]
            if count >= _MIN_COUNT and count > most.get(frame_id, (0, found))[0]:
                most[frame_id] = (count, found)
        return tuple(_match(frame, *most[frame.frame_id]) for frame in recording.frames if frame.frame_id in most)


def _match(frame: Frame, count: int, found: GuardSet) -> RuleMatch:
    modules = Counter(node.path for node in found.nodes if node.is_module_internal)
    return RuleMatch(
        entry=frame_entry(frame),
        message=f"`{frame_name(frame)}` checks {count:,} guards on the inside of {len(modules)} modules at each run",
        count=count,
        compile_ids=(found.compile_id,),
        fixes=(
            guard_filter("skip_guard_on_inbuilt_nn_modules_unsafe", "a change of a torch module is not noticed"),
            Fix(
                title="Compile the repeated block in place of the whole model: each check then covers one block",
                kind="call",
                snippet="for block in model.blocks:\n    block.compile()",
                is_safe=True,
                source="PyTorch user guide: torch.compile, regional compilation",
            ),
            guard_filter("skip_guard_on_all_nn_modules_unsafe", "a change of any module is not noticed"),
        ),
    )

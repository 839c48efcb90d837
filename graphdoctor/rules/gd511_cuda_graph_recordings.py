"""GD511: functions that torch records as CUDA graphs again and again."""

from __future__ import annotations

from collections.abc import Iterator

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.kernels import CudaGraphFunction
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.wording import counted, names
from graphdoctor.rules.diagnosis.frames import frame_entry, frame_of
from graphdoctor.rules.diagnosis.rule import RecordingRule, RecordingView, RuleMatch
from graphdoctor.rules.diagnosis.suggestions import from_setting

_MAX_SIZES = 8
"""torch warns above that (``cudagraph_dynamic_shape_warn_limit``, ``torch/_inductor/config.py``, 2.13)."""

_GUIDE = "PyTorch user guide: torch.compile, CUDA graph trees"
_CONFIG = "torch/_inductor/config.py, 2.13"


class CudaGraphRecordings(RecordingRule, code="GD511", name="cuda-graph-recordings", severity="warning"):
    """A function that torch records as a CUDA graph again and again.

    ## What it finds
    With CUDA graphs: a compiled function that was called with more than 8 sizes of its inputs, each of which gets a
    CUDA graph of its own; or one that was recorded again for the same size, because a parameter or another static input
    moved to a new address, or because tensors that an earlier call returned were still in use.

    ## Why it costs
    The first call with a new size runs without a CUDA graph, and the second one records it: both take much longer than
    a launch. Each CUDA graph also keeps memory. torch warns above 8 sizes, and says nothing of new addresses until it
    gives up after 128.

    ## Example
    ```python
    import torch

    ARGUMENTS = ["--backend", "inductor", "--mode", "reduce-overhead", "--device", "cuda"]

    def forward(x):
        return torch.relu(x).sum()

    def inputs():
        return [(torch.ones(size, 64),) for size in range(2, 22)]
    ```

    ## Use instead
    ```python
    import torch

    ARGUMENTS = ["--backend", "inductor", "--mode", "reduce-overhead", "--device", "cuda"]

    def forward(x):
        return torch.relu(x).sum()

    def inputs():
        rows = [torch.ones(size, 64) for size in range(2, 22)]
        return [(torch.nn.functional.pad(x, (0, 0, 0, 32 - len(x))),) for x in rows]
    ```
    With inputs padded to a few sizes, there are only a few CUDA graphs. For static inputs that move: write new values
    into the same tensor, as in `parameter.copy_(value)`, instead of putting another tensor in its place.

    ## Fix safety
    Padding is safe if the padded elements don't change the result. Without CUDA graphs for dynamic sizes, the results
    are the same.

    ## Source
    PyTorch user guide, "CUDA Graph Trees"; `torch/_inductor/cudagraph_trees.py`, 2.13.
    """

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        graphs = view.recording.cuda_graphs
        functions = (graphs.functions or ()) if graphs is not None else ()
        return tuple(match for function in functions for match in _matches(function, view.recording))


def _matches(function: CudaGraphFunction, recording: Recording) -> Iterator[RuleMatch]:
    frame = frame_of(recording, function.compile_id)
    if frame is None:
        return
    found: list[tuple[str, int, str, tuple[Fix, ...]]] = []
    if function.sizes > _MAX_SIZES:
        message = f"torch records a CUDA graph for each of {function.sizes} sizes"
        found.append((message, function.sizes, "sizes", _FOR_SIZES))
    if function.rerecordings:
        moved = [expression(each.source) for each in function.moved if each.source is not None]
        if function.moved:
            why = f"{names(moved) if moved else 'static inputs'} moved to new addresses"
        else:
            why = "tensors that an earlier call returned were still in use"
        message = f"torch records a CUDA graph again: {counted(function.rerecordings, 'time')}, because {why}"
        found.append((message, function.rerecordings, "again", _FOR_ADDRESSES if function.moved else _FOR_RESULTS))
    for message, count, subject, fixes in found:
        yield RuleMatch(
            entry=frame_entry(frame),
            message=message,
            count=count,
            compile_ids=() if function.compile_id is None else (function.compile_id,),
            subject=f"{subject} {function.phase} {function.name}",
            fixes=fixes,
        )


_FOR_SIZES = (
    Fix(title="Pad inputs to a few fixed sizes", kind="call", source=_GUIDE),
    Fix(
        title="List the sizes that are worth a CUDA graph in torch._inductor.config.triton.cudagraph_capture_sizes",
        kind="config",
        source=_CONFIG,
    ),
    from_setting(
        Setting(name="torch._inductor.config.triton.cudagraph_skip_dynamic_graphs", value=True),
        "Run graphs with dynamic sizes without CUDA graphs",
        is_safe=True,
        source=_CONFIG,
    ),
)
_FOR_ADDRESSES = (Fix(title="Write new values into the same tensors, such as with copy_", kind="code", source=_GUIDE),)
_FOR_RESULTS = (
    Fix(
        title="Call torch.compiler.cudagraph_mark_step_begin() before each step, and clone results that are kept",
        kind="call",
        source=_GUIDE,
    ),
)

"""GD511: functions that torch records as CUDA graphs again and again."""

from __future__ import annotations

from collections.abc import Iterator

from graphdoctor.facts.expressions import expression
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.kernels import CudaGraphFunction
from graphdoctor.rules.toolkit import (
    CUDA_GRAPHS,
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    call_fix,
    code_fix,
    config_fix,
    counted,
    names,
    setting,
)

_MAX_SIZES = 8
"""torch warns above that (``cudagraph_dynamic_shape_warn_limit``, ``torch/_inductor/config.py``,
2.13)."""


class CudaGraphRecordings(RecordingRule):
    """A function that torch records as a CUDA graph again and again.

    ## What it finds
    With CUDA graphs: a compiled function that was called with more than 8 sizes of its inputs, each
    of which gets a CUDA graph of its own; or one that was recorded again for the same size, because
    a parameter or another static input moved to a new address, or because tensors that an earlier
    call returned were still in use.

    ## Why it costs
    The first call with a new size runs without a CUDA graph, and the second one records it: both
    take much longer than a launch. Each CUDA graph also keeps memory. torch warns above 8 sizes,
    and says nothing of new addresses until it gives up after 128.

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
    ARGUMENTS = ["--backend", "inductor", "--mode", "reduce-overhead", "--device", "cuda"]

    def inputs():
        rows = [torch.ones(size, 64) for size in range(2, 22)]
        return [(torch.nn.functional.pad(x, (0, 0, 0, 32 - len(x))),) for x in rows]
    ```
    With inputs padded to a few sizes, there are only a few CUDA graphs. For static inputs that
    move: write new values into the same tensor, as in `parameter.copy_(value)`, instead of putting
        another tensor in its place.

    ## Fix safety
    Padding is safe if the padded elements don't change the result. Without CUDA graphs for dynamic
    sizes, the results are the same.

    ## Source
    PyTorch user guide, "CUDA Graph Trees"; `torch/_inductor/cudagraph_trees.py`, 2.13.
    """

    guide = CUDA_GRAPHS

    def findings(self, view: RecordingView) -> Matches:
        graphs = view.recording.cuda_graphs
        for function in (graphs.functions or ()) if graphs is not None else ():
            if (frame := view.frame(function.compile_id) or view.main_frame) is None:
                continue
            for message, count, subject, fixes in _found(function):
                yield RuleMatch(
                    entry=frame.entry,
                    message=message,
                    count=count,
                    of=(function,),
                    subject=f"{subject} {function.phase} {function.name}",
                    fixes=fixes,
                )


def _found(function: CudaGraphFunction) -> Iterator[tuple[str, int, str, tuple[Fix, ...]]]:
    """What is recorded again and again: message, count, subject and fixes."""
    if function.sizes > _MAX_SIZES:
        message = f"torch records a CUDA graph for each of {function.sizes} sizes"
        yield message, function.sizes, "sizes", _FOR_SIZES
    if function.rerecordings:
        why, fix = "tensors that an earlier call returned were still in use", _FOR_RESULTS
        if function.moved:
            moved = [expression(each.source) for each in function.moved if each.source is not None]
            why, fix = (
                f"{names(moved) if moved else 'static inputs'} moved to new addresses",
                _FOR_ADDRESSES,
            )
        message = f"torch records a CUDA graph again: {counted(function.rerecordings, 'time')}, because {why}"
        yield message, function.rerecordings, "again", (fix,)


_FOR_SIZES = (
    call_fix("Pad inputs to a few fixed sizes"),
    config_fix(
        "List the sizes that are worth a CUDA graph in torch._inductor.config.triton.cudagraph_capture_sizes",
        "torch/_inductor/config.py, 2.13",
    ),
    setting(
        "torch._inductor.config.triton.cudagraph_skip_dynamic_graphs",
        "Run graphs with dynamic sizes without CUDA graphs",
        is_safe=True,
    ),
)
_FOR_ADDRESSES = code_fix("Write new values into the same tensors, such as with copy_")
_FOR_RESULTS = call_fix(
    "Call torch.compiler.cudagraph_mark_step_begin() before each step, and clone results that are kept"
)

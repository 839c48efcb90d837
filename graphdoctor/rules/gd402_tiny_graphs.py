"""GD402: compiled code whose kernels take less time than what it takes to run them."""

from __future__ import annotations

from graphdoctor.rules.toolkit import (
    CUDA_GRAPHS,
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    code_fix,
    compile_argument,
    counted,
    percent,
)

_MIN_SHARE = 0.5
_LARGER = code_fix(
    "Do more in one call: use a larger batch, or compile a function that does more",
    "PyTorch user guide: torch.compile",
)
_GRAPHS = compile_argument(
    'mode="reduce-overhead"',
    'Compile with mode="reduce-overhead": CUDA graphs launch all kernels of a graph at once',
    CUDA_GRAPHS,
    is_safe=True,
)


class TinyGraphs(RecordingRule):
    """Compiled code whose kernels take less time than what it takes to run them.

    ## What it finds
    A steady call that spends half of its time or more on running compiled code without computing:
    searching for the code, checking guards, unpacking inputs, allocating, launching kernels. The
    kernels themselves take less. On a GPU, it's the host's time, in which the device waits. It's
    measured by torch.profiler, less the profiler's own time. `graphdoctor bench` reports it.

    ## Why it costs
    Each run of a compiled function takes ten microseconds or more on the host, and each kernel a
    few more to launch. If that's more than half of the call, better kernels can't make it much
    faster: without any kernel, it would still take that long.

    ## Example
    ```python
    import torch

    def forward(x):
        return torch.relu(x.sin() * 2).sum()

    def inputs():
        return (torch.ones(4, 8),)
    ```

    ## Use instead
    ```python
    def inputs():
        return (torch.ones(4096, 2048),)
    ```
    Do more in one call: use a larger batch, or compile a function that does more. If graph breaks
    cut the program into many small graphs, fix these first. On a GPU, `mode="reduce-overhead"`
    records the kernels of a graph as one CUDA graph, which takes one launch.

    ## Fix safety
    A larger batch is another call. `mode="reduce-overhead"` keeps results the same; it needs more
    memory, and an output is overwritten by the next call.

    ## Source
    PyTorch user guide, "CUDA Graph Trees"; `torch/profiler`, 2.13.
    """

    def findings(self, view: RecordingView) -> Matches:
        kernels, frame = view.recording.kernels, view.main_frame
        if kernels is None or frame is None or not kernels.unprofiled_us or not kernels.region_runs:
            return
        overhead_us = kernels.overhead_us
        if overhead_us is None or kernels.kernels_us is None:
            return
        share = overhead_us / kernels.unprofiled_us
        if share < _MIN_SHARE or overhead_us <= kernels.kernels_us:
            return
        functions = counted(kernels.region_runs, "compiled function")
        has_no_graphs = kernels.device == "cuda" and view.recording.cuda_graphs is None
        yield RuleMatch(
            entry=frame.entry,
            message=f"running {functions} with {counted(kernels.launches or 0, 'kernel')} takes {percent(share)} of a "
            f"steady call; the kernels themselves take {percent(kernels.kernels_us / kernels.unprofiled_us)}",
            count=kernels.region_runs,
            call_us=overhead_us,
            share=share,
            fixes=(_GRAPHS, _LARGER) if has_no_graphs else (_LARGER,),
        )

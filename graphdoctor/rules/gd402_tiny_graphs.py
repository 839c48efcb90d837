"""GD402: compiled code whose kernels take less time than what it takes to run them."""

from __future__ import annotations

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.facts.kernels import KernelShare
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.wording import counted, percent
from graphdoctor.rules.diagnosis.frames import frame_entry, main_frame
from graphdoctor.rules.diagnosis.rule import RecordingRule, RecordingView, RuleMatch
from graphdoctor.rules.diagnosis.suggestions import compile_argument

_MIN_SHARE = 0.5
_GUIDE = "PyTorch user guide: torch.compile, CUDA graph trees"


class TinyGraphs(RecordingRule, code="GD402", name="tiny-graphs", severity="warning"):
    """Compiled code whose kernels take less time than what it takes to run them.

    ## What it finds
    A steady call that spends half of its time or more on running compiled code without computing: searching for the
    code, checking guards, unpacking inputs, allocating, launching kernels. The kernels themselves take less. On a GPU,
    it's the host's time, in which the device waits. It's measured by torch.profiler, less the profiler's own time.
    `graphdoctor bench` reports it.

    ## Why it costs
    Each run of a compiled function takes ten microseconds or more on the host, and each kernel a few more to launch. If
    that's more than half of the call, better kernels can't make it much faster: without any kernel, it would still take
    that long.

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
    import torch

    def forward(x):
        return torch.relu(x.sin() * 2).sum()

    def inputs():
        return (torch.ones(4096, 2048),)
    ```
    Do more in one call: use a larger batch, or compile a function that does more. If graph breaks cut the program into
    many small graphs, fix these first. On a GPU, `mode="reduce-overhead"` records the kernels of a graph as one CUDA
    graph, which takes one launch.

    ## Fix safety
    A larger batch is another call. `mode="reduce-overhead"` keeps results the same; it needs more memory, and an output
    is overwritten by the next call.

    ## Source
    PyTorch user guide, "CUDA Graph Trees"; `torch/profiler`, 2.13.
    """

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        recording = view.recording
        kernels, frame = recording.kernels, main_frame(recording)
        if kernels is None or frame is None or not kernels.unprofiled_us or not kernels.region_runs:
            return ()
        overhead_us = kernels.overhead_us
        if overhead_us is None or kernels.kernels_us is None:
            return ()
        share = overhead_us / kernels.unprofiled_us
        if share < _MIN_SHARE or overhead_us <= kernels.kernels_us:
            return ()
        return (
            RuleMatch(
                entry=frame_entry(frame),
                message=f"{_what(kernels)} takes {percent(share)} of a steady call; the kernels themselves take "
                f"{percent(kernels.kernels_us / kernels.unprofiled_us)}",
                count=kernels.region_runs,
                call_us=overhead_us,
                share=share,
                fixes=tuple(_fixes(kernels, recording)),
            ),
        )


def _what(kernels: KernelShare) -> str:
    functions = counted(kernels.region_runs, "compiled function")
    return f"running {functions} with {counted(kernels.launches or 0, 'kernel')}"


def _fixes(kernels: KernelShare, recording: Recording) -> list[Fix]:
    larger = Fix(
        title="Do more in one call: use a larger batch, or compile a function that does more",
        kind="code",
        source="PyTorch user guide: torch.compile",
    )
    if kernels.device != "cuda" or recording.cuda_graphs is not None:
        return [larger]
    graphs = compile_argument(
        'mode="reduce-overhead"',
        'Compile with mode="reduce-overhead": CUDA graphs launch all kernels of a graph at once',
        is_safe=True,
        source=_GUIDE,
    )
    return [graphs, larger]

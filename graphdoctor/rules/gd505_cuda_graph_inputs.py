"""GD505: inputs of CUDA graphs that are copied in every call."""

from __future__ import annotations

from graphdoctor.facts.expressions import expression
from graphdoctor.facts.recording import Recording
from graphdoctor.rules.toolkit import (
    CUDA_GRAPHS,
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    call_fix,
    code_fix,
    names,
    percent,
)

_MIN_SHARE = 0.1


class CudaGraphInputs(RecordingRule):
    """Inputs of CUDA graphs that are copied in every call.

    ## What it finds
    A steady call that spends 10% or more of its time on copying inputs into the memory of CUDA
    graphs. `graphdoctor bench` reports it.

    ## Why it costs
    A CUDA graph reads its inputs at the addresses that it was recorded with. torch copies each
    input there before it launches the graph, except parameters, buffers and what other CUDA graphs
    return. In a call of 663 µs on an H100, these copies took 85 µs.

    ## Example
    ```python
    import torch

    ARGUMENTS = ["--backend", "inductor", "--mode", "reduce-overhead", "--device", "cuda"]

    def forward(x, y):
        return x + y

    def inputs():
        return (torch.ones(4096, 4096), torch.ones(4096, 4096))
    ```

    ## Use instead
    ```python
    ARGUMENTS = ["--backend", "inductor", "--device", "cuda"]
    ```
    The default mode copies nothing. Or keep CUDA graphs, pass the same tensors in every call, write
    new values into them, and mark them before the first call with
    `torch._dynamo.mark_static_address(x)`: then torch doesn't copy them.

    ## Fix safety
    The default mode gives the same results. If a marked tensor has another address, torch records
    the CUDA graph again.

    ## Source
    `torch/_inductor/cudagraph_trees.py`, 2.13 (`_copy_inputs_and_remove_from_src`);
    `torch/_dynamo/decorators.py`, 2.13 (`mark_static_address`).
    """

    guide = CUDA_GRAPHS

    def findings(self, view: RecordingView) -> Matches:
        kernels, frame = view.recording.kernels, view.main_frame
        if (
            kernels is None
            or frame is None
            or not kernels.graph_launches
            or not kernels.graph_input_copy_us
        ):
            return
        share = kernels.graph_input_copy_us / kernels.call_us
        if share >= _MIN_SHARE:
            yield RuleMatch(
                entry=frame.entry,
                message=f"copying {_copied(view.recording)} into the memory of CUDA graphs takes {percent(share)} of a "
                "steady call",
                count=kernels.graph_launches,
                call_us=kernels.graph_input_copy_us,
                share=share,
                fixes=_FIXES,
            )


def _copied(recording: Recording) -> str:
    """The inputs that are copied, the largest first, as far as their names are known."""
    graphs = recording.cuda_graphs
    copied = [
        each for function in (graphs.functions or () if graphs else ()) for each in function.copied
    ]
    known = [
        each for each in sorted(copied, key=lambda each: -each.bytes) if each.source is not None
    ]
    if not known or len(known) < len(copied):
        return "inputs"
    return names(expression(each.source or "") for each in known)


_FIXES = (
    call_fix(
        "Pass the same tensors in every call, write new values into them, and mark them before the first call: "
        "torch._dynamo.mark_static_address",
        "torch/_dynamo/decorators.py, 2.13",
    ),
    code_fix(
        "Let what makes the inputs be part of the compiled function, so that they never leave the CUDA graph"
    ),
)

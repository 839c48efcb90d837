"""GD508: kernels that only copy tensors into another layout."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoctor.facts.profiled import InductorOperation
from graphdoctor.rules.diagnosis.kernel_times import (
    TimedKernel,
    at_lines,
    call_us,
    library_operations,
    mostly,
    timed_kernels,
)
from graphdoctor.rules.toolkit import Matches, RecordingRule, RecordingView, code_fix, names

_COPIES = frozenset({"aten.clone.default", "aten.copy.default"})


class LayoutCopies(RecordingRule):
    """Kernels that compute nothing: they copy tensors into another layout.

    ## What it finds
    Kernels that take 5% of a steady call or more, and only bring tensors into another layout: what
    `.contiguous()`, `.clone()` or a `.reshape()` of a permuted tensor copies, and what Inductor
    copies because a library wants another layout, such as the inputs and results of convolutions on
    a CPU or in mixed layouts. Copies that are fused into a kernel that computes something aren't
    counted, and neither are writes to arguments. `graphdoctor profile` reports it.

    ## Why it costs
    Such a kernel reads and writes a whole tensor, and one of the two not in the order of memory,
    which is slower. The call would be faster by all of its time if the tensor were in the right
    layout from the beginning.

    ## Example
    ```python
    import torch

    def forward(x, weight):
        return torch.nn.functional.conv2d(x, weight)

    def inputs():
        return (torch.ones(8, 8, 128, 128), torch.ones(8, 8, 3, 3))
    ```

    ## Use instead
    ```python
    def inputs():
        x, weight = torch.ones(8, 8, 128, 128), torch.ones(8, 8, 3, 3)
        return tuple(each.to(memory_format=torch.channels_last) for each in (x, weight))
    ```
    For a module: `model.to(memory_format=torch.channels_last)`, and the same for its input. Leave
    out `.contiguous()` and `.clone()` where nothing needs them, and permute a tensor where it is
    made rather than in each layer.

    ## Fix safety
    Values stay the same. What reads the strides of a result, such as `.view()` or NumPy, sees other
    ones.

    ## Source
    PyTorch tutorials, "Channels Last Memory Format in PyTorch"; `torch/_inductor/graph.py`, 2.13
    (`decide_layout_opt`).
    """

    def findings(self, view: RecordingView) -> Matches:
        if (profiled := view.recording.profiled) is None:
            return
        copies = [kernel for kernel in timed_kernels(profiled) if _only_copies(kernel)]
        for is_for_library in (True, False):
            kernels = [kernel for kernel in copies if bool(_of_library(kernel)) == is_for_library]
            yield from _matches(kernels, call_us(profiled), is_for_library=is_for_library)


def _only_copies(kernel: TimedKernel) -> bool:
    operations = kernel.operations
    if not operations or (kernel.kernel.kind != "pointwise" and not kernel.is_copy):
        return False
    of_library = library_operations(kernel.graph)
    numbered = zip(kernel.kernel.operations, operations, strict=True)
    return mostly(
        operations,
        [each for number, each in numbered if number in of_library or each.target in _COPIES],
    )


def _of_library(kernel: TimedKernel) -> Sequence[InductorOperation]:
    """The operations of a copy that a library computes: it copies what that reads or makes."""
    of_library = library_operations(kernel.graph)
    return [
        kernel.graph.operations[number]
        for number in kernel.kernel.operations
        if number in of_library
    ]


def _about(kernel: TimedKernel) -> Sequence[InductorOperation]:
    return _of_library(kernel) or kernel.operations


def _matches(kernels: Sequence[TimedKernel], whole_us: float, *, is_for_library: bool) -> Matches:
    about = [operation for kernel in kernels for operation in _about(kernel)]
    operations = list(dict.fromkeys(operation.operation.rpartition(".")[0] for operation in about))
    if not operations:
        return ()
    if not is_for_library:
        what = f"copies by {names(operations)}"
        return at_lines(kernels, _about, whole_us, what=what, subject="copy", fix=_LEAVE_OUT)
    whose = "its" if len(operations) == 1 else "their"
    what = f"copies into the layouts that {names(operations)} and what reads {whose} results need"
    return at_lines(kernels, _about, whole_us, what=what, subject="library", fix=_IN_LAYOUT)


_IN_LAYOUT = code_fix(
    "Keep the model and its inputs in the layout that the library uses: for convolutions "
    "model.to(memory_format=torch.channels_last), and the same for the inputs",
    'PyTorch tutorials: "Channels Last Memory Format in PyTorch"',
)
_LEAVE_OUT = code_fix(
    "Leave out the copy if nothing needs it, or make the tensor in the order in which it is read",
    "PyTorch documentation: Tensor Views",
)

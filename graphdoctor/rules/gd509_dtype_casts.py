"""GD509: kernels that only cast, and values that become float64."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoctor.facts.profiled import InductorOperation, Profiled
from graphdoctor.rules.diagnosis.kernel_times import (
    CLEAR,
    TimedKernel,
    at_lines,
    call_us,
    mostly,
    timed_kernels,
)
from graphdoctor.rules.toolkit import (
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    code_fix,
    counted,
    percent,
)

_CASTS = frozenset({"prims.convert_element_type.default", "aten._to_copy.default"})
_COPIES = frozenset({"aten.clone.default"})
_WIDE = "float64"
_NARROWER = frozenset({"float32", "bfloat16", "float16"})
_CAST_ONCE = code_fix(
    "Cast once, outside of the call: keep the tensor in the dtype in which it is used, such as weights with "
    "model.to(torch.bfloat16) in place of autocast for inference",
    "PyTorch documentation: Automatic Mixed Precision package",
)
_IN_FLOAT32 = code_fix(
    "Compute in float32: leave out the conversion, and make NumPy arrays float32 before they become tensors",
    "PyTorch documentation: Type Promotion",
)


class DtypeCasts(RecordingRule):
    """Kernels that only cast tensors to another dtype, and lines that make float64 of float32.

    ## What it finds
    Kernels that take 5% of a steady call or more and do next to nothing but cast, such as weights
    that autocast casts in each call. Also a line at which narrower values become float64, if
    kernels that compute in float64 take 5% or
    more: a NumPy array or a tensor made of one is float64, and what is computed with it becomes so.
        Casts
    that are fused into a kernel that computes something cost next to nothing, and aren't counted.
    `graphdoctor profile` reports it.

    ## Why it costs
    A cast reads and writes a whole tensor. float64 moves twice the bytes of float32, and GPUs
    compute in it at half their speed in float32 at best, most of them at a thirty-second or less.

    ## Example
    ```python
    import torch

    def forward(x, weight):
        return x @ weight.float()

    def inputs():
        return (torch.ones(1, 2048), torch.ones(2048, 2048, dtype=torch.float16))
    ```

    ## Use instead
    ```python
    def forward(x, weight):
        return x @ weight

    def inputs():
        return (torch.ones(1, 2048), torch.ones(2048, 2048))
    ```
    Cast once, outside of the call: keep weights in the dtype in which they are used, such as
    `model.to(torch.bfloat16)` in place of autocast for inference. Make arrays float32 before they
    become tensors, or use Python numbers, which don't make float64 of float32.

    ## Fix safety
    A smaller dtype changes results, and so does float32 in place of float64. Training needs weights
    in float32, which is why autocast casts them.

    ## Source
    PyTorch documentation, "Automatic Mixed Precision package" and "Type Promotion"; NVIDIA CUDA C++
    Programming Guide, "Arithmetic Instructions".
    """

    def findings(self, view: RecordingView) -> Matches:
        if (profiled := view.recording.profiled) is not None:
            kernels, whole = timed_kernels(profiled), call_us(profiled)
            yield from _casts([kernel for kernel in kernels if _only_casts(kernel)], whole)
            yield from _wide(profiled, kernels, whole)


def _only_casts(kernel: TimedKernel) -> bool:
    if not (kernel.is_generated or kernel.is_copy) or not _casts_of(kernel):
        return False
    return mostly(
        kernel.operations, [each for each in kernel.operations if each.target in _CASTS | _COPIES]
    )


def _casts_of(kernel: TimedKernel) -> Sequence[InductorOperation]:
    return [operation for operation in kernel.operations if operation.target in _CASTS]


def _casts(kernels: Sequence[TimedKernel], whole_us: float) -> Matches:
    casts = [operation for kernel in kernels for operation in _casts_of(kernel)]
    kinds = {
        (each.input_dtypes[0], each.dtype) for each in casts if each.input_dtypes and each.dtype
    }
    which = "".join(f" from {old} to {new}" for old, new in kinds) if len(kinds) == 1 else ""
    return at_lines(
        kernels, _casts_of, whole_us, what=f"casts{which}", subject="cast", fix=_CAST_ONCE
    )


def _wide(profiled: Profiled, kernels: Sequence[TimedKernel], whole_us: float) -> Matches:
    """Values that become float64, where kernels that compute in it take long enough."""
    widened = [
        operation
        for graph in profiled.graphs
        for operation in graph.operations
        if operation.target in _CASTS
        and operation.dtype == _WIDE
        and operation.stack
        and _NARROWER.intersection(operation.input_dtypes)
    ]
    own = [
        kernel
        for kernel in kernels
        if any(
            each.target not in _CASTS and _WIDE in (each.dtype, *each.input_dtypes)
            for each in kernel.operations
        )
    ]
    us, runs = sum(kernel.us for kernel in own), sum(kernel.runs for kernel in own)
    if not widened or us < CLEAR * whole_us:
        return
    first = max(widened, key=lambda operation: operation.bytes or 0)
    entry = first.stack[-1]
    others = dict.fromkeys(each.stack[-1] for each in widened if each.stack[-1] != entry)
    computes, takes = ("computes", "takes") if runs == 1 else ("compute", "take")
    yield RuleMatch(
        entry=entry,
        message=f"{first.input_dtypes[0]} becomes float64 here: {counted(runs, 'kernel')} that {computes} in float64 "
        f"{takes} {percent(us / whole_us)} of a steady call",
        count=runs,
        of=[kernel.graph for kernel in own],
        related=tuple((line, "becomes float64 here too") for line in others),
        user_stack=first.stack,
        subject=_WIDE,
        share=us / whole_us,
        call_us=us,
        fixes=(_IN_FLOAT32,),
    )

"""Judges what each kernel waits for, by what it reached beside what the device reaches.

Comes in: kernels with their time, bytes and floating-point operations, and the calibration. Goes out: the same kernels
with rates, shares and what binds them.

The bytes are those that a kernel must move at least, and the calibration is what a good kernel reaches in practice. So
a kernel at half of either is bound by it. One that is far from both is bound by neither: a short one has no time to
reach anything, since it takes some microseconds to start and to end; for a long one the reason is unknown, such as
arithmetic that isn't a matrix product, or accesses that jump through memory. Functions such as ``tanh`` are such
arithmetic: ``gelu(x * w + b) * sigmoid(x) + tanh(x)``, summed, keeps an H200's multiprocessors 90% busy at 30% of its
bandwidth (Nsight Compute), so that below half of the bandwidth nothing is said of a kernel that computes some.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from graphdoctor.facts.kernels import Device
from graphdoctor.facts.profile import BoundBy, ProfiledKernel, ProfiledLine, TimePart
from graphdoctor.facts.profiled import Calibration

_NEAR = 0.25
"""Of what the device reaches: as close as a kernel must come to it to be bound by it. Nsight Compute takes 60% of a
GPU's peak, and what it counts is all that is moved; kernels often read twice or more what they must read once."""

_BOUND = 0.5
"""A short kernel that comes as close as this had enough to do, and one of much arithmetic is bound by memory."""

_FUNCTION_NAMES = """
    acos acosh asin asinh atan atan2 atanh bernoulli celu cos cosh digamma dropout elu erf erfc erfinv exp exp2 expm1
    gelu gelu_backward lgamma log log10 log1p log2 log_sigmoid_forward log_softmax logaddexp logit logsumexp mish
    native_dropout pow rand rand_like randn randn_like selu sigmoid silu silu_backward sin sinh softmax softplus tan
    tanh
"""
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
"""Operations that take many instructions for an element: they compute functions by series, or draw random numbers."""

_STARTING_US: Mapping[Device, float] = {"cuda": 5.0, "cpu": 10.0}
"""What a kernel takes at least to start and end: on a GPU its blocks, on a CPU its threads."""

_ALONE_US = 1.0
"""The same of a single thread, with the profiler's range around it."""

_SHORT = 2.0
"""A kernel of less than so many times that spends half of its time on starting and ending."""

TF32 = "tf32"


def judged(
    kernels: Iterable[ProfiledKernel], calibration: Calibration | None, device: Device
) -> tuple[ProfiledKernel, ...]:
    """Kernels with what they reached, and what they wait for.

    ``calibration``: what the device reaches; None if it wasn't measured. One that isn't steady is as good as none.
    """
    if calibration is not None and not calibration.is_steady:
        calibration = None
    return tuple(_judged(kernel, calibration, device) for kernel in kernels)


def _judged(kernel: ProfiledKernel, calibration: Calibration | None, device: Device) -> ProfiledKernel:
    if not kernel.time_us:
        return kernel
    # Bytes in a microsecond are megabytes in a second.
    gb_per_s = None if kernel.bytes is None else kernel.bytes / kernel.time_us / 1e3
    tflops_per_s = None if kernel.flops is None else kernel.flops / kernel.time_us / 1e6
    bandwidth = _share(gb_per_s, None if calibration is None else calibration.copy_gb_per_s)
    compute = _share(tflops_per_s, None if calibration is None else _product_rate(kernel, calibration))
    is_alone = device == "cpu" and calibration is not None and calibration.threads == 1
    starting_us = _ALONE_US if is_alone else _STARTING_US[device]
    return replace(
        kernel,
        gb_per_s=gb_per_s,
        tflops_per_s=tflops_per_s,
        bandwidth_share=bandwidth,
        compute_share=compute,
        bound_by=_bound_by(kernel, bandwidth, compute, starting_us),
    )


def _share(reached: float | None, possible: float | None) -> float | None:
    return reached / possible if reached is not None and possible else None


def _product_rate(kernel: ProfiledKernel, calibration: Calibration) -> float | None:
    rates = calibration.matmul_tflops_per_s
    if kernel.dtype == "float32" and TF32 in rates and is_convolution(kernel):
        return rates[TF32]
    return rates.get(kernel.dtype or "")


def is_convolution(kernel: ProfiledKernel) -> bool:
    """It computes a convolution or its gradients."""
    return any("convolution" in name for name in kernel.operations)


def _bound_by(
    kernel: ProfiledKernel, bandwidth: float | None, compute: float | None, starting_us: float
) -> BoundBy | None:
    if kernel.kind == "communication":
        return "communication"
    reached = max(bandwidth or 0.0, compute or 0.0)
    is_short = kernel.time_us / kernel.calls < _SHORT * starting_us
    if is_short and reached < _BOUND:
        return "latency"
    if kernel.kind == "copy":
        return "memory"
    if reached < (_BOUND if _computes_functions(kernel) else _NEAR):
        return None
    return "memory" if (bandwidth or 0.0) >= (compute or 0.0) else "compute"


def _computes_functions(kernel: ProfiledKernel) -> bool:
    return any(name.removeprefix("aten.").lstrip("_") in _FUNCTIONS for name in kernel.operations)


def with_bounds(
    lines: Iterable[ProfiledLine], parts: Iterable[TimePart], kernels: Sequence[ProfiledKernel]
) -> tuple[ProfiledLine, ...]:
    """Lines with what most of their time waits for; None where that is unknown for most of it."""
    times: dict[tuple[str, int], dict[BoundBy | None, float]] = defaultdict(lambda: defaultdict(float))
    for part in parts:
        times[part.place][kernels[part.kernel].bound_by] += part.us
    found = ((line, times[line.file, line.line]) for line in lines)
    return tuple(replace(line, bound_by=max(own, key=lambda each: own[each], default=None)) for line, own in found)

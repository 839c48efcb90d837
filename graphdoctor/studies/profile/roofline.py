"""Judges what each kernel waits for, by what it reached beside what the device reaches.

Comes in: kernels with their time, bytes and floating-point operations, and the calibration. Goes
out: the same kernels with rates, shares and what binds them.

The bytes are those that a kernel must move at least, and the calibration is what a good kernel
reaches in practice. So a kernel at half of one of them is bound by it. One that is far from all is
bound by none: a short one has no time to reach anything, since it takes some microseconds to start
and to end; for a long one the reason is unknown, such as accesses that jump through memory.
Arithmetic that isn't a matrix product counts by what each operation takes on this
device: ``gelu(x * w + b) * sigmoid(x) + tanh(x)``, summed, keeps an H200's multiprocessors 90% busy
    at 30% of its
bandwidth (Nsight Compute). What the kernels before left in a GPU's cache needs no memory: of
kernels that move less than it holds, at 55 to 150% of the speed of a copy, an H100's memory is
mostly busy for less than half of the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from graphdoctor.facts.kernels import Device
from graphdoctor.facts.profile import BoundBy, ProfiledKernel, ProfiledLine, TimePart
from graphdoctor.facts.profiled import Calibration

_BOUND: Mapping[Device, Mapping[BoundBy, float]] = {
    "cuda": {"memory": 0.7, "compute": 0.6, "arithmetic": 0.6},
    "cpu": {"memory": 0.5, "compute": 0.5, "arithmetic": 0.5},
}
"""Of what the device reaches: as close as a kernel must come to it to be bound by it. Nsight
Compute takes 60% of a GPU's peak, of which a copy reaches 84% on an H200 (4.03 of 4.8 TB/s). A
CPU's kernels read more than they must: what one pass leaves in no cache, the next one reads
again."""

_IN_CACHE = 0.75
"""Of a GPU's cache: as much can be there from one kernel to the next, beside what is written
meanwhile."""

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

    ``calibration``: what the device reaches; None if it wasn't measured. One that isn't steady is
    as good as none.
    """
    if calibration is not None and not calibration.is_steady:
        calibration = None
    found, cache_bytes = tuple(kernels), 0 if calibration is None else calibration.cache_bytes or 0
    # Parameters and inputs that don't fit into the cache are never there when a kernel begins.
    is_cold = sum(kernel.argument_bytes or 0 for kernel in found) > cache_bytes
    return tuple(_judged(kernel, calibration, device, is_cold=is_cold) for kernel in found)


def _judged(
    kernel: ProfiledKernel, calibration: Calibration | None, device: Device, *, is_cold: bool
) -> ProfiledKernel:
    if not kernel.time_us:
        return kernel
    # Bytes in a microsecond are megabytes in a second.
    gb_per_s = None if kernel.bytes is None else kernel.bytes / kernel.time_us / 1e3
    tflops_per_s = None if kernel.flops is None else kernel.flops / kernel.time_us / 1e6
    possible = None if calibration is None else calibration.copy_gb_per_s
    arithmetic_us = None if calibration is None else _arithmetic_us(kernel, calibration)
    reached = replace(
        kernel,
        gb_per_s=gb_per_s,
        tflops_per_s=tflops_per_s,
        bandwidth_share=_share(gb_per_s, possible),
        compute_share=_share(
            tflops_per_s, None if calibration is None else _product_rate(kernel, calibration)
        ),
        arithmetic_share=_share(arithmetic_us, kernel.time_us),
    )
    return replace(reached, bound_by=_bound_by(reached, calibration, device, is_cold=is_cold))


def _share(reached: float | None, possible: float | None) -> float | None:
    return reached / possible if reached is not None and possible else None


def _product_rate(kernel: ProfiledKernel, calibration: Calibration) -> float | None:
    rates = calibration.matmul_tflops_per_s
    if kernel.dtype == "float32" and TF32 in rates and is_convolution(kernel):
        return rates[TF32]
    return rates.get(kernel.dtype or "")


def _arithmetic_us(kernel: ProfiledKernel, calibration: Calibration) -> float | None:
    """Microseconds of a kernel's operations on single elements at the device's rates; None if they
    aren't known.
    """
    us = 0.0
    for name, count in (kernel.elementwise or {}).items():
        if (rate := calibration.elementwise_rate(name)) is None:
            return None
        us += count / rate / 1e3
    return None if kernel.elementwise is None else us


def is_convolution(kernel: ProfiledKernel) -> bool:
    """It computes a convolution or its gradients."""
    return any("convolution" in name for name in kernel.operations)


def _bound_by(
    kernel: ProfiledKernel, calibration: Calibration | None, device: Device, *, is_cold: bool
) -> BoundBy | None:
    if kernel.kind == "communication":
        return "communication"
    shares: dict[BoundBy, float] = {
        "memory": (kernel.bandwidth_share or 0.0)
        * _part_from_memory(kernel, calibration, is_cold=is_cold),
        "compute": kernel.compute_share or 0.0,
        "arithmetic": kernel.arithmetic_share or 0.0,
    }
    bound = max(shares, key=lambda each: shares[each] / _BOUND[device][each])
    if shares[bound] >= _BOUND[device][bound]:
        return bound
    is_alone = device == "cpu" and calibration is not None and calibration.threads == 1
    if kernel.time_us / kernel.calls < _SHORT * (_ALONE_US if is_alone else _STARTING_US[device]):
        return "latency"
    return "memory" if kernel.kind == "copy" and kernel.bytes is None else None


def _part_from_memory(
    kernel: ProfiledKernel, calibration: Calibration | None, *, is_cold: bool
) -> float:
    """The part of what a kernel moves that surely isn't in the cache when it begins."""
    cache_bytes = 0 if calibration is None else calibration.cache_bytes or 0
    if not kernel.bytes or kernel.bytes / kernel.calls > _IN_CACHE * cache_bytes:
        return 1.0
    return (kernel.argument_bytes or 0) / kernel.bytes if is_cold else 0.0


def with_bounds(
    lines: Iterable[ProfiledLine], parts: Iterable[TimePart], kernels: Sequence[ProfiledKernel]
) -> tuple[ProfiledLine, ...]:
    """Lines with what most of their time waits for; None where that is unknown for most of it."""
    times: dict[tuple[str, int], dict[BoundBy | None, float]] = defaultdict(
        lambda: defaultdict(float)
    )
    for part in parts:
        times[part.place][kernels[part.kernel].bound_by] += part.us
    found = ((line, times[line.file, line.line]) for line in lines)
    return tuple(
        replace(line, bound_by=max(own, key=lambda each: own[each], default=None))
        for line, own in found
    )

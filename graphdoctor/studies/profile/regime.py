"""Judges what each kernel waits for, what a call as a whole is bound by, and what helps there.

Comes in: kernels with their time, bytes and floating-point operations, the calibration, and the
recording. Goes out: the same kernels with rates, shares and what binds them, and ``Regime``.

The bytes are those that a kernel must move at least, and the calibration is what a good kernel
reaches in practice. So a kernel at half of one of them is bound by it. One that is far from all is
bound by none: a short one has no time to reach anything, since it takes some microseconds to start
and to end; for a long one the reason is unknown, such as accesses that jump through memory.
Arithmetic that isn't a matrix product counts by what each operation takes on this device:
``gelu(x * w + b) * sigmoid(x) + tanh(x)``, summed, keeps an H200's multiprocessors 90% busy at 30%
of its bandwidth (Nsight Compute). What the kernels before left in a GPU's cache needs no memory: of
kernels that move less than it holds, at 55 to 150% of the speed of a copy, an H100's memory is
mostly busy for less than half of the time.

The time of a call is that of its kernels, by what each waits for, and the rest, which is the
host's. The largest part binds it; one that comes close to the largest is named with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.kernels import Device, KernelShare
from graphdoctor.facts.profile import (
    BoundBy,
    ProfiledKernel,
    ProfiledLine,
    ProfileReport,
    Regime,
    RegimeDoubt,
    TimePart,
)
from graphdoctor.facts.profiled import Calibration
from graphdoctor.facts.recording import Recording
from graphdoctor.rules.toolkit import in_bfloat16
from graphdoctor.views.profile_words import ADVICE, regime_text

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
"""The least time in which a kernel starts and ends: on a GPU its blocks, on a CPU its threads."""

_ALONE_US = 1.0
"""The same of a single thread, with the profiler's range around it."""

_SHORT = 2.0
"""A kernel of less than so many times that spends half of its time on starting and ending."""

TF32 = "tf32"


def judged(
    kernels: Iterable[ProfiledKernel], calibration: Calibration | None, device: Device
) -> tuple[ProfiledKernel, ...]:
    """Return kernels with what they reached, and what they wait for.

    ``calibration``: what the device reaches; None if it wasn't measured. One that isn't steady is
    as good as none.
    """
    rates = calibration if calibration is not None and calibration.is_steady else None
    kernels = tuple(kernels)
    cache_bytes = 0 if rates is None else rates.cache_bytes or 0
    # Parameters and inputs that don't fit into the cache are never there when a kernel begins.
    is_cold = sum(kernel.argument_bytes or 0 for kernel in kernels) > cache_bytes
    reached = (_reached(kernel, rates) if kernel.time_us else kernel for kernel in kernels)
    is_alone = device == "cpu" and rates is not None and rates.threads == 1
    starting_us = _ALONE_US if is_alone else _STARTING_US[device]

    def bound_by(kernel: ProfiledKernel) -> BoundBy | None:
        if kernel.kind == "communication":
            return "communication"
        # The part of what it moves that surely isn't in the cache when it begins.
        from_memory = 1.0
        if kernel.bytes and kernel.bytes / kernel.calls <= _IN_CACHE * cache_bytes:
            from_memory = (kernel.argument_bytes or 0) / kernel.bytes if is_cold else 0.0
        shares: dict[BoundBy, float] = {
            "memory": _of_memory(kernel.bandwidth_share or 0.0) * from_memory,
            "compute": kernel.compute_share or 0.0,
            "arithmetic": kernel.arithmetic_share or 0.0,
        }
        bound = max(shares, key=lambda limit: shares[limit] / _BOUND[device][limit])
        if shares[bound] >= _BOUND[device][bound]:
            return bound
        if kernel.time_us / kernel.calls < _SHORT * starting_us:
            return "latency"
        return "memory" if kernel.kind == "copy" and kernel.bytes is None else None

    return tuple(
        replace(kernel, bound_by=bound_by(kernel)) if kernel.time_us else kernel
        for kernel in reached
    )


def _of_memory(share: float) -> float:
    """Return the share of a copy's speed; 0 where it's so far above it that caches held what was
    read.
    """
    return share if share <= _DISTURBED else 0.0


def _reached(kernel: ProfiledKernel, rates: Calibration | None) -> ProfiledKernel:
    """Return a kernel with its rates, and their shares of what the device reaches."""
    # Bytes in a microsecond are megabytes in a second.
    gb_per_s = None if kernel.bytes is None else kernel.bytes / kernel.time_us / 1e3
    tflops_per_s = None if kernel.flops is None else kernel.flops / kernel.time_us / 1e6
    kernel = replace(kernel, gb_per_s=gb_per_s, tflops_per_s=tflops_per_s)
    if rates is None:
        return kernel
    products = rates.matmul_tflops_per_s
    is_tf32 = kernel.dtype == "float32" and TF32 in products and is_convolution(kernel)
    product_rate = products.get(TF32 if is_tf32 else kernel.dtype or "")
    arithmetic_us: float | None = None if kernel.elementwise is None else 0.0
    for name, count in (kernel.elementwise or {}).items():
        if arithmetic_us is not None:
            rate = rates.elementwise_rate(name)
            arithmetic_us = None if rate is None else arithmetic_us + count / rate / 1e3

    def share(reached: float | None, possible: float | None) -> float | None:
        return reached / possible if reached is not None and possible else None

    return replace(
        kernel,
        bandwidth_share=share(gb_per_s, rates.copy_gb_per_s),
        compute_share=share(tflops_per_s, product_rate),
        arithmetic_share=share(arithmetic_us, kernel.time_us),
    )


def is_convolution(kernel: ProfiledKernel) -> bool:
    """Return whether a kernel computes a convolution or its gradients."""
    return any("convolution" in name for name in kernel.operations)


def with_bounds(
    lines: Iterable[ProfiledLine], parts: Iterable[TimePart], kernels: Sequence[ProfiledKernel]
) -> tuple[ProfiledLine, ...]:
    """Return lines with what most of their time waits for; None where that is unknown for most of
    it.
    """
    times: dict[tuple[str, int], dict[BoundBy | None, float]] = defaultdict(
        lambda: defaultdict(float)
    )
    for part in parts:
        times[part.place][kernels[part.kernel].bound_by] += part.us
    times_of_lines = ((line, times[line.file, line.line]) for line in lines)
    return tuple(
        replace(line, bound_by=max(waits, key=lambda bound: waits[bound], default=None))
        for line, waits in times_of_lines
    )


# The call as a whole.

_CLOSE = 0.8
"""A part that is so large beside the largest: measured again, they could change places."""

_DISTURBED = 1.25
"""The profiler makes calls longer and kernels hardly: kernels that take longer than a whole call
without it, or calls that take longer without it, by more than this."""

_SPREAD = 2.0
"""The upper quartile of the calls' times over the lower: then half of a call can be other
work's."""

_WITH_CUDA_GRAPHS = ("reduce-overhead", "max-autotune")


def regime_of(report: ProfileReport, recording: Recording, diagnosis: Diagnosis) -> Regime | None:
    """Judge what a call is bound by; None if there is no steady call."""
    if report.call_us is None or not report.call_us.median:
        return None
    seen, calibration = recording.kernels, report.calibration
    regime = Regime(bound_by=None, text="", evidence={}, doubt=_doubt(report, seen))
    if regime.doubt is None:
        shares = _shares(report)
        unknown = shares.pop(None)
        evidence = {f"{bound}_share": part for bound, part in shares.items()}
        evidence |= {"unknown_share": unknown} | _numbers(report, report.call_us.median, seen)
        (first, share), (second, next_share), *_ = (
            (bound, part) for bound, part in shares.items() if bound is not None
        )
        close = second if next_share >= _CLOSE * share else None
        regime = replace(regime, evidence=evidence, largest=first, close=close)
        if unknown > share:
            doubt: RegimeDoubt = "uncalibrated" if calibration is None else "unsteady"
            if calibration is not None and calibration.is_steady:
                doubt = "unreached"
            regime = replace(regime, doubt=doubt)
        else:
            bounds = (bound for bound in (first, close) if bound)
            codes = (
                code for bound in bounds for code in _advice(bound, report, recording, diagnosis)
            )
            texts = (ADVICE[code].format(bfloat16=in_bfloat16(report.device)) for code in codes)
            regime = replace(regime, bound_by=first, advice=tuple(dict.fromkeys(texts)))
    return replace(regime, text=regime_text(regime, report, seen))


def _doubt(report: ProfileReport, seen: KernelShare | None) -> RegimeDoubt | None:
    """Return what can't be if the machine had nothing else to do, or wasn't seen; None if there is
    nothing.
    """
    call_us, kernels_us = report.call_us, report.kernels_us
    if call_us is None or kernels_us is None or not report.kernels:
        return "unseen"
    if call_us.q3 > _SPREAD * call_us.q1:
        return "scattered"
    if kernels_us > _DISTURBED * call_us.median:
        return "long_kernels"
    if seen is not None and call_us.median > _DISTURBED * seen.call_us:
        return "short_profiled"
    return None


def _shares(report: ProfileReport) -> dict[BoundBy | None, float]:
    """Return the shares of the call by what it waits for, the largest first; None stands for what
    is unknown.
    """
    times: dict[BoundBy | None, float] = dict.fromkeys((*get_args(BoundBy), None), 0.0)
    for kernel in report.kernels:
        times[kernel.bound_by] += kernel.time_us
    times["host"] = report.rest_us or 0.0
    # Kernels and the rest are measured apart, so they can be a little more than the call.
    whole = max(report.call_us.median if report.call_us else 0.0, sum(times.values()))
    return {bound: us / whole for bound, us in sorted(times.items(), key=lambda item: -item[1])}


def _numbers(report: ProfileReport, call_us: float, seen: KernelShare | None) -> dict[str, float]:
    """Return the numbers that the text is about."""
    kernels_us, rest_us = report.kernels_us or 0.0, report.rest_us or 0.0
    numbers: dict[str, float] = {"call_us": call_us, "kernels_us": kernels_us, "rest_us": rest_us}
    if seen is None:
        return numbers
    numbers |= {
        "compiled_functions": seen.region_runs,
        "cuda_graph_launches": seen.graph_launches,
        "compiled_host_us": seen.region_us,
        "other_host_us": seen.outside_us,
    }
    if seen.overhead_us is not None:
        numbers["overhead_us"] = seen.overhead_us
    if count := seen.launches:
        numbers |= {"launches": count, "kernel_us": kernels_us / count}
        numbers["rest_per_launch_us"] = rest_us / count
    return numbers


def _advice(
    bound: BoundBy, report: ProfileReport, recording: Recording, diagnosis: Diagnosis
) -> list[str]:
    """Return the codes of what helps, the most useful first."""
    kernels = [kernel for kernel in report.kernels if kernel.bound_by == bound]
    graphs = recording.profiled.graphs if recording.profiled is not None else ()
    by_number = {(graph.graph, graph.phase): graph for graph in graphs}

    def is_mostly(fits: Callable[[ProfiledKernel], bool]) -> bool:
        # Most of the time that waits for this is in such kernels.
        fitting_us = sum(kernel.time_us for kernel in kernels if fits(kernel))
        return fitting_us > sum(kernel.time_us for kernel in kernels) / 2

    def has_float32(kernel: ProfiledKernel) -> bool:
        if kernel.dtype:
            return kernel.dtype == "float32"
        graph = None if kernel.graph is None else by_number.get((kernel.graph, kernel.phase))
        return any(
            operation.dtype == "float32"
            for operation in (() if graph is None else graph.operations)
            if operation.operation.rpartition(".")[0] in kernel.operations
        )

    mode, is_on_gpu = str(report.target.compile_arguments.get("mode")), report.device == "cuda"
    lacks_graphs = is_on_gpu and report.cuda_graphs is None and mode not in _WITH_CUDA_GRAPHS
    seen, precision = recording.kernels, recording.float32_precision
    has_own_python = report.device == "cpu" and seen is not None and seen.is_own_python
    has_breaks, is_float32 = bool(diagnosis.summary.break_sites), is_mostly(has_float32)
    codes = {finding.code for finding in diagnosis.findings}
    products = precision if is_float32 and is_on_gpu else None
    is_convolved = is_mostly(is_convolution)
    can_convolve = products is not None and is_convolved and not products.convolution_tf32
    can_multiply = products is not None and not is_convolved and not products.matmul_tf32
    advice: Mapping[BoundBy, Mapping[str, bool]] = {
        "host": {
            "entering": has_breaks,
            "own_python": has_own_python,
            "cuda_graphs": lacks_graphs,
            "more_in_a_call": True,
        },
        "latency": {"cuda_graphs": lacks_graphs, "more_in_a_kernel": True},
        "communication": {"overlap": True, "send_less": True},
        "memory": {
            "half_the_bytes": is_float32,
            "crossing_values": has_breaks,
            **{code: code in codes for code in ("GD508", "GD509")},
            "move_less": True,
        },
        "compute": {
            "convolution_tf32": can_convolve,
            "matmul_tf32": can_multiply,
            "smaller_dtype": is_float32,
            "autotune": is_on_gpu and not mode.startswith("max-autotune"),
        },
        "arithmetic": {"compute_less": True, "dtype_is_no_help": is_float32},
    }
    return [code for code, fits in advice[bound].items() if fits]

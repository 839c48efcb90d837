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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    """Kernels with what they reached, and what they wait for.

    ``calibration``: what the device reaches; None if it wasn't measured. One that isn't steady is
    as good as none.
    """
    if calibration is not None and not calibration.is_steady:
        calibration = None
    all_kernels, cache_bytes = (
        tuple(kernels),
        0 if calibration is None else calibration.cache_bytes or 0,
    )
    # Parameters and inputs that don't fit into the cache are never there when a kernel begins.
    is_cold = sum(kernel.argument_bytes or 0 for kernel in all_kernels) > cache_bytes
    return tuple(_judged(kernel, calibration, device, is_cold=is_cold) for kernel in all_kernels)


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
    bound = max(shares, key=lambda limit: shares[limit] / _BOUND[device][limit])
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
    call = _Call(report, recording, diagnosis)
    regime = Regime(bound_by=None, text="", evidence={}, doubt=_doubt(report, recording.kernels))
    if regime.doubt is None:
        regime = _judged_regime(call)
    return replace(regime, text=regime_text(regime, report, recording.kernels))


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


def _judged_regime(call: _Call) -> Regime:
    shares, calibration = _shares(call.report), call.report.calibration
    unknown = shares.pop(None)
    evidence = {f"{bound}_share": part for bound, part in shares.items()}
    evidence |= {"unknown_share": unknown} | _evidence(call.report, call.recording.kernels)
    (first, share), (second, next_share), *_ = (
        (bound, part) for bound, part in shares.items() if bound is not None
    )
    close = second if next_share >= _CLOSE * share else None
    regime = Regime(bound_by=None, text="", evidence=evidence, largest=first, close=close)
    if unknown > share:
        doubt: RegimeDoubt = "uncalibrated" if calibration is None else "unsteady"
        if calibration is not None and calibration.is_steady:
            doubt = "unreached"
        return replace(regime, doubt=doubt)
    codes = (code for bound in (first, close) if bound for code in _ADVICE[bound](call))
    bfloat16 = in_bfloat16(call.report.device)
    texts = (ADVICE[code].format(bfloat16=bfloat16) for code in codes)
    return replace(regime, bound_by=first, advice=tuple(dict.fromkeys(texts)))


def _shares(report: ProfileReport) -> dict[BoundBy | None, float]:
    """Shares of the call by what it waits for, the largest first; None stands for what is
    unknown.
    """
    times: dict[BoundBy | None, float] = dict.fromkeys((*get_args(BoundBy), None), 0.0)
    for kernel in report.kernels:
        times[kernel.bound_by] += kernel.time_us
    times["host"] = report.rest_us or 0.0
    # Kernels and the rest are measured apart, so they can be a little more than the call.
    whole = max(report.call_us.median if report.call_us else 0.0, sum(times.values()))
    return {bound: us / whole for bound, us in sorted(times.items(), key=lambda item: -item[1])}


def _evidence(report: ProfileReport, seen: KernelShare | None) -> dict[str, float]:
    """The numbers that the text is about."""
    kernels_us, rest_us = report.kernels_us or 0.0, report.rest_us or 0.0
    numbers: dict[str, float] = {
        "call_us": report.call_us.median if report.call_us else 0.0,
        "kernels_us": kernels_us,
        "rest_us": rest_us,
    }
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
        numbers |= {
            "launches": count,
            "kernel_us": kernels_us / count,
            "rest_per_launch_us": rest_us / count,
        }
    return numbers


# Advice, the most useful first.


@dataclass(frozen=True)
class _Call:
    report: ProfileReport
    recording: Recording
    diagnosis: Diagnosis

    @property
    def mode(self) -> str:
        """The mode that torch.compile was given."""
        return str(self.report.target.compile_arguments.get("mode"))

    @property
    def lacks_cuda_graphs(self) -> bool:
        """Return whether it could have CUDA graphs, and has none."""
        is_without = self.report.cuda_graphs is None and self.mode not in _WITH_CUDA_GRAPHS
        return self.report.device == "cuda" and is_without

    def is_mostly(self, bound: BoundBy, fits: Callable[[ProfiledKernel], bool]) -> bool:
        """Return whether most of the time that waits for this is in such kernels."""
        kernels = [kernel for kernel in self.report.kernels if kernel.bound_by == bound]
        fitting_us = sum(kernel.time_us for kernel in kernels if fits(kernel))
        return fitting_us > sum(kernel.time_us for kernel in kernels) / 2

    def is_in_float32(self, bound: BoundBy) -> bool:
        """Return whether most of that time is in kernels with values in float32."""
        profiled = self.recording.profiled
        graphs = (
            {}
            if profiled is None
            else {(graph.graph, graph.phase): graph for graph in profiled.graphs}
        )

        def fits(kernel: ProfiledKernel) -> bool:
            graph = None if kernel.graph is None else graphs.get((kernel.graph, kernel.phase))
            dtypes = {
                operation.dtype
                for operation in (() if graph is None else graph.operations)
                if operation.operation.rpartition(".")[0] in kernel.operations
            }
            return "float32" in ({kernel.dtype} if kernel.dtype else dtypes)

        return self.is_mostly(bound, fits)


def _for_host(call: _Call) -> Iterator[str]:
    if call.diagnosis.summary.break_sites:
        yield "entering"
    seen = call.recording.kernels
    if call.report.device == "cpu" and seen is not None and seen.is_own_python:
        yield "own_python"
    if call.lacks_cuda_graphs:
        yield "cuda_graphs"
    yield "more_in_a_call"


def _for_latency(call: _Call) -> Iterator[str]:
    if call.lacks_cuda_graphs:
        yield "cuda_graphs"
    yield "more_in_a_kernel"


def _for_communication(_call: _Call) -> Iterator[str]:
    yield from ("overlap", "send_less")


def _for_memory(call: _Call) -> Iterator[str]:
    if call.is_in_float32("memory"):
        yield "half_the_bytes"
    if call.diagnosis.summary.break_sites:
        yield "crossing_values"
    codes = {finding.code for finding in call.diagnosis.findings}
    yield from (code for code in ("GD508", "GD509") if code in codes)
    yield "move_less"


def _for_compute(call: _Call) -> Iterator[str]:
    precision, has_float32 = call.recording.float32_precision, call.is_in_float32("compute")
    is_on_gpu = call.report.device == "cuda"
    if has_float32 and is_on_gpu and precision is not None:
        if call.is_mostly("compute", is_convolution):
            if not precision.convolution_tf32:
                yield "convolution_tf32"
        elif not precision.matmul_tf32:
            yield "matmul_tf32"
    if has_float32:
        yield "smaller_dtype"
    if is_on_gpu and not call.mode.startswith("max-autotune"):
        yield "autotune"


def _for_arithmetic(call: _Call) -> Iterator[str]:
    yield "compute_less"
    if call.is_in_float32("arithmetic"):
        yield "dtype_is_no_help"


_ADVICE: Mapping[BoundBy, Callable[[_Call], Iterator[str]]] = {
    "host": _for_host,
    "latency": _for_latency,
    "communication": _for_communication,
    "memory": _for_memory,
    "compute": _for_compute,
    "arithmetic": _for_arithmetic,
}

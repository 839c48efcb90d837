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
    TimePart,
)
from graphdoctor.facts.profiled import Calibration
from graphdoctor.facts.recording import Recording
from graphdoctor.rules.toolkit import in_bfloat16
from graphdoctor.views.measures import time_text
from graphdoctor.wording import counted, percent

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

_OWN_PYTHON = 0.5
"""Of the host's time: then what helps is about the program's Python."""

_WITH_CUDA_GRAPHS = ("reduce-overhead", "max-autotune")
_CUDA_GRAPHS = (
    'Compile with mode="reduce-overhead": CUDA graphs launch all kernels of a graph at once.'
)


def regime_of(report: ProfileReport, recording: Recording, diagnosis: Diagnosis) -> Regime | None:
    """Judge what a call is bound by; None if there is no steady call."""
    if report.call_us is None or not report.call_us.median:
        return None
    call = _Call(
        report,
        recording,
        diagnosis,
        report.call_us.median,
        report.kernels_us or 0.0,
        report.rest_us or 0.0,
    )
    if report.kernels_us is None or not report.kernels:
        return _unknown("the profiler saw no kernels", {})
    if (doubt := call.doubt()) is not None:
        return Regime(
            bound_by=None, text=f"Too noisy to say what limits this call: {doubt}.", evidence={}
        )
    shares, calibration = call.shares(), report.calibration
    unknown = shares.pop(None)
    (first, share), (second, next_share), *_ = (
        (bound, part) for bound, part in shares.items() if bound is not None
    )
    evidence = {f"{bound}_share": part for bound, part in shares.items()} | {
        "unknown_share": unknown
    }
    evidence |= call.evidence()
    if unknown > share and (calibration is None or not calibration.is_steady):
        why = (
            "wasn't measured"
            if calibration is None
            else "couldn't be measured: other work kept the machine busy"
        )
        return _unknown(
            f"{percent(unknown)} of it is in kernels, and what this device reaches {why}", evidence
        )
    if unknown > share:
        besides = f". Besides, {call.text_of(first, share)}" if share else ""
        return _unknown(
            f"{percent(unknown)} of it is in kernels that {call.reached_text()}{besides}", evidence
        )
    text, binding = (
        f"Bound by {'the host' if first == 'host' else first}: {call.text_of(first, share)}.",
        [first],
    )
    if next_share >= _CLOSE * share:
        text += f" Nearly as much: {call.text_of(second, next_share)}."
        binding.append(second)
    advice = dict.fromkeys(text for bound in binding for text in _ADVICE[bound](call))
    return Regime(bound_by=first, text=text, evidence=evidence, advice=tuple(advice))


def _unknown(reason: str, evidence: dict[str, float]) -> Regime:
    return Regime(
        bound_by=None, text=f"Not known what limits this call: {reason}.", evidence=evidence
    )


@dataclass(frozen=True)
class _Call:
    report: ProfileReport
    recording: Recording
    diagnosis: Diagnosis
    us: float
    kernels_us: float
    rest_us: float

    @property
    def seen(self) -> KernelShare | None:
        """The whole call under the profiler; None if it saw nothing."""
        return self.recording.kernels

    def doubt(self) -> str | None:
        """Name what can't be if the machine had nothing else to do; None if there is nothing."""
        call, seen = self.report.call_us, self.seen
        if call is None:
            return None
        without = f"calls without the profiler took {time_text(call.q1)} to {time_text(call.q3)}"
        if call.q3 > _SPREAD * call.q1:
            return without.capitalize()
        if self.kernels_us > _DISTURBED * self.us:
            return f"Kernels took {time_text(self.kernels_us)}, but {without}"
        if seen is not None and self.us > _DISTURBED * seen.call_us:
            return f"Under the profiler a call took {time_text(seen.call_us)}, but {without}"
        return None

    def shares(self) -> dict[BoundBy | None, float]:
        """Shares of the call by what it waits for, the largest first; None stands for what is
        unknown.
        """
        times: dict[BoundBy | None, float] = dict.fromkeys((*get_args(BoundBy), None), 0.0)
        for kernel in self.report.kernels:
            times[kernel.bound_by] += kernel.time_us
        times["host"] = self.rest_us
        # Kernels and the rest are measured apart, so they can be a little more than the call.
        whole = max(self.us, sum(times.values()))
        return {bound: us / whole for bound, us in sorted(times.items(), key=lambda item: -item[1])}

    def evidence(self) -> dict[str, float]:
        """The numbers that the text is about."""
        numbers: dict[str, float] = {
            "call_us": self.us,
            "kernels_us": self.kernels_us,
            "rest_us": self.rest_us,
        }
        if (seen := self.seen) is None:
            return numbers
        numbers |= {
            "compiled_functions": seen.region_runs,
            "cuda_graph_launches": seen.graph_launches,
        }
        numbers |= {"compiled_host_us": seen.region_us, "other_host_us": seen.outside_us}
        numbers |= {} if seen.overhead_us is None else {"overhead_us": seen.overhead_us}
        if count := seen.launches:
            means = {
                "kernel_us": self.kernels_us / count,
                "rest_per_launch_us": self.rest_us / count,
            }
            numbers |= {"launches": count, **means}
        return numbers

    def bound_by(self, bound: BoundBy | None) -> list[ProfiledKernel]:
        """The kernels that wait for this."""
        return [kernel for kernel in self.report.kernels if kernel.bound_by == bound]

    def text_of(self, bound: BoundBy, share: float) -> str:
        """A part of the call, as a clause."""
        kernels, part = self.bound_by(bound), f"{percent(share)} of the call"
        if bound == "host":
            return self._host_text(part)
        if bound == "memory":
            speed = f"{_reached(kernels, 'bandwidth_share')} of the speed of a copy"
            return f"kernels that wait for memory take {part}, at {speed}"
        if bound == "compute":
            reached = _reached(kernels, "compute_share")
            return f"matrix products and convolutions take {part}, at {reached} of what this device reaches"
        if bound == "arithmetic":
            reached, functions = (
                _reached(kernels, "arithmetic_share"),
                _costliest(kernels, self.report.calibration),
            )
            which = f", most of it {functions}" if functions else ""
            return f"kernels that wait for arithmetic take {part}, at {reached} of what this device reaches{which}"
        if bound == "communication":
            return f"passing tensors between processes takes {part}"
        runs = sum(kernel.calls for kernel in kernels)
        mean = time_text(sum(kernel.time_us for kernel in kernels) / max(runs, 1))
        return f"{counted(runs, 'kernel')} too short to use the device take {part}, {mean} each"

    def reached_text(self) -> str:
        """Say what kernels reach whose limit is unknown, as a clause."""
        kernels = self.bound_by(None)
        parts = {
            "the speed of a copy": "bandwidth_share",
            "this device's products": "compute_share",
            "its other arithmetic": "arithmetic_share",
        }
        texts = [
            f"{_reached(kernels, name)} of {what}"
            for what, name in parts.items()
            if any(getattr(kernel, name) is not None for kernel in kernels)
        ]
        return f"reach {' and '.join(texts)}" if texts else "move unknown amounts of memory"

    def _host_text(self, part: str) -> str:
        is_on_cpu, seen = self.report.device == "cpu", self.seen
        text = f"{part} is outside of kernels" if is_on_cpu else f"the device is idle for {part}"
        if seen is None or not seen.launches:
            return text
        # On a GPU the host's time outside of compiled code has its waiting for the device in it.
        where = "the program's own Python" if self.is_own_python else "running compiled code"
        whose = f", most of it in {where}" if is_on_cpu else ""
        launches = f"{counted(seen.launches, 'kernel')} of {counted(seen.region_runs, 'compiled function')}"
        mean = time_text(self.kernels_us / seen.launches)
        return f"{text}, {time_text(self.rest_us)}{whose}. {launches} take {mean} each"

    @property
    def is_own_python(self) -> bool:
        """Most of the host's time is outside of compiled code."""
        seen = self.seen
        return seen is not None and seen.outside_us >= _OWN_PYTHON * (
            seen.outside_us + seen.region_us
        )

    @property
    def mode(self) -> str:
        """The mode that torch.compile was given."""
        return str(self.report.target.compile_arguments.get("mode"))

    @property
    def can_have_cuda_graphs(self) -> bool:
        """It has none."""
        is_without = self.report.cuda_graphs is None and self.mode not in _WITH_CUDA_GRAPHS
        return self.report.device == "cuda" and is_without

    def is_mostly(self, bound: BoundBy, fits: Callable[[ProfiledKernel], bool]) -> bool:
        """Whether most of the time that waits for this is in such kernels."""
        kernels = self.bound_by(bound)
        return (
            sum(kernel.time_us for kernel in kernels if fits(kernel))
            > sum(kernel.time_us for kernel in kernels) / 2
        )

    def is_in_float32(self, bound: BoundBy) -> bool:
        """Whether most of that time is in kernels with values in float32."""
        profiled = self.recording.profiled
        graphs = (
            {}
            if profiled is None
            else {(graph.graph, graph.phase): graph for graph in profiled.graphs}
        )

        def fits(kernel: ProfiledKernel) -> bool:
            graph = None if kernel.graph is None else graphs.get((kernel.graph, kernel.phase))
            values = () if graph is None else graph.operations
            dtypes = {
                operation.dtype
                for operation in values
                if operation.operation.rpartition(".")[0] in kernel.operations
            }
            return "float32" in ({kernel.dtype} if kernel.dtype else dtypes)

        return self.is_mostly(bound, fits)


def _reached(kernels: list[ProfiledKernel], name: str) -> str:
    reached = [
        (getattr(kernel, name), kernel.time_us)
        for kernel in kernels
        if getattr(kernel, name) is not None
    ]
    whole = sum(us for _, us in reached)
    if not whole:
        return "an unknown part"
    share = sum(value * us for value, us in reached) / whole
    # A copy is no limit to what a cache holds. What else was measured is one, unless other work
    # slowed it down then.
    return percent(share) if share < 1 or name == "bandwidth_share" else "100% or more"


def _costliest(kernels: list[ProfiledKernel], calibration: Calibration | None) -> str:
    """The operations on single elements that take half of the time of all of them, in words."""
    times: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        for name, count in (kernel.elementwise or {}).items():
            rate = None if calibration is None else calibration.elementwise_rate(name)
            times[name] += count / rate if rate else 0.0
    costliest, whole = list[str](), sum(times.values())
    for name in sorted(times, key=lambda function: -times[function]):
        if sum(times[function] for function in costliest) < whole / 2:
            costliest.append(name)
    return " and ".join(costliest)


# What helps, the most useful first.


def _for_host(call: _Call) -> Iterator[str]:
    if call.diagnosis.summary.break_sites:
        yield "Fix the graph breaks: each compiled function takes time to enter."
    if call.report.device == "cpu" and call.is_own_python:
        yield "Move Python out of the call: most of the host's time is in none of the compiled functions."
    if call.can_have_cuda_graphs:
        yield _CUDA_GRAPHS
    yield "Do more in one call: use a larger batch."


def _for_latency(call: _Call) -> Iterator[str]:
    if call.can_have_cuda_graphs:
        yield _CUDA_GRAPHS
    yield "Use a larger batch, so that each kernel has more to do."


def _for_communication(_call: _Call) -> Iterator[str]:
    yield (
        "Overlap it with computation: DistributedDataParallel sends gradients in buckets (bucket_cap_mb) while the "
        "backward pass goes on."
    )
    yield "Send less: accumulate gradients under no_sync(), or send them in bfloat16 with a communication hook."


def _for_memory(call: _Call) -> Iterator[str]:
    if call.is_in_float32("memory"):
        yield "Use a smaller dtype: torch.autocast with bfloat16 halves the bytes."
    if call.diagnosis.summary.break_sites:
        yield "Fix the graph breaks: values that cross them are written to memory and read again."
    codes = {finding.code for finding in call.diagnosis.findings}
    if "GD508" in codes:
        yield "Leave out the copies into other layouts (GD508)."
    if "GD509" in codes:
        yield "Leave out the casts (GD509)."
    yield "Move less memory: fewer intermediate results, and fewer kernels that read them again."


def _for_compute(call: _Call) -> Iterator[str]:
    precision, has_float32 = call.recording.float32_precision, call.is_in_float32("compute")
    if has_float32 and call.report.device == "cuda" and precision is not None:
        if call.is_mostly("compute", is_convolution):
            if not precision.convolution_tf32:
                yield "Let float32 convolutions use TensorFloat32: torch.backends.cudnn.allow_tf32 = True."
        elif not precision.matmul_tf32:
            yield 'Let float32 products use TensorFloat32: torch.set_float32_matmul_precision("high").'
    if has_float32:
        yield f"Use a smaller dtype: {in_bfloat16(call.report.device)}."
    if call.report.device == "cuda" and not call.mode.startswith("max-autotune"):
        yield 'Compile with mode="max-autotune": Inductor tries more kernels for matrix products.'


def _for_arithmetic(call: _Call) -> Iterator[str]:
    yield "Compute less for each element: cheaper functions, or the same value once."
    if call.is_in_float32("arithmetic"):
        yield "A smaller dtype hardly helps: Inductor computes such functions in float32 all the same."


_ADVICE: dict[BoundBy, Callable[[_Call], Iterator[str]]] = {
    "host": _for_host,
    "latency": _for_latency,
    "communication": _for_communication,
    "memory": _for_memory,
    "compute": _for_compute,
    "arithmetic": _for_arithmetic,
}

"""Judges what a call as a whole is bound by, and says what helps there.

Comes in: a report with judged kernels, and the recording. Goes out: ``Regime``. The time of a call is that of its
kernels, by what each waits for, and the rest, which is the host's. The largest part binds it; one that comes close to
the largest is named with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from graphdoctor.facts.bench import CallTimes
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.kernels import KernelShare
from graphdoctor.facts.profile import BoundBy, ProfiledKernel, ProfileReport, Regime
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.wording import counted, percent
from graphdoctor.studies.profile.roofline import NEAR, is_convolution

_CLOSE = 0.8
"""A part that is so large beside the largest: measured again, they could change places."""

_DISTURBED = 1.25
"""The profiler makes calls longer and kernels hardly: kernels that take longer than a whole call without it, or calls
that take longer without it, by more than this."""

_SPREAD = 2.0
"""The upper quartile of the calls' times over the lower: then half of a call can be other work's."""

_UNKNOWN = "It is unknown what the call is bound by"

_OWN_PYTHON = 0.5
"""Of the host's time: then what helps is about the program's Python."""

_WITH_CUDA_GRAPHS = ("reduce-overhead", "max-autotune")


@dataclass(frozen=True)
class _Shares:
    """Where the time of a call goes. ``parts``: shares of the call by what it waits for, the largest first."""

    parts: tuple[tuple[BoundBy, float], ...]
    unknown: float


def regime_of(report: ProfileReport, recording: Recording, diagnosis: Diagnosis) -> Regime | None:
    """What a call is bound by; None if there is no steady call."""
    call = report.call_us
    if call is None or not call.median:
        return None
    if report.kernels_us is None or not report.kernels:
        return _unknown("the profiler saw no kernels")
    if (doubt := _doubt(call, report.kernels_us, recording.kernels)) is not None:
        return _unknown(f"other work on the machine disturbed the measurement. {doubt}")
    shares, calibration = _shares(report, call.median), report.calibration
    (first, share), (second, next_share), *_ = shares.parts
    evidence = _evidence(report, recording.kernels, shares)
    if shares.unknown > share and (calibration is None or not calibration.is_steady):
        why = "wasn't measured" if calibration is None else "couldn't be measured: other work kept the machine busy"
        reason = f"{percent(shares.unknown)} of it is in kernels, and what this device reaches {why}"
        return Regime(bound_by=None, text=f"{_UNKNOWN}: {reason}.", evidence=evidence)
    if shares.unknown > share:
        known = f" Besides, {_class_text(first, report, recording.kernels, share)}." if share else ""
        return Regime(
            bound_by=None,
            text=f"Kernels that reach neither {percent(NEAR)} of this device's bandwidth nor of its arithmetic take "
            f"{percent(shares.unknown)} of the call, so it is unknown what binds it.{known}",
            evidence=evidence,
        )
    text = f"Bound by {_NAMES[first]}: {_class_text(first, report, recording.kernels, share)}."
    binding = [first]
    if next_share >= _CLOSE * share:
        text += f" Nearly as much: {_class_text(second, report, recording.kernels, next_share)}."
        binding.append(second)
    advice = dict.fromkeys(each for bound in binding for each in _advice(bound, report, recording, diagnosis))
    return Regime(bound_by=first, text=text, evidence=evidence, advice=tuple(advice))


_NAMES: dict[BoundBy, str] = {
    "host": "the host",
    "memory": "memory",
    "compute": "compute",
    "communication": "communication",
    "latency": "latency",
}


def _doubt(call: CallTimes, kernels_us: float, seen: KernelShare | None) -> str | None:
    """What can't be if the machine had nothing else to do; None if there is nothing."""
    without = f"calls without the profiler took {_us(call.q1)} to {_us(call.q3)}"
    if call.q3 > _SPREAD * call.q1:
        return without.capitalize()
    if kernels_us > _DISTURBED * call.median:
        return f"Kernels took {_us(kernels_us)}, but {without}"
    if seen is not None and call.median > _DISTURBED * seen.call_us:
        return f"Under the profiler a call took {_us(seen.call_us)}, but {without}"
    return None


def _unknown(reason: str) -> Regime:
    return Regime(bound_by=None, text=f"{_UNKNOWN}: {reason}.", evidence={})


def _shares(report: ProfileReport, call_us: float) -> _Shares:
    times: dict[BoundBy | None, float] = dict.fromkeys(get_args(BoundBy), 0.0)
    times[None] = 0.0
    for kernel in report.kernels:
        times[kernel.bound_by] += kernel.time_us
    times["host"] = report.rest_us or 0.0
    # Kernels and the rest are measured apart, so they can be a little more than the call.
    whole = max(call_us, sum(times.values()))
    known = {bound: us / whole for bound, us in times.items() if bound is not None}
    parts = sorted(known.items(), key=lambda item: -item[1])
    return _Shares(tuple(parts), times[None] / whole)


def _evidence(report: ProfileReport, seen: KernelShare | None, shares: _Shares) -> dict[str, float]:
    found: dict[str, float] = {f"{bound}_share": share for bound, share in shares.parts}
    found["unknown_share"] = shares.unknown
    found["call_us"] = 0.0 if report.call_us is None else report.call_us.median
    found["kernels_us"] = report.kernels_us or 0.0
    found["rest_us"] = report.rest_us or 0.0
    if seen is not None:
        found |= {"compiled_functions": seen.region_runs, "cuda_graph_launches": seen.graph_launches}
        found |= {"compiled_host_us": seen.region_us, "other_host_us": seen.outside_us}
        if seen.overhead_us is not None:
            found["overhead_us"] = seen.overhead_us
        if seen.launches:
            found["launches"] = seen.launches
            found["kernel_us"] = (report.kernels_us or 0.0) / seen.launches
            found["rest_per_launch_us"] = (report.rest_us or 0.0) / seen.launches
    return found


def _class_text(bound: BoundBy, report: ProfileReport, seen: KernelShare | None, share: float) -> str:
    own = [kernel for kernel in report.kernels if kernel.bound_by == bound]
    part = f"{percent(share)} of the call"
    if bound == "host":
        return _host_text(report, seen, part)
    if bound == "memory":
        return f"kernels that wait for memory take {part}, at {_reached(own, 'bandwidth_share')} of the speed of a copy"
    if bound == "compute":
        reached = _reached(own, "compute_share")
        return f"matrix products and convolutions take {part}, at {reached} of what this device reaches"
    if bound == "communication":
        return f"passing tensors between processes takes {part}"
    runs = sum(kernel.calls for kernel in own)
    each = _us(sum(kernel.time_us for kernel in own) / max(runs, 1))
    return f"{counted(runs, 'kernel')} too short to use the device take {part}, {each} each"


def _host_text(report: ProfileReport, seen: KernelShare | None, part: str) -> str:
    text = f"the device is idle for {part}" if report.device == "cuda" else f"{part} is outside of kernels"
    if seen is None or not seen.launches or report.rest_us is None:
        return text
    each = _us((report.kernels_us or 0.0) / seen.launches)
    whose = ""
    # On a GPU the host's time outside of compiled code has its waiting for the device in it.
    if report.device == "cpu":
        own = "the program's own Python" if _is_own_python(seen) else "running compiled code"
        whose = f", most of it in {own}"
    return (
        f"{text}, {_us(report.rest_us)}{whose}. {counted(seen.launches, 'kernel')} of "
        f"{counted(seen.region_runs, 'compiled function')} take {each} each"
    )


def _is_own_python(seen: KernelShare) -> bool:
    return seen.outside_us >= _OWN_PYTHON * (seen.outside_us + seen.region_us)


def _reached(kernels: list[ProfiledKernel], name: str) -> str:
    known = [(getattr(kernel, name), kernel.time_us) for kernel in kernels if getattr(kernel, name) is not None]
    whole = sum(us for _, us in known)
    return percent(sum(value * us for value, us in known) / whole) if whole else "an unknown part"


def _us(us: float) -> str:
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} µs"


def _advice(bound: BoundBy, report: ProfileReport, recording: Recording, diagnosis: Diagnosis) -> Iterator[str]:
    if bound == "host":
        yield from _for_host(report, recording, diagnosis)
    elif bound == "latency":
        if _can_have_cuda_graphs(report):
            yield _CUDA_GRAPHS
        yield "Use a larger batch, so that each kernel has more to do."
    elif bound == "communication":
        yield (
            "Overlap it with computation: DistributedDataParallel sends gradients in buckets (bucket_cap_mb) while the "
            "backward pass goes on."
        )
        yield "Send less: accumulate gradients under no_sync(), or send them in bfloat16 with a communication hook."
    elif bound == "memory":
        if _is_in(report, recording, "memory", "float32"):
            yield "Use a smaller dtype: torch.autocast with bfloat16 halves the bytes."
        if diagnosis.summary.break_sites:
            yield "Fix the graph breaks: values that cross them are written to memory and read again."
        found = {finding.code for finding in diagnosis.findings}
        if "GD508" in found:
            yield "Leave out the copies into other layouts (GD508)."
        if "GD509" in found:
            yield "Leave out the casts (GD509)."
        yield "Move less memory: fewer intermediate results, and fewer kernels that read them again."
    else:
        yield from _for_compute(report, recording)


_CUDA_GRAPHS = 'Compile with mode="reduce-overhead": CUDA graphs launch all kernels of a graph at once.'


def _for_host(report: ProfileReport, recording: Recording, diagnosis: Diagnosis) -> Iterator[str]:
    seen = recording.kernels
    if diagnosis.summary.break_sites:
        yield "Fix the graph breaks: each compiled function takes time to enter."
    if seen is not None and report.device == "cpu" and _is_own_python(seen):
        yield "Move Python out of the call: most of the host's time is in none of the compiled functions."
    if _can_have_cuda_graphs(report):
        yield _CUDA_GRAPHS
    yield "Do more in one call: use a larger batch."


def _for_compute(report: ProfileReport, recording: Recording) -> Iterator[str]:
    precision = recording.float32_precision
    has_float32 = _is_in(report, recording, "compute", "float32")
    if has_float32 and report.device == "cuda" and precision is not None:
        if _is_mostly_convolutions(report):
            if not precision.convolution_tf32:
                yield "Let float32 convolutions use TensorFloat32: torch.backends.cudnn.allow_tf32 = True."
        elif not precision.matmul_tf32:
            yield 'Let float32 products use TensorFloat32: torch.set_float32_matmul_precision("high").'
    if has_float32:
        yield "Use a smaller dtype: torch.autocast with bfloat16."
    if not _mode(report).startswith("max-autotune"):
        yield 'Compile with mode="max-autotune": Inductor tries more kernels for matrix products.'


def _is_mostly_convolutions(report: ProfileReport) -> bool:
    own = [kernel for kernel in report.kernels if kernel.bound_by == "compute"]
    convolutions = sum(kernel.time_us for kernel in own if is_convolution(kernel))
    return convolutions > sum(kernel.time_us for kernel in own) / 2


def _is_in(report: ProfileReport, recording: Recording, bound: BoundBy, dtype: str) -> bool:
    profiled = recording.profiled
    if profiled is None:
        return False
    graphs = {(graph.graph, graph.phase): graph for graph in profiled.graphs}
    own = [kernel for kernel in report.kernels if kernel.bound_by == bound]
    found = 0.0
    for kernel in own:
        graph = None if kernel.graph is None else graphs.get((kernel.graph, kernel.phase))
        names = {*kernel.operations}
        values = [] if graph is None else graph.operations
        dtypes = (
            {kernel.dtype}
            if kernel.dtype
            else {each.dtype for each in values if each.operation.rpartition(".")[0] in names}
        )
        found += kernel.time_us * (dtype in dtypes)
    return found > sum(kernel.time_us for kernel in own) / 2


def _mode(report: ProfileReport) -> str:
    return str(report.target.compile_arguments.get("mode"))


def _can_have_cuda_graphs(report: ProfileReport) -> bool:
    return report.device == "cuda" and report.cuda_graphs is None and _mode(report) not in _WITH_CUDA_GRAPHS

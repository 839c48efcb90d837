"""Words of a profile: what its call is bound by and what helps there, lines and kernels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from graphdoctor.facts.kernels import KernelShare
from graphdoctor.facts.profile import BoundBy, ProfiledKernel, ProfileReport, Regime
from graphdoctor.facts.profiled import Calibration
from graphdoctor.facts.stack import StackEntry, relative
from graphdoctor.views.measures import EMPTY, TimePart, parts_of_call, rate_text, time_text
from graphdoctor.views.parts import Cell, cell_line
from graphdoctor.wording import counted, listed, percent

OUTSIDE = "outside of kernels"
"""Python, guards, launches, waiting."""
_GRAPH = re.compile(r"^graph_\d+_(?=cpp_)")
"""Inductor's C++ kernels begin with it if they are to be told apart in a profile."""
_INSTALLED = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")


class Files:
    """Paths of a profile as they are shown: relative to a folder, or to where a package is
    installed.
    """

    def __init__(self, report: ProfileReport, root: Path) -> None:
        self._packages = {
            entry.file: entry.package
            for part in report.parts
            for entry in part.stack
            if entry.package
        }
        self._root = root

    def shown(self, file: str) -> str:
        """Return the path to show."""
        package = self.package(file)
        if package is not None:
            return StackEntry(file=file, line=1, function="", package=package).shown_file
        shown = relative(file, self._root)
        return _INSTALLED.sub("", shown) if shown == file else shown

    def package(self, file: str) -> str | None:
        """Return the package that a file belongs to; None for the program's own."""
        return self._packages.get(file)

    def place(self, file: str, line: int | None) -> str:
        """Return a line of a file."""
        return self.shown(file) if line is None else f"{self.shown(file)}:{line}"


def has_backward(report: ProfileReport) -> bool:
    """Tell whether any kernel ran in a backward pass."""
    return any(kernel.phase == "backward" for kernel in report.kernels)


def rest_parts(report: ProfileReport) -> list[TimePart]:
    """List the parts of the call that no line has: some kernels, and what is in no kernel."""
    call_us = 0.0 if report.call_us is None else report.call_us.median
    unattributed = ("kernels without a line", "library", report.unattributed_us)
    return parts_of_call(call_us, (unattributed, (OUTSIDE, "outside", report.rest_us)))


def small_percent(share: float) -> str:
    """Return a share, with a digit more if it is small: what is below 1% can be told apart."""
    if share >= 0.1 or not share:
        return percent(share)
    return f"{share:.1%}" if share >= 0.001 else "<0.1%"


def kernel_name(kernel: ProfiledKernel) -> str:
    """Its name, as in the generated code."""
    return _GRAPH.sub("", kernel.name)


def operations_text(kernel: ProfiledKernel, most: int) -> str:
    """Return the operations that it computes, in short."""
    names = [name.removeprefix("aten.").removeprefix("aten::") for name in kernel.operations]
    return ", ".join(names[:most]) + (f" +{len(names) - most}" if len(names) > most else "")


def bandwidth_cell(kernel: ProfiledKernel) -> Cell:
    """Return memory a second; as its detail, the share of what the device reaches."""
    rate = rate_text(kernel.gb_per_s)
    return _rate_cell(None if rate is None else f"{rate} GB/s", kernel.bandwidth_share)


def compute_cell(kernel: ProfiledKernel) -> Cell:
    """Return operations a second; as its detail, the share of what the device reaches. That alone
    of other arithmetic.
    """
    if kernel.tflops_per_s is None and kernel.arithmetic_share is not None:
        return Cell(small_percent(kernel.arithmetic_share) if kernel.arithmetic_share else "")
    return _rate_cell(flops_text(kernel.tflops_per_s), kernel.compute_share)


def flops_text(tflops_per_s: float | None) -> str | None:
    """Floating-point operations a second, in a unit that fits them."""
    if tflops_per_s is None:
        return None
    return (
        f"{rate_text(tflops_per_s)} TFLOP/s"
        if tflops_per_s >= 1
        else f"{rate_text(1e3 * tflops_per_s)} GFLOP/s"
    )


def _rate_cell(text: str | None, share: float | None) -> Cell:
    return EMPTY if text is None else Cell(text, "" if share is None else percent(share))


def rates_text(kernel: ProfiledKernel) -> str:
    """Return both rates in a line; empty if unknown."""
    cells = (
        bandwidth_cell(kernel),
        _rate_cell(flops_text(kernel.tflops_per_s), kernel.compute_share),
    )
    return ", ".join(cell_line(cell) for cell in cells if cell.text)


# What limits a call.

ADVICE: Mapping[str, str] = {
    "entering": "Fix the graph breaks: each compiled function takes time to enter.",
    "own_python": (
        "Move Python out of the call: most of the host's time is in none of the compiled functions."
    ),
    "cuda_graphs": (
        'Compile with mode="reduce-overhead": CUDA graphs launch all kernels of a graph at once.'
    ),
    "more_in_a_call": "Do more in one call: use a larger batch.",
    "more_in_a_kernel": "Use a larger batch, so that each kernel has more to do.",
    "overlap": (
        "Overlap it with computation: DistributedDataParallel sends gradients in buckets"
        " (bucket_cap_mb) while the backward pass goes on."
    ),
    "send_less": (
        "Send less: accumulate gradients under no_sync(), or send them in bfloat16 with a"
        " communication hook."
    ),
    "half_the_bytes": "Use a smaller dtype: torch.autocast with bfloat16 halves the bytes.",
    "crossing_values": (
        "Fix the graph breaks: values that cross them are written to memory and read again."
    ),
    "GD508": "Leave out the copies into other layouts (GD508).",
    "GD509": "Leave out the casts (GD509).",
    "move_less": (
        "Move less memory: fewer intermediate results, and fewer kernels that read them again."
    ),
    "convolution_tf32": (
        "Let float32 convolutions use TensorFloat32: torch.backends.cudnn.allow_tf32 = True."
    ),
    "matmul_tf32": (
        'Let float32 products use TensorFloat32: torch.set_float32_matmul_precision("high").'
    ),
    "smaller_dtype": "Use a smaller dtype: {bfloat16}.",
    "autotune": (
        'Compile with mode="max-autotune": Inductor tries more kernels for matrix products.'
    ),
    "compute_less": "Compute less for each element: cheaper functions, or the same value once.",
    "dtype_is_no_help": (
        "A smaller dtype hardly helps: Inductor computes such functions in float32 all the same."
    ),
}

_REACHED = {
    "bandwidth_share": "the speed of a copy",
    "compute_share": "this device's products",
    "arithmetic_share": "its other arithmetic",
}


def regime_text(regime: Regime, report: ProfileReport, seen: KernelShare | None) -> str:
    """Return the answer of a profile; ``seen``: the call under the profiler."""
    call_us, doubt = report.call_us, regime.doubt
    if call_us is None or doubt == "unseen":
        return "Not known what limits this call: the profiler saw no kernels."
    if doubt in ("scattered", "long_kernels", "short_profiled"):
        without = (
            f"alls without the profiler took {time_text(call_us.q1)} to {time_text(call_us.q3)}"
        )
        why = f"C{without}"
        if doubt == "long_kernels":
            why = f"Kernels took {time_text(report.kernels_us or 0.0)}, but c{without}"
        elif doubt == "short_profiled" and seen is not None:
            why = f"Under the profiler a call took {time_text(seen.call_us)}, but c{without}"
        return f"Too noisy to say what limits this call: {why}."
    largest = "" if regime.largest is None else _part_text(regime.largest, regime, report, seen)
    if doubt is not None:
        unknown, share = (
            regime.evidence["unknown_share"],
            regime.evidence[f"{regime.largest}_share"],
        )
        besides = f". Besides, {largest}" if share else ""
        why = {
            "uncalibrated": ", and what this device reaches wasn't measured",
            "unsteady": (
                ", and what this device reaches couldn't be measured: other work kept the machine"
                " busy"
            ),
        }.get(doubt, f" that {_reached_text(report)}{besides}")
        return f"Not known what limits this call: {percent(unknown)} of it is in kernels{why}."
    text = f"Bound by {'the host' if regime.bound_by == 'host' else regime.bound_by}: {largest}."
    if regime.close is None:
        return text
    return f"{text} Nearly as much: {_part_text(regime.close, regime, report, seen)}."


def _part_text(
    bound: BoundBy, regime: Regime, report: ProfileReport, seen: KernelShare | None
) -> str:
    """Return a part of the call, as a clause."""
    kernels = [kernel for kernel in report.kernels if kernel.bound_by == bound]
    part = f"{percent(regime.evidence[f'{bound}_share'])} of the call"
    if bound == "host":
        return _host_text(part, report, seen)
    if bound == "memory":
        speed = _reached(kernels, "bandwidth_share")
        return f"kernels that wait for memory take {part}, at {speed} of the speed of a copy"
    if bound == "compute":
        reached = _reached(kernels, "compute_share")
        return (
            f"matrix products and convolutions that wait for compute take {part}, at {reached} of"
            " what this device reaches"
        )
    if bound == "arithmetic":
        reached = _reached(kernels, "arithmetic_share")
        functions = _costliest(kernels, report.calibration)
        which = f", most of it {functions}" if functions else ""
        return (
            f"kernels that wait for arithmetic take {part}, at {reached} of what this device"
            f" reaches{which}"
        )
    if bound == "communication":
        return f"passing tensors between processes takes {part}"
    runs = sum(kernel.calls for kernel in kernels)
    mean = time_text(sum(kernel.time_us for kernel in kernels) / max(runs, 1))
    return f"{counted(runs, 'kernel')} too short to use the device take {part}, {mean} on average"


def _host_text(part: str, report: ProfileReport, seen: KernelShare | None) -> str:
    is_on_cpu = report.device == "cpu"
    text = f"{part} is outside of kernels" if is_on_cpu else f"the device is idle for {part}"
    if seen is None or not seen.launches:
        return text
    # On a GPU the host's time outside of compiled code has its waiting for the device in it.
    running = f"running {counted(seen.region_runs, 'compiled function')}"
    where = "the program's own Python" if seen.is_own_python else running
    us = sorted((seen.region_us, seen.outside_us))
    share = f", {percent(us[1] / sum(us))} of it in {where}" if sum(us) else ""
    whose = share if is_on_cpu else ""
    mean = time_text((report.kernels_us or 0.0) / seen.launches)
    kernels = f"The {seen.launches} kernels take {mean} on average"
    if seen.launches == 1:
        kernels = f"The kernel takes {mean}"
    return f"{text}, {time_text(report.rest_us or 0.0)}{whose}. {kernels}"


def _reached_text(report: ProfileReport) -> str:
    """Say what kernels reach whose limit is unknown, as a clause."""
    kernels = [kernel for kernel in report.kernels if kernel.bound_by is None]
    texts = [
        f"{_reached(kernels, name)} of {what}"
        for name, what in _REACHED.items()
        if any(getattr(kernel, name) is not None for kernel in kernels)
    ]
    return f"reach {' and '.join(texts)}" if texts else "move unknown amounts of memory"


def _reached(kernels: Sequence[ProfiledKernel], name: str) -> str:
    shares = [(getattr(kernel, name), kernel.time_us) for kernel in kernels]
    reached = [(share, us) for share, us in shares if share is not None]
    whole = sum(us for _, us in reached)
    if not whole:
        return "an unknown part"
    share = sum(share * us for share, us in reached) / whole
    # A copy is no limit to what a cache holds. What else was measured is one, unless other work
    # slowed it down then.
    return percent(share) if share < 1 or name == "bandwidth_share" else "100% or more"


def _costliest(kernels: Sequence[ProfiledKernel], calibration: Calibration | None) -> str:
    """Return the operations on single elements that take half of the time of all of them."""
    times: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        for name, count in (kernel.elementwise or {}).items():
            rate = None if calibration is None else calibration.elementwise_rate(name)
            times[name] += count / rate if rate else 0.0
    costliest, whole = list[str](), sum(times.values())
    for name in sorted(times, key=lambda function: -times[function]):
        if sum(times[function] for function in costliest) < whole / 2:
            costliest.append(name)
    return listed(costliest)

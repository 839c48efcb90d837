"""Words of a profile: what its call is bound by and what helps there, lines and kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from graphdoctor.facts.kernels import KernelShare
from graphdoctor.facts.profile import BoundBy, ProfiledKernel, ProfileReport, Regime, RegimeDoubt
from graphdoctor.facts.stack import StackEntry, relative
from graphdoctor.views.measures import EMPTY, TimePart, parts_of_call, rate_text, time_text
from graphdoctor.views.parts import Cell
from graphdoctor.views.words import UNKNOWN
from graphdoctor.wording import counted, percent

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

_DOUBTS: Mapping[RegimeDoubt, str] = {
    "unseen": "Not known what limits this call: the profiler saw no kernels.",
    "uncalibrated": (
        "Not known what limits this call: {unknown} of it is in kernels, and what this device"
        " reaches wasn't measured."
    ),
    "unsteady": (
        "Not known what limits this call: {unknown} of it is in kernels, and what this device"
        " reaches couldn't be measured: other work kept the machine busy."
    ),
    "unreached": (
        "Not known what limits this call: {unknown} of it is in kernels for which no limit"
        " was found."
    ),
    "long_kernels": (
        "Too noisy to say what limits this call: kernels took {kernels}, but calls without the"
        " profiler took {calls}."
    ),
    "short_profiled": (
        "Too noisy to say what limits this call: it took {profiled} under the profiler, but"
        " {calls} without it."
    ),
    "scattered": (
        "Too noisy to say what limits this call: calls without the profiler took {calls}."
    ),
}
_LIMITED: Mapping[BoundBy, tuple[str, str]] = {
    "memory": ("kernels that wait for memory", "bandwidth_share"),
    "compute": ("matrix products and convolutions that wait for compute", "compute_share"),
    "arithmetic": ("kernels that wait for arithmetic", "arithmetic_share"),
    "communication": ("messages between processes", ""),
    "latency": ("kernels too short to use the device", ""),
}
"""What takes the time, and the field that says how much of the device it reaches."""


def regime_text(regime: Regime, report: ProfileReport, seen: KernelShare | None) -> str:
    """Return the answer of a profile; ``seen``: the call under the profiler."""
    call_us, doubt = report.call_us, regime.doubt
    if call_us is None:
        doubt = "unseen"
    if doubt is not None:
        return _DOUBTS[doubt].format(
            unknown=percent(regime.evidence.get("unknown_share", 0.0)),
            kernels=time_text(report.kernels_us or 0.0),
            profiled=UNKNOWN if seen is None else time_text(seen.call_us),
            calls="" if call_us is None else f"{time_text(call_us.q1)} to {time_text(call_us.q3)}",
        )
    parts = [
        _part_text(bound, regime, report, seen)
        for bound in (regime.largest, regime.close)
        if bound is not None
    ]
    limit = "the host" if regime.bound_by == "host" else regime.bound_by
    return f"Bound by {limit}: {'. Nearly as much: '.join(parts)}."


def _part_text(
    bound: BoundBy, regime: Regime, report: ProfileReport, seen: KernelShare | None
) -> str:
    """Return a part of the call, as a clause."""
    part = f"{percent(regime.evidence[f'{bound}_share'])} of the call"
    if bound == "host":
        idle = (
            f"{part} is outside of kernels"
            if report.device == "cpu"
            else f"the device is idle for {part}"
        )
        text = f"{idle}, {time_text(report.rest_us or 0.0)}"
        if seen is None or not seen.launches:
            return text
        mean = time_text((report.kernels_us or 0.0) / seen.launches)
        return f"{text}. {counted(seen.launches, 'kernel')} of {mean} on average"
    what, name = _LIMITED[bound]
    timed = [
        (share, kernel.time_us)
        for kernel in report.kernels
        if kernel.bound_by == bound and (share := getattr(kernel, name, None)) is not None
    ]
    if not (whole := sum(us for _, us in timed)):
        return f"{what} take {part}"
    reached = sum(share * us for share, us in timed) / whole
    # What a cache holds is read faster than a copy.
    if reached >= 1:
        return f"{what} take {part}, at this device's limit"
    return f"{what} take {part}, at {percent(reached)} of what this device reaches"

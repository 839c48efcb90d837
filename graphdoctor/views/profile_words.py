"""Phrases of the report and the page of a profile about its lines and kernels."""

from __future__ import annotations

import re
from pathlib import Path

from graphdoctor.facts.profile import ProfiledKernel, ProfileReport
from graphdoctor.facts.stack import StackEntry, relative
from graphdoctor.views.measures import EMPTY, TimePart, parts_of_call, rate_text
from graphdoctor.views.parts import Cell, cell_line
from graphdoctor.wording import percent

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
        """The path to show."""
        package = self.package(file)
        if package is not None:
            return StackEntry(file=file, line=1, function="", package=package).shown_file
        shown = relative(file, self._root)
        return _INSTALLED.sub("", shown) if shown == file else shown

    def package(self, file: str) -> str | None:
        """The package that a file belongs to; None for the program's own."""
        return self._packages.get(file)

    def place(self, file: str, line: int | None) -> str:
        """A line of a file."""
        return self.shown(file) if line is None else f"{self.shown(file)}:{line}"


def has_backward(report: ProfileReport) -> bool:
    """Whether any kernel ran in a backward pass."""
    return any(kernel.phase == "backward" for kernel in report.kernels)


def rest_parts(report: ProfileReport) -> list[TimePart]:
    """List the parts of the call that no line has: some kernels, and what is in no kernel."""
    call_us = 0.0 if report.call_us is None else report.call_us.median
    unattributed = ("kernels without a line", "library", report.unattributed_us)
    return parts_of_call(call_us, (unattributed, (OUTSIDE, "outside", report.rest_us)))


def small_percent(share: float) -> str:
    """A share, with a digit more if it is small: what is below 1% can be told apart."""
    if share >= 0.1 or not share:
        return percent(share)
    return f"{share:.1%}" if share >= 0.001 else "<0.1%"


def kernel_name(kernel: ProfiledKernel) -> str:
    """Its name, as in the generated code."""
    return _GRAPH.sub("", kernel.name)


def operations_text(kernel: ProfiledKernel, most: int) -> str:
    """The operations that it computes, in short."""
    names = [name.removeprefix("aten.").removeprefix("aten::") for name in kernel.operations]
    return ", ".join(names[:most]) + (f" +{len(names) - most}" if len(names) > most else "")


def bandwidth_cell(kernel: ProfiledKernel) -> Cell:
    """Memory a second; as its detail, the share of what the device reaches."""
    rate = rate_text(kernel.gb_per_s)
    return _rate_cell(None if rate is None else f"{rate} GB/s", kernel.bandwidth_share)


def compute_cell(kernel: ProfiledKernel) -> Cell:
    """Operations a second; as its detail, the share of what the device reaches. That alone of other
    arithmetic.
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
    """Both rates in a line; empty if unknown."""
    cells = (
        bandwidth_cell(kernel),
        _rate_cell(flops_text(kernel.tflops_per_s), kernel.compute_share),
    )
    return ", ".join(cell_line(cell) for cell in cells if cell.text)

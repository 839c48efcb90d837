"""The kernels of a profiled call with their time and their operations, for rules.

Comes in: what a profile recorded. Goes out: kernels of generated code, each with the time of all
its runs, and lines with the time of the kernels that are about them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from graphdoctor.facts.base import grouped, whole_sum
from graphdoctor.facts.diagnosis import Cost
from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.kernels import CodeLine
from graphdoctor.facts.profiled import InductorGraph, InductorKernel, InductorOperation, Profiled
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.diagnosis.rule import Findings, Rule
from graphdoctor.rules.diagnosis.sites import RecordingView
from graphdoctor.wording import bytes_text, counted, percent

CLEAR = 0.05
"""A share of the call that's worth a finding: less than that can't be told from noise once it is
gone."""

_MOSTLY = 0.9
"""Of the elements that a kernel's operations work on."""


@dataclass(frozen=True)
class TimedKernel:
    """A call of a kernel in generated code, with all its runs in the profiled call.

    Args:
        graph: Whose code it is in.
        kernel: The call.
        us: Microseconds of all runs.
        runs: How often it ran.
        is_copy: What ran copies memory.
        names: What the profiler calls it.
    """

    graph: InductorGraph
    kernel: InductorKernel
    us: float
    runs: int
    is_copy: bool
    names: frozenset[str]

    @property
    def operations(self) -> tuple[InductorOperation, ...]:
        """Return the operations that it computes."""
        return tuple(self.graph.operations[number] for number in self.kernel.operations)

    @property
    def is_generated(self) -> bool:
        """Inductor wrote it."""
        return self.kernel.kind in ("pointwise", "reduction")


def timed_kernels(profiled: Profiled) -> list[TimedKernel]:
    """Return the kernels of all graphs, the most costly first."""
    runs = grouped(
        ((matched.graph, matched.kernel), (matched.us, profiled.call.kernels[matched.run]))
        for matched in profiled.matched
        if matched.graph is not None and matched.kernel is not None
    )
    kernels = []
    for (number, call), own in runs.items():
        graph = profiled.graphs[number]
        us, is_copy = sum(run_us for run_us, _ in own), all(run.kind == "copy" for _, run in own)
        names = frozenset(run.name for _, run in own)
        kernels.append(TimedKernel(graph, graph.kernels[call], us, len(own), is_copy, names))
    return sorted(kernels, key=lambda kernel: -kernel.us)


def call_us(profiled: Profiled) -> float:
    """Return what the call takes, or its kernels if these were measured to take longer."""
    kernels_us = sum(each.us for each in profiled.call.kernels)
    return max(statistics.median(profiled.call.times_us), kernels_us)


def library_operations(graph: InductorGraph) -> frozenset[int]:
    """Indices of the operations that libraries compute, or kernels made from templates."""
    return frozenset(
        number
        for kernel in graph.kernels
        if kernel.kind in ("library", "template")
        for number in kernel.operations
    )


def mostly(operations: Sequence[InductorOperation], some: Sequence[InductorOperation]) -> bool:
    """Return whether a kernel works on next to nothing but some of its operations: Inductor also
    fuses what is independent.
    """
    if len(some) == len(operations):
        return bool(some)
    sizes = [operation.elements for operation in operations]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return False
    return sum(operation.elements or 0 for operation in some) >= _MOSTLY * sum(known)


def parts(operations: Iterable[InductorOperation]) -> list[tuple[InductorOperation, float]]:
    """Operations that come from a line, each with its part of their kernel's time; together these
    are 1.

    Parts are in proportion to the elements that each works on: of the largest tensor that it takes
    or makes. If that is unknown of one, all are equal.
    """
    known = [operation for operation in operations if operation.stack]
    sizes = [operation.elements or 0 for operation in known]
    if not all(sizes):
        sizes = [1] * len(known)
    return [(operation, size / sum(sizes)) for operation, size in zip(known, sizes, strict=True)]


def by_line(
    kernels: Iterable[TimedKernel], about: Callable[[TimedKernel], Iterable[InductorOperation]]
) -> dict[StackEntry, float]:
    """Lines with the time of their kernels, the most costly first."""
    times: dict[StackEntry, float] = {}
    for kernel in kernels:
        for operation, part in parts(about(kernel)):
            line = operation.stack[-1]
            times[line] = times.get(line, 0.0) + kernel.us * part
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def lines_by_kernel(profiled: Profiled) -> dict[str, list[CodeLine]]:
    """Return the lines that each kernel computes, by the name that the profiler has for it, the
    most costly first.
    """
    kernels = grouped((name, each) for each in timed_kernels(profiled) for name in each.names)
    return {
        name: [
            CodeLine(file=line.file, line=line.line)
            for line in by_line(own, lambda each: each.operations)
        ]
        for name, own in kernels.items()
    }


def at_lines(
    rule: Rule,
    view: RecordingView,
    kernels: Sequence[TimedKernel],
    about: Callable[[TimedKernel], Sequence[InductorOperation]],
    whole_us: float,
    *,
    what: str,
    subject: str,
    fix: Fix,
) -> Findings:
    """Return what kernels take at the lines that they are about, if that is clear; the most costly
    line is the finding's.
    """
    lines = by_line(kernels, about)
    us, runs = sum(kernel.us for kernel in kernels), sum(kernel.runs for kernel in kernels)
    if not lines or us < CLEAR * whole_us:
        return
    entry, *others = lines
    moved = whole_sum(
        None if kernel.kernel.bytes is None else kernel.kernel.bytes * kernel.runs
        for kernel in kernels
    )
    traffic = "" if moved is None else f", {bytes_text(moved)} of memory traffic"
    yield rule.finding(
        view,
        entry,
        f"{what} take {percent(us / whole_us)} of a steady call ({counted(runs, 'kernel')}{traffic})",
        [kernel.graph for kernel in kernels],
        count=runs,
        related=[(line, f"{percent(lines[line] / whole_us)} of the call") for line in others],
        subject=subject,
        cost=Cost(call_us=us, call_from="profile", share=us / whole_us),
        fixes=[fix],
    )

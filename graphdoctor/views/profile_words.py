"""A profile in words: what every view of it says of its lines, its kernels and the rest of the call.

Comes in: a ``ProfileReport`` and its parts. Goes out: plain text, which may hold text from outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.facts.diagnosis import Location
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.stack import relative
from graphdoctor.facts.wording import counted, factor_text, percent
from graphdoctor.views.bench_words import (
    NOTHING,
    Part,
    bytes_text,
    call_cell,
    rate_text,
    skip_text,
    time_text,
)
from graphdoctor.views.parts import Cell, cell_line
from graphdoctor.views.words import base_name

if TYPE_CHECKING:
    from graphdoctor.facts.kernels import CudaGraphs
    from graphdoctor.facts.profile import (
        Fusion,
        MemoryOutcome,
        MemoryTrial,
        MemoryUse,
        ProfiledKernel,
        ProfiledLine,
        ProfiledModule,
        ProfileReport,
        SavedTensor,
    )
    from graphdoctor.facts.profiled import Calibration

FEW = 10
"""Rows of a table, unless all are wanted."""
_FEW_SAVED = 3
_FEW_OPERATIONS = 4
_FEW_KERNELS = 4
_GRAPH = re.compile(r"^graph_\d+_(?=cpp_)")
"""Inductor's C++ kernels begin with it if they are to be told apart in a profile."""
_NUMBER = re.compile(r"_\d+$")
_INSTALLED = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")


class Files:
    """How the files of a profile are shown: relative to a folder, or to where a package is installed."""

    def __init__(self, report: ProfileReport, root: Path) -> None:
        self._packages = {entry.file: entry.package for part in report.parts for entry in part.stack if entry.package}
        self._root = root

    def shown(self, file: str) -> str:
        """The path to show."""
        package = self._packages.get(file)
        if package is not None:
            return Location(file=file, line=1, function="", package=package).shown_file
        shown = relative(file, self._root)
        return _INSTALLED.sub("", shown) if shown == file else shown

    def package(self, file: str) -> str | None:
        """The package that a file belongs to; None for the program's own."""
        return self._packages.get(file)

    def place(self, file: str, line: int | None) -> str:
        """A line of a file."""
        return self.shown(file) if line is None else f"{self.shown(file)}:{line}"


# The answer.


def answer_text(report: ProfileReport) -> str:
    """What the call is bound by, or what is known of its time."""
    if report.call_us is None:
        return "There is no steady call, so it is unknown where its time goes."
    if report.regime is not None:
        return report.regime.text
    call = time_text(report.call_us.median)
    if report.kernels_us is None:
        return f"A call takes {call}. Its kernels weren't measured."
    if not report.kernels:
        return f"A call takes {call} and runs no kernel."
    runs = counted(sum(kernel.calls for kernel in report.kernels), "kernel run")
    return f"A call takes {call}: {time_text(report.kernels_us)} in {runs}, {_rest_text(report)} outside of kernels."


def _rest_text(report: ProfileReport) -> str:
    return (
        "an unknown time" if report.rest_us is None else "nothing" if not report.rest_us else time_text(report.rest_us)
    )


def measured_text(report: ProfileReport) -> str:
    """Which call was profiled, and how long it takes with and without torch.compile."""
    parts = [f"call: {report.call}"] if report.call else []
    if report.call_us is not None:
        parts.append(f"{cell_line(call_cell(report.call_us))} per call")
    if report.eager_us is not None:
        parts.append(f"{time_text(report.eager_us.median)} without torch.compile")
    return " · ".join(parts)


def evidence_text(name: str, value: float) -> tuple[str, str]:
    """A number that the answer rests on, and what it is called."""
    for ending, text in (("_share", small_percent), ("_us", time_text)):
        if name.endswith(ending):
            return name.removesuffix(ending).replace("_", " "), text(value) if value else "0"
    return name.replace("_", " "), f"{value:,.0f}"


# Where the time goes.


def has_backward(report: ProfileReport) -> bool:
    """Whether any kernel ran in a backward pass."""
    return any(kernel.phase == "backward" for kernel in report.kernels)


def rest_parts(report: ProfileReport) -> list[Part]:
    """What of the call no line has: kernels without a line, and what is in no kernel."""
    return _parts(
        report,
        (
            ("kernels without a line", "library", report.unattributed_us),
            (OUTSIDE, "outside", report.rest_us),
        ),
    )


OUTSIDE = "outside of kernels"
"""Python, guards, launches, waiting."""
_KINDS: dict[str, tuple[str, str]] = {
    "library": ("library kernels", "library"),
    "copy": ("copies", "copies"),
    "communication": ("communication", "communication"),
}


def kind_parts(report: ProfileReport) -> list[Part]:
    """Where the time of the call goes, by what its kernels are."""
    times: dict[tuple[str, str], float] = {}
    for kernel in report.kernels:
        name = _KINDS.get(kernel.kind, ("generated kernels", "generated"))
        if kernel.kind == "other":
            name = ("other kernels", "library")
        times[name] = times.get(name, 0.0) + kernel.time_us
    named = [(name, kind, us) for (name, kind), us in sorted(times.items(), key=lambda item: -item[1])]
    return _parts(report, (*named, (OUTSIDE, "outside", report.rest_us)))


def _parts(report: ProfileReport, found: Sequence[tuple[str, str, float | None]]) -> list[Part]:
    if report.call_us is None or report.call_us.median <= 0:
        return []
    call_us = report.call_us.median
    return [Part(name, kind, us, us / call_us) for name, kind, us in found if us]


def sum_note(report: ProfileReport) -> str | None:
    """Why the rows of a table add up to more than the call; None if they don't, or the answer says it."""
    if report.regime is not None and not report.regime.evidence:
        return None
    if report.call_us is None or report.kernels_us is None or report.kernels_us <= report.call_us.median:
        return None
    kernels, call = time_text(report.kernels_us), time_text(report.call_us.median)
    return (
        f"Kernels take {kernels} under the profiler, more than the call without it ({call}): several ran at once, or "
        "the machine was busy."
    )


def shown_modules(report: ProfileReport, most: int | None) -> list[ProfiledModule]:
    """The modules that take the most time, in the order of their paths.

    A module is left out if all of its time is one inner module's.

    Args:
        report: The profile.
        most: How many; None for all.
    """
    inner: dict[str, float] = {}
    for module in report.modules:
        outer = module.path.rpartition(".")[0]
        inner[outer] = max(inner.get(outer, 0.0), _module_us(module))
    own = [each for each in report.modules if each.path and _module_us(each) > inner.get(each.path, 0.0)]
    costly = sorted(own, key=lambda module: -_module_us(module))[:most]
    return [module for module in own if module in costly]


def _module_us(module: ProfiledModule) -> float:
    return module.forward_us + module.backward_us


def small_percent(share: float) -> str:
    """A share, with a digit more if it is small: what is below 1% can be told apart."""
    if share >= 0.1 or not share:
        return percent(share)
    return f"{share:.1%}" if share >= 0.001 else "<0.1%"


def kernel_numbers(line: ProfiledLine) -> str:
    """The kernels that a line went into, by their numbers."""
    shown = [str(number + 1) for number in line.kernels[:_FEW_KERNELS]]
    more = len(line.kernels) - len(shown)
    return ", ".join(shown) + (f" +{more}" if more else "")


def kernel_name(kernel: ProfiledKernel) -> str:
    """Its name, as in the generated code."""
    return _GRAPH.sub("", kernel.name)


def short_name(name: str, width: int) -> str:
    """A kernel's name that fits: a long one keeps its beginning and its number."""
    if len(name) <= width:
        return name
    number = _NUMBER.search(name)
    end = number[0] if number is not None else ""
    return f"{name[: max(width - 1 - len(end), 1)]}…{end}"


def operations_text(kernel: ProfiledKernel, most: int | None = _FEW_OPERATIONS) -> str:
    """The operations that it computes, in short."""
    names = [name.removeprefix("aten.").removeprefix("aten::") for name in kernel.operations]
    more = 0 if most is None else max(len(names) - most, 0)
    return ", ".join(names[: len(names) - more]) + (f" +{more}" if more else "")


def lines_text(kernel: ProfiledKernel) -> str:
    """The line that most of its operations come from, and how many others there are; empty if unknown."""
    if not kernel.lines:
        return ""
    first, *others = kernel.lines
    return f"{base_name(first.file)}:{first.line}{f' +{len(others)}' if others else ''}"


def bandwidth_cell(kernel: ProfiledKernel) -> Cell:
    """Memory a second; as its detail, the share of what the device reaches."""
    rate = rate_text(kernel.gb_per_s)
    return _rate_cell(None if rate is None else f"{rate} GB/s", kernel.bandwidth_share)


def compute_cell(kernel: ProfiledKernel) -> Cell:
    """Operations a second; as its detail, the share of what the device reaches."""
    return _rate_cell(flops_text(kernel.tflops_per_s), kernel.compute_share)


def flops_text(tflops_per_s: float | None) -> str | None:
    """Floating-point operations a second, in a unit that fits them."""
    if tflops_per_s is None:
        return None
    return f"{rate_text(tflops_per_s)} TFLOP/s" if tflops_per_s >= 1 else f"{rate_text(1e3 * tflops_per_s)} GFLOP/s"


def _rate_cell(text: str | None, share: float | None) -> Cell:
    return NOTHING if text is None else Cell(text, "" if share is None else percent(share))


def rates_text(kernel: ProfiledKernel) -> str:
    """Both rates in a line; empty if unknown."""
    return ", ".join(cell_line(cell) for cell in (bandwidth_cell(kernel), compute_cell(kernel)) if cell.text)


# What else there is.


def fact_texts(report: ProfileReport, files: Files, *, is_short: bool) -> Iterator[tuple[str, Sequence[str]]]:
    """What there is to say of fusion, memory, CUDA graphs, caches and the device, each with its label.

    Args:
        report: The profile.
        files: How files are shown.
        is_short: As in ``memory_texts``.
    """
    memory = report.memory
    found: tuple[tuple[str, Sequence[str]], ...] = (
        ("fusion", [] if report.fusion is None else [fusion_text(report.fusion)]),
        ("memory", [] if memory is None else [*memory_texts(memory, files, is_short=is_short)]),
        ("CUDA graphs", [*cuda_graphs_texts(report)]),
        ("caches", list(caches_texts(report))),
        ("device", [] if report.calibration is None else [calibration_text(report.calibration)]),
    )
    yield from (each for each in found if each[1])


def fusion_text(fusion: Fusion) -> str:
    """What fusion did."""
    after = "" if fusion.decomposed == fusion.operations else f" ({fusion.decomposed} decomposed)"
    parts = [f"{counted(fusion.operations, 'operation')}{after} → {counted(fusion.kernels, 'kernel')}"]
    if fusion.vanished:
        size = bytes_text(fusion.vanished_bytes)
        which = f"{counted(fusion.vanished, 'intermediate tensor')}{f' ({size})' if size else ''}"
        parts.append(f"{which} never {'reaches' if fusion.vanished == 1 else 'reach'} memory")
    eager, compiled = fusion.eager_launches, fusion.launches
    if eager is not None and compiled is not None:
        parts.append(f"eager mode launches {counted(eager, 'kernel')}, the compiled call {compiled}")
    elif compiled is not None:
        parts.append(f"the call launches {counted(compiled, 'kernel')}")
    return "; ".join(parts)


def memory_texts(memory: MemoryUse, files: Files, *, is_short: bool) -> Iterator[str]:
    """What is kept for the backward pass, what is computed again, and the peak."""
    own = [saved for saved in memory.saved if not saved.is_argument]
    if own or memory.saved_bytes:
        yield _saved_total(memory, sum(saved.count for saved in own))
    elif memory.saved_bytes == 0:
        yield f"nothing saved for the backward pass{_saved_by_eager(memory)}"
    shown = own[:_FEW_SAVED] if is_short else own
    yield from (saved_text(saved, files) for saved in shown)
    if len(own) > len(shown):
        more = sum(saved.count for saved in own[len(shown) :])
        yield f"and {counted(more, 'smaller tensor')}"
    if memory.unlisted_bytes:
        yield f"{bytes_text(memory.unlisted_bytes)}  kept by no known graph, or passed between graphs"
    if memory.recomputed_count:
        names = [f"{name.removeprefix('aten.')}{f' ×{n}' if n > 1 else ''}" for name, n in memory.recomputed.items()]
        yield f"{counted(memory.recomputed_count, 'operation')} computed again in the backward pass: {', '.join(names)}"
    if memory.peak_bytes is not None:
        of = {"allocator": " of torch's allocator", "process": " of the whole process", None: ""}[memory.peak_of]
        before = "" if memory.before_bytes is None else f", {bytes_text(memory.before_bytes)} before the call"
        yield f"peak {bytes_text(memory.peak_bytes)}{of}{before}"
    if memory.trial is not None:
        yield trial_text(memory.trial, memory)
    elif memory.has_backward and any(saved.is_cheap for saved in own):
        yield "--try tries to keep less"


def _saved_total(memory: MemoryUse, count: int) -> str:
    size = bytes_text(memory.saved_bytes) or "an unknown size"
    listed = f", in {counted(count, 'tensor')}" if count else ""
    kept = "" if memory.has_backward else "; the call runs none, so it lives as long as the result"
    return f"{size} saved for the backward pass{_saved_by_eager(memory)}{listed}{kept}"


def _saved_by_eager(memory: MemoryUse) -> str:
    known = memory.eager_saved_bytes is not None and (memory.eager_saved_bytes or memory.saved_bytes)
    return "" if not known else f" ({bytes_text(memory.eager_saved_bytes)} in eager mode)"


def saved_text(saved: SavedTensor, files: Files) -> str:
    """A tensor that is kept for the backward pass, or equal ones of one line."""
    what = (saved.operation or saved.name).removeprefix("aten.")
    which = f"{f'{saved.count} × ' if saved.count > 1 else ''}{f'{saved.tensor} ' if saved.tensor else ''}{what}"
    place = "" if saved.file is None else f" at {files.place(saved.file, saved.line)}"
    module = f" in {saved.module}" if saved.module else ""
    cheap = ", cheap to compute again" if saved.is_cheap else ""
    return f"{bytes_text(saved.bytes) or 'unknown size'}  {which}{place}{module}{cheap}"


def trial_text(trial: MemoryTrial, memory: MemoryUse) -> str:
    """What keeping less did."""
    changes = [
        f"{name} {bytes_text(before)} → {bytes_text(after)}"
        for name, before, after in (
            ("saved", memory.saved_bytes, trial.saved_bytes),
            ("peak", memory.peak_bytes, trial.peak_bytes),
        )
        if before is not None and after is not None
    ]
    if trial.ratio is not None:
        ends = (trial.ratio_low, trial.ratio_high)
        between = "" if None in ends else f" ({trial.ratio_low:.2f} to {trial.ratio_high:.2f})"
        changes.append(f"a call takes {factor_text(trial.ratio)}{between} the time")
    if trial.is_same is not None:
        changes.append("the results are the same" if trial.is_same else "the results differ")
    reason = f" ({trial.reason})" if trial.reason else ""
    found = f": {', '.join(changes)}" if changes else ""
    return f"tried {trial.what}, which {_OUTCOMES[trial.outcome]}{reason}{found}"


_OUTCOMES: dict[MemoryOutcome, str] = {
    "saves": "pays",
    "costly": "costs more time than it saves memory",
    "unclear": "saves memory, but it's unclear how much time it costs",
    "nothing": "keeps no less",
    "differs": "changes the results",
    "failed": "couldn't be measured",
}


def cuda_graphs_texts(report: ProfileReport) -> Iterator[str]:
    """What became CUDA graphs, what didn't and why, and what copying into their inputs takes."""
    found = report.cuda_graphs
    if found is not None:
        launches = report.graph_launches
        yield _captured_text(found) + (f", {launches} launched in the call" if launches else "")
        yield from (f"skipped: {skip_text(skip)}" for skip in found.skipped)
        yield from (f"left out: {skip_text(skip)}" for skip in found.left_out)
        yield from _function_texts(found)
    if report.graph_input_copy_us and report.call_us is not None:
        share = percent(report.graph_input_copy_us / report.call_us.median)
        yield f"copies into their static inputs take {time_text(report.graph_input_copy_us)} ({share} of the call)"


def _captured_text(found: CudaGraphs) -> str:
    captured = "an unknown number" if found.captured is None else str(found.captured)
    text = f"{captured} captured, {len(found.skipped)} skipped"
    return f"{text}, {found.rerecordings} recorded again" if found.rerecordings else text


def _function_texts(found: CudaGraphs) -> Iterator[str]:
    """Graphs that Inductor split, and inputs that are copied for each launch."""
    for each in found.partitions:
        if each.count > 1:
            yield f"split: {each.recordable} of {each.count} parts of graph {each.compile_id} can be CUDA graphs"
    copied = [item for each in found.functions or () for item in each.copied]
    if copied:
        largest = max(copied, key=lambda item: item.bytes)
        size = bytes_text(sum(item.bytes for item in copied))
        name = largest.placeholder if largest.source is None else expression(largest.source)
        yield f"each launch copies {counted(len(copied), 'input')} ({size}), the largest of them {name}"


def caches_texts(report: ProfileReport) -> Iterator[str]:
    """What the caches on disk can't keep."""
    found = report.caches
    if found is not None and found.bypasses:
        reasons = f" ({'; '.join(found.bypass_reasons)})" if found.bypass_reasons else ""
        yield f"{counted(found.bypasses, 'graph')} can't be kept on disk{reasons}"


def calibration_text(found: Calibration) -> str:
    """What the device reaches."""
    threads = "" if found.threads is None else f", {counted(found.threads, 'thread')}"
    parts = [f"copying reaches {rate_text(found.copy_gb_per_s)} GB/s"]
    parts += [f"{dtype} products {flops_text(rate)}" for dtype, rate in found.matmul_tflops_per_s.items()]
    if found.launch_us is not None:
        parts.append(f"a launch takes {time_text(found.launch_us)}")
    notes = ["measured earlier"] * found.is_kept + ["unsteady"] * (not found.is_steady)
    note = f" ({', '.join(notes)})" if notes else ""
    return f"{found.device_name}{threads}: {', '.join(parts)}{note}"

"""A profile: the answer, lines, modules and kernels that take the time, what to do, fusion, memory
and caches.

Comes in: a ``ProfileReport``, and the picture of its run. Goes out: a view.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from graphdoctor.facts.picture import Picture
from graphdoctor.facts.profile import (
    Fusion,
    MemoryUse,
    ProfiledKernel,
    ProfiledLine,
    ProfiledModule,
    ProfileReport,
    SavedTensor,
)
from graphdoctor.facts.profiled import Calibration
from graphdoctor.views import profile_words as words
from graphdoctor.views.finding_cards import finding_rows
from graphdoctor.views.html.profile import KernelCode, code_drawing, codes_of, modules_drawing
from graphdoctor.views.measures import (
    bytes_text,
    call_cell,
    parts_of_call,
    rate_text,
    skip_text,
    time_text,
)
from graphdoctor.views.next_step import after_profile
from graphdoctor.views.parts import (
    Block,
    Cell,
    Column,
    Drawing,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Table,
    TableRow,
    Verdict,
    View,
    cell_line,
)
from graphdoctor.views.words import (
    UNKNOWN,
    base_name,
    few_text,
    repeated_text,
    setting_rows,
    study_view,
    unknown_section,
)
from graphdoctor.wording import counted, join_texts, percent

_FEW = 10
"""Rows of a table, unless all are wanted."""
_FEW_SAVED = 3
_FEW_OPERATIONS = 4
_FEW_KERNELS = 4
_KINDS = {
    "library": ("library kernels", "library"),
    "copy": ("copies", "copies"),
    "communication": ("communication", "communication"),
    "other": ("other kernels", "library"),
}
_PEAK_OF = {"allocator": " of torch's allocator", "process": " of the whole process"}
_TEXT = 60
"""Characters of a line of code."""
_NAME = 36
_KIND = (
    "pointwise and reduction: Inductor wrote it; template: Inductor made it from a template;"
    " library: cuBLAS, oneDNN or ATen; user: the program's own, in Triton."
)
_MEMORY = (
    "What it reads and writes a second, by the memory that it must read and write at least; beside"
    " it the share of what a copy reaches on this device, which a cache can exceed."
)
_ARITHMETIC = (
    "Floating-point operations a second of its matrix products and convolutions; beside it the"
    " share of what a large product reaches on this device. Of other arithmetic, the share of its"
    " time that it takes at least on this device."
)
_WAITS = (
    "memory: its bandwidth; compute: matrix products and convolutions; arithmetic: other"
    " arithmetic, such as tanh; latency: it's too short to reach any."
)
_HOW = (
    (
        "The call is timed without a profiler; its kernels are from torch.profiler, of the shortest"
        " of several calls. Time outside of kernels is Python, guards, launching and waiting."
    ),
    (
        "graphdoctor notes which operations of the program go into which kernel while Inductor"
        " generates its code. An operation's part of a kernel belongs to the innermost line that"
        " computes it, in the backward pass to the line whose gradient it computes."
    ),
)


def profile_view(report: ProfileReport, picture: Picture | None, *, root: Path) -> View:
    """Return the profile as a tree; ``picture`` is None without source and generated code, and
    paths are below ``root``.
    """
    return study_view(
        report, "profile", _parts(report, picture, words.Files(report, root)), after_profile(report)
    )


def _parts(report: ProfileReport, picture: Picture | None, files: words.Files) -> Iterator[Block]:
    regime, call_us, eager_us = report.regime, report.call_us, report.eager_us
    yield Verdict(_answer(report))
    measured = join_texts(
        " · ",
        f"call: {report.call}" if report.call else None,
        None if call_us is None else f"{cell_line(call_cell(call_us))} per call",
        None if eager_us is None else f"{time_text(eager_us.median)} without torch.compile",
    )
    if measured:
        yield Note(Span(measured), "dim")
    if report.compiled_for is not None:
        which = f"Compiled for {report.compiled_for}: sizes and rates are those of that call."
        yield Note(Span(which), "dim")
    yield Rows(Row("try", Note(text, "good")) for text in (regime.advice if regime else ()))
    times: dict[tuple[str, str], float] = defaultdict(float)
    for kernel in report.kernels:
        times[_KINDS.get(kernel.kind, ("generated kernels", "generated"))] += kernel.time_us
    named = [(*name, us) for name, us in sorted(times.items(), key=lambda item: -item[1])]
    outside = (words.OUTSIDE, "outside", report.rest_us)
    if kinds := parts_of_call(call_us.median if call_us else 0.0, (*named, outside)):
        yield Drawing("bench_shares.html.j2", {"parts": kinds}, styles=("bench.css",))
    lines: tuple[Block, ...] = (_lines(report, files),) if report.lines else ()
    if lines:
        yield Section("By line", (*lines, Rows(_rest(report))), "Lines")
    modules = tuple(_modules(report))
    drawing = modules_drawing(report, modules)
    title = "By module, each with what is in it"
    yield Section(title, modules if drawing is None else drawing, "Modules")
    codes = codes_of(report.kernels, picture.generated if picture else ())
    kernels = (_kernels(report, codes),) if report.kernels else ()
    yield Section("By kernel", kernels, "Kernels", len(report.kernels))
    is_said = regime is not None and not regime.evidence
    kernels_us = report.kernels_us or 0.0
    if call_us is not None and kernels_us > call_us.median and not is_said:
        yield Note(
            f"Kernels take {time_text(kernels_us)} under the profiler, more than the call without"
            f" it ({time_text(call_us.median)}): several ran at once, or the machine was busy.",
            "dim",
        )
    findings = tuple(row for finding in report.findings for row in finding_rows(finding))
    yield Section("What to do", Rows(findings, "finding"), "Actions", len(report.findings))
    code = code_drawing(codes, picture.autotuned if picture else ())
    yield Section("Generated code", () if code is None else code, "Code")
    facts = Rows(_facts(report, files), "fact")
    yield Section("Fusion, memory, CUDA graphs and caches", facts, "Facts")
    yield unknown_section(report.gaps)
    how = Rows(_how(report), "figure")
    yield Section("How it was measured", (*_HOW, how), "Measured", show="long")


def _how(report: ProfileReport) -> Iterator[Row]:
    """Yield settings; the JSON has the numbers that the answer rests on."""
    yield from setting_rows(report.target, report.environment)
    if report.recording is not None:
        yield Row("recording", Span(report.recording))


def _answer(report: ProfileReport) -> str:
    if report.call_us is None:
        return "Where a call's time goes is unknown: no call was steady."
    if report.regime is not None:
        return report.regime.text
    call, rest_us = time_text(report.call_us.median), report.rest_us
    if report.kernels_us is None:
        return f"A call takes {call}. Its kernels weren't measured."
    runs = counted(sum(kernel.calls for kernel in report.kernels), "kernel run")
    if report.kernels_us > report.call_us.median:
        # They were timed in another call, and those of several threads or streams overlap.
        return f"A call takes {call}, all of it in {runs}."
    rest = "an unknown time" if rest_us is None else time_text(rest_us)
    return f"A call takes {call}: {time_text(report.kernels_us)} in {runs}, {rest} outside of them."


# Lines and modules.


def _phases(report: ProfileReport) -> list[Column]:
    names = ("forward", "backward") if words.has_backward(report) else ("time",)
    return [Column(name, rank=2) for name in names]


def _times(report: ProfileReport, part: ProfiledLine | ProfiledModule) -> list[Cell]:
    times_us = [part.forward_us, part.backward_us][: 1 + words.has_backward(report)]
    return [Cell(time_text(us) if us else "", value=us) for us in times_us]


def _share(share: float) -> Cell:
    # Kernels of another, slower call can take longer than this one.
    return Cell(words.small_percent(share) if share <= 1 else "", value=share)


def _lines(report: ProfileReport, files: words.Files) -> Table:
    rows = []
    for line in report.lines:
        text = line.text or ""
        numbers = few_text([str(number + 1) for number in line.kernels], _FEW_KERNELS)
        code = Span(text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…", "code")
        place = Span(files.place(line.file, line.line))
        rows.append(
            (
                _share(line.share),
                *_times(report, line),
                line.bound_by or "",
                numbers,
                Cell(code, place) if text else Cell(place),
            )
        )
    columns: tuple[Column | str, ...] = (
        "#share",
        *_phases(report),
        Column("waits for", is_number=False, rank=3),
        Column("kernels", is_number=False, rank=4),
        "line",
    )
    return Table(columns, rows, "line", _FEW, "Lines")


def _rest(report: ProfileReport) -> Iterator[Row]:
    for part in words.rest_parts(report):
        yield Row(words.small_percent(part.share), Note(f"{time_text(part.us)} {part.name}", "dim"))
    if report.call_us is not None:
        yield Row("100%", Note(f"{time_text(report.call_us.median)} in all", "dim"))


def _modules(report: ProfileReport) -> Iterator[Table]:
    """Yield the modules, each with what is in it, the costliest first."""

    def whole_us(module: ProfiledModule) -> float:
        return module.forward_us + module.backward_us

    modules = [module for module in report.modules if module.path]
    call_us = report.call_us.median if report.call_us is not None else math.inf
    rows = (
        (
            _share(whole_us(module) / call_us),
            *_times(report, module),
            Cell(Span(module.path, "code")),
        )
        for module in sorted(modules, key=whole_us, reverse=True)
    )
    if len(modules) > 1:
        yield Table(("#share", *_phases(report), "module"), rows, "module", _FEW, "Modules")


# Kernels.


def _kernels(report: ProfileReport, codes: Mapping[KernelCode, Sequence[int]]) -> Table:
    meaning = (
        "All runs in the call that compute the same operations. Time that two kernels share counts"
        " once."
    )
    columns = (
        Column("kernel", meaning=meaning),
        "#share",
        Column("time", rank=1),
        Column("calls", rank=5),
        Column("kind", is_number=False, meaning=_KIND, rank=4),
        Column("memory", meaning=_MEMORY, rank=6),
        Column("arithmetic", meaning=_ARITHMETIC, rank=7),
        Column("waits for", is_number=False, meaning=_WAITS, rank=3),
        Column("operations", is_number=False, rank=8),
        Column("line", is_number=False, rank=2),
    )
    anchors = {
        kernel: f"code-{number}" for number, users in enumerate(codes.values()) for kernel in users
    }
    rows = (
        _kernel(number, kernel, anchors.get(number - 1))
        for number, kernel in enumerate(report.kernels, start=1)
    )
    return Table(columns, rows, "kernel", _FEW, "Kernels")


def _kernel(number: int, kernel: ProfiledKernel, anchor: str | None) -> TableRow:
    places = [f"{base_name(line.file)}:{line.line}" for line in kernel.lines]
    more = f" +{len(places) - 1}" if len(places) > 1 else ""
    name = words.kernel_name(kernel)
    if len(name) > _NAME:
        # A long name keeps its number.
        name = f"{name[: _NAME - 6]}…{name[-5:]}"
    return (
        Cell((f"{number} ", Span(name, "code", link=anchor)), value=number),
        _share(kernel.share),
        Cell(time_text(kernel.time_us), value=kernel.time_us),
        Cell(f"{kernel.calls:,}", value=kernel.calls),
        f"{kernel.kind}, backward" if kernel.phase == "backward" else kernel.kind,
        words.bandwidth_cell(kernel),
        words.compute_cell(kernel),
        kernel.bound_by or "",
        Span(words.operations_text(kernel, _FEW_OPERATIONS)),
        Span("".join((*places[:1], more)), "code"),
    )


# Below.


def _facts(report: ProfileReport, files: words.Files) -> Iterator[Row]:
    facts = {
        "fusion": () if report.fusion is None else (_fusion_text(report.fusion),),
        "memory": () if report.memory is None else _memory(report.memory, files),
        "CUDA graphs": _cuda_graphs(report),
    }
    if report.caches is not None and report.caches.bypasses:
        reasons = "; ".join(report.caches.bypass_reasons)
        count = counted(report.caches.bypasses, "graph")
        facts["caches"] = (f"{count} can't be kept on disk{f' ({reasons})' if reasons else ''}",)
    if report.calibration is not None:
        facts["device"] = (_calibration_text(report.calibration),)
    for name, texts in facts.items():
        if body := tuple(Span(text) if isinstance(text, str) else text for text in texts):
            yield Row(name, body)


def _fusion_text(fusion: Fusion) -> str:
    vanished = launched = None
    if fusion.vanished:
        size = bytes_text(fusion.vanished_bytes)
        tensors = counted(fusion.vanished, "intermediate tensor")
        vanished = f"{tensors} kept out of memory{f' ({size})' if size else ''}"
    if fusion.launches is not None:
        eager = "" if fusion.eager_launches is None else f", {fusion.eager_launches} in eager mode"
        launched = f"{counted(fusion.launches, 'kernel')} launched{eager}"
    operations = counted(fusion.operations, "operation")
    generated = f"{operations} → {counted(fusion.kernels, 'kernel')}"
    return join_texts("; ", generated, vanished, launched)


def _memory(memory: MemoryUse, files: words.Files) -> Iterator[str | Block]:
    tensors = [tensor for tensor in memory.saved if not tensor.is_argument]
    if tensors or memory.saved_bytes is not None:
        size, eager = bytes_text(memory.saved_bytes), bytes_text(memory.eager_saved_bytes)
        beside = f" ({eager} in eager mode)" if eager else ""
        kept = (
            ""
            if memory.has_backward or not memory.saved_bytes
            else ", which no call runs: it lives as long as the result"
        )
        yield f"{size or 'an unknown size'} saved for the backward pass{beside}{kept}"
    if tensors:
        rows = (
            Row(bytes_text(tensor.bytes) or UNKNOWN, Span(_saved_text(tensor, files)))
            for tensor in tensors
        )
        yield Rows(rows, "tensor", _FEW_SAVED)
    if memory.unlisted_bytes:
        # Inductor keeps what oneDNN takes in another layout as a copy of an argument.
        yield (
            f"{bytes_text(memory.unlisted_bytes)} more, owner unknown (perhaps copies of arguments"
            " in another layout)"
        )
    if memory.recomputed_count:
        names = repeated_text(
            (name.removeprefix("aten."), count) for name, count in memory.recomputed.items()
        )
        operations = counted(memory.recomputed_count, "operation")
        yield f"{operations} computed again in the backward pass: {names}"
    if memory.peak_bytes is not None:
        of = _PEAK_OF.get(memory.peak_of or "", "")
        yield f"peak {bytes_text(memory.peak_bytes)}{of}"


def _saved_text(saved: SavedTensor, files: words.Files) -> str:
    """Return a tensor that is kept for the backward pass, or equal ones of one line."""
    return join_texts(
        " ",
        f"{saved.count} ×" if saved.count > 1 else None,
        saved.tensor,
        (saved.operation or saved.name).removeprefix("aten."),
        None if saved.file is None else f"at {files.place(saved.file, saved.line)}",
        f"in {saved.module}" if saved.module else None,
    ) + (", cheap to compute again" if saved.is_cheap else "")


def _cuda_graphs(report: ProfileReport) -> Iterator[str]:
    graphs = report.cuda_graphs
    if graphs is not None:
        captured = "an unknown number" if graphs.captured is None else str(graphs.captured)
        again = f", {graphs.rerecordings} recorded again" if graphs.rerecordings else ""
        launches = report.graph_launches
        launched = f", {launches} launched in the call" if launches else ""
        yield f"{captured} captured, {len(graphs.skipped)} skipped{again}{launched}"
        yield from (f"skipped: {skip_text(skip)}" for skip in graphs.skipped)
        yield from (f"left out: {skip_text(skip)}" for skip in graphs.left_out)
    if report.graph_input_copy_us and report.call_us is not None:
        copy_us = report.graph_input_copy_us
        share = percent(min(copy_us / report.call_us.median, 1.0))
        yield f"copies into their static inputs take {time_text(copy_us)} ({share} of the call)"


def _calibration_text(device: Calibration) -> str:
    threads = "" if device.threads is None else f", {counted(device.threads, 'thread')}"
    rates = device.matmul_tflops_per_s.items()
    parts = [
        f"copying reaches {rate_text(device.copy_gb_per_s)} GB/s",
        *(f"{dtype} products {words.flops_text(rate)}" for dtype, rate in rates),
    ]
    if device.launch_us is not None:
        parts.append(f"a launch takes {time_text(device.launch_us)}")
    note = "" if device.is_steady else " (unsteady)"
    return f"{device.device_name}{threads}: {', '.join(parts)}{note}"

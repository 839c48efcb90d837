"""A profile: the answer, lines, modules and kernels that take the time, what to do, fusion, memory and caches.

Comes in: a ``ProfileReport``, and the picture of its run. Goes out: a view.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import percent
from graphdoctor.views import bench_words
from graphdoctor.views import profile_words as words
from graphdoctor.views.bench_words import time_text
from graphdoctor.views.finding_cards import finding_rows
from graphdoctor.views.html.profile import ProfileDrawings
from graphdoctor.views.parts import (
    Block,
    Blocks,
    Cell,
    Column,
    Drawing,
    Figure,
    Figures,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Table,
    Verdict,
    View,
)
from graphdoctor.views.words import run_title, setting_rows, unknown_section

if TYPE_CHECKING:
    from graphdoctor.facts.picture import Picture
    from graphdoctor.facts.profile import ProfiledKernel, ProfiledLine, ProfiledModule, ProfileReport

_TEXT = 60
"""Characters of a line of code."""
_NAME = 36
_KIND = (
    "pointwise and reduction: Inductor wrote it; template: Inductor made it from a template; library: cuBLAS, oneDNN "
    "or ATen; user: the program's own, in Triton."
)
_MEMORY = (
    "What it reads and writes a second, by the memory that it must read and write at least; beside it the share of "
    "what a copy reaches on this device, which a cache can exceed."
)
_ARITHMETIC = (
    "Floating-point operations a second of its matrix products and convolutions; beside it the share of what a large "
    "product reaches on this device."
)
_WAITS = "memory: its bandwidth; compute: arithmetic; latency: it's too short to reach either."
_HOW = (
    "The call is timed without a profiler; its kernels are from torch.profiler, of the shortest of several calls. Time "
    "outside of kernels is Python, guards, launching and waiting.",
    "graphdoctor notes which operations of the program go into which kernel while Inductor generates its code. An "
    "operation's part of a kernel belongs to the innermost line that computes it, in the backward pass to the line "
    "whose gradient it computes.",
)


def profile_view(report: ProfileReport, picture: Picture | None, *, root: Path) -> View:
    """The profile as a tree.

    Args:
        report: The profile.
        picture: Source files and generated code; None if there is none.
        root: Paths below it are shown relative to it.
    """
    parts = tuple(_parts(report, picture, words.Files(report, root)))
    return View(run_title(report), "profile", parts, report.graphdoctor_version)


def _parts(report: ProfileReport, picture: Picture | None, files: words.Files) -> Iterator[Block]:
    yield Verdict(words.answer_text(report))
    if measured := words.measured_text(report):
        yield Note(Span(measured), "dim")
    if report.regime is not None:
        yield Rows(tuple(Row("try", Note(each, "good")) for each in report.regime.advice))
    yield Figures(tuple(_figures(report)), show="long")
    if kinds := words.kind_parts(report):
        yield Drawing("bench_shares.html.j2", {"parts": kinds}, styles=("bench.css",))
    drawings = ProfileDrawings(report, picture, files)
    lines: Blocks = (_lines(report, files),) if report.lines else ()
    rest = Rows(tuple(_rest(report)))
    yield Section("By line", (*(drawings.lines(lines) or lines), rest) if lines else (), "Lines")
    modules = _modules(report)
    yield Section("By module, each with what is in it", drawings.modules(modules) or modules, "Modules")
    kernels: Blocks = (_kernels(report),) if report.kernels else ()
    yield Section("By kernel", drawings.kernels(kernels) or kernels, "Kernels", len(report.kernels))
    if note := words.sum_note(report):
        yield Note(note, "dim")
    found = tuple(row for finding in report.findings for row in finding_rows(finding))
    yield Section("What to do", (Rows(found, "finding"),), "Actions", len(report.findings))
    yield Section("Generated code", drawings.code(), "Code")
    yield Section("Fusion, memory, CUDA graphs and caches", (Rows(tuple(_facts(report, files)), "fact"),), "Facts")
    yield unknown_section(report.gaps)
    yield Section("How it was measured", tuple(_measured(report)), "Measured", show="long")


def _figures(report: ProfileReport) -> Iterator[Figure]:
    if report.call_us is None:
        return
    eager = report.eager_us
    yield Figure(
        "call",
        time_text(report.call_us.median),
        "" if eager is None else f"{time_text(eager.median)} without torch.compile",
    )
    if report.kernels_us is not None:
        share = min(report.kernels_us / report.call_us.median, 1.0)
        yield Figure("in kernels", percent(share), time_text(report.kernels_us))
    if report.fusion is not None and report.fusion.launches is not None:
        before = report.fusion.eager_launches
        yield Figure("kernels", f"{report.fusion.launches:,}", "" if before is None else f"{before:,} in eager mode")
    if report.memory is not None and report.memory.peak_bytes is not None:
        saved = bench_words.bytes_text(report.memory.saved_bytes)
        peak = bench_words.bytes_text(report.memory.peak_bytes) or ""
        yield Figure("peak memory", peak, f"{saved} saved for backward" if saved else "")


# Lines and modules.


def _phases(report: ProfileReport, *, rank: int = 0) -> list[Column]:
    names = ("forward", "backward") if words.has_backward(report) else ("time",)
    return [Column(name, rank=rank) for name in names]


def _times(report: ProfileReport, forward_us: float, backward_us: float) -> list[Cell]:
    both = [Cell(time_text(us) if us else "", value=us) for us in (forward_us, backward_us)]
    return both if words.has_backward(report) else both[:1]


def _share(share: float) -> Cell:
    return Cell(words.small_percent(share), value=share)


def _lines(report: ProfileReport, files: words.Files) -> Table:
    columns = [
        Column("share"),
        *_phases(report, rank=2),
        Column("waits for", is_number=False, rank=3),
        Column("kernels", is_number=False, rank=4),
        Column("line", is_number=False),
    ]
    rows = (
        (
            _share(line.share),
            *_times(report, line.forward_us, line.backward_us),
            Cell(line.bound_by or ""),
            Cell(words.kernel_numbers(line)),
            _line(line, files),
        )
        for line in report.lines
    )
    return Table(tuple(columns), tuple(rows), "line", words.FEW, "Lines")


def _line(line: ProfiledLine, files: words.Files) -> Cell:
    text = line.text or ""
    shown = text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"
    place = files.place(line.file, line.line)
    return Cell(Span(shown, "code"), Span(place)) if shown else Cell(Span(place))


def _rest(report: ProfileReport) -> Iterator[Row]:
    """What no line has, and the whole call."""
    for part in words.rest_parts(report):
        yield Row(words.small_percent(part.share), Note(f"{time_text(part.us)} {part.name}", "dim"))
    if report.call_us is not None:
        yield Row("100%", Note(f"{time_text(report.call_us.median)} in all", "dim"))


def _modules(report: ProfileReport) -> Blocks:
    shown = words.shown_modules(report, None)
    few = words.shown_modules(report, words.FEW)
    if len(few) < 2:
        return ()
    columns = (Column("share"), *_phases(report, rank=2), Column("module", is_number=False))
    call_us = report.call_us.median if report.call_us is not None else math.inf

    def table(modules: list[ProfiledModule]) -> tuple[tuple[Cell, ...], ...]:
        return tuple(
            (
                _share((each.forward_us + each.backward_us) / call_us),
                *_times(report, each.forward_us, each.backward_us),
                Cell(Span(each.path, "code")),
            )
            for each in modules
        )

    if len(few) == len(shown):
        return (Table(columns, table(shown), "module", label="Modules"),)
    return (
        Table(columns, table(few), "module", label="Modules", show="short"),
        Table(columns, table(shown), "module", label="Modules", show="long"),
    )


# Kernels.


def _kernels(report: ProfileReport) -> Table:
    meaning = "All runs in the call that compute the same operations. Time that two kernels share counts once."
    columns = [
        Column("kernel", meaning=meaning),
        Column("share"),
        Column("time", rank=1),
        Column("calls", rank=5),
        Column("kind", is_number=False, meaning=_KIND, rank=4),
        Column("memory", meaning=_MEMORY, rank=6),
        Column("arithmetic", meaning=_ARITHMETIC, rank=7),
        Column("waits for", is_number=False, meaning=_WAITS, rank=3),
        Column("operations", is_number=False, rank=8),
        Column("line", is_number=False, rank=2),
    ]
    rows = tuple(_kernel(number, kernel) for number, kernel in enumerate(report.kernels, start=1))
    return Table(tuple(columns), rows, "kernel", words.FEW, "Kernels")


def _kernel(number: int, kernel: ProfiledKernel) -> tuple[Cell, ...]:
    name = words.short_name(words.kernel_name(kernel), _NAME)
    return (
        Cell((f"{number} ", Span(name, "code")), value=number),
        _share(kernel.share),
        Cell(time_text(kernel.time_us), value=kernel.time_us),
        Cell(f"{kernel.calls:,}", value=kernel.calls),
        Cell(f"{kernel.kind}, backward" if kernel.phase == "backward" else kernel.kind),
        words.bandwidth_cell(kernel),
        words.compute_cell(kernel),
        Cell(kernel.bound_by or ""),
        Cell(Span(words.operations_text(kernel))),
        Cell(Span(words.lines_text(kernel), "code")),
    )


# Below.


def _facts(report: ProfileReport, files: words.Files) -> Iterator[Row]:
    short = dict(words.fact_texts(report, files, is_short=True))
    for label, whole in words.fact_texts(report, files, is_short=False):
        if short[label] == whole:
            yield Row(label, tuple(Span(text) for text in whole))
        else:
            yield Row(label, tuple(Span(text) for text in short[label]), show="short")
            yield Row(label, tuple(Span(text) for text in whole), show="long")


def _measured(report: ProfileReport) -> Iterator[Block]:
    yield from _HOW
    known = {} if report.regime is None else report.regime.evidence
    evidence = (Row(*words.evidence_text(name, value)) for name, value in known.items())
    recording = () if report.recording is None else (Row("recording", Span(report.recording)),)
    yield Rows((*evidence, *setting_rows(report.target, report.environment), *recording), "figure")

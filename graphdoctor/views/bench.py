"""A bench: the answer, what compiling gains and costs, what runs, what holds variants back, how it was measured.

Comes in: a ``BenchReport``. Goes out: a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from graphdoctor.facts.bench import EAGER
from graphdoctor.facts.wording import kind_text
from graphdoctor.views import bench_words as words
from graphdoctor.views.finding_cards import finding_rows
from graphdoctor.views.html.bench import payoff_drawing, speed_drawing, sweep_drawing
from graphdoctor.views.parts import (
    Block,
    Cell,
    Code,
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
    Tone,
    Verdict,
    View,
    plain_text,
)
from graphdoctor.views.words import run_title, setting_rows, unknown_section

if TYPE_CHECKING:
    from graphdoctor.facts.bench import BenchReport, Sweep, Variant, VariantStatus

_ENDED: dict[VariantStatus, Tone] = {"wrong": "bad", "failed": "bad", "skipped": "warning"}
_HOW = (
    "Each variant has a process of its own. Eager mode has two: what these differ by is the noise.",
    "Calls are timed in rounds: in each, every process has its turn, so that drift of the machine hits all. A speed-up "
    "is the median of the rounds' ratios.",
    "Compile times are what the first calls take longer than later ones, less what eager mode's do: cold in a process "
    "with an empty cache on disk, warm in a second process with what the first left there.",
)


def bench_view(report: BenchReport) -> View:
    """The bench as a tree."""
    return View(run_title(report), "bench", tuple(_parts(report)), report.graphdoctor_version)


def _parts(report: BenchReport) -> Iterator[Block]:
    variants = words.shown_variants(report)
    yield Verdict(report.verdict.text, words.tone(report))
    if measured := words.measured_text(report):
        yield Note(Span(measured), "dim")
    if report.sweep is not None:
        sizes = _sizes(report.sweep, words.sweep_name(report))
        yield Section("Sizes", (*sweep_drawing(report.sweep, words.sweep_name(report)), sizes))
    if (size := words.shown_size(report)) is not None:
        yield Note(("With ", Span(words.sweep_name(report), "code"), f" = {size:,}"))
    if figures := tuple(_figures(report, variants)):
        yield Figures(figures, show="long")
    yield Section("Variants", (words.speed_table(report), words.run_table(report), *speed_drawing(variants)))
    yield Section("When compiling pays", payoff_drawing(variants, report.verdict.best), "Payoff")
    held = tuple(row for finding, names in words.finding_groups(variants) for row in finding_rows(finding, names))
    yield Section("What holds variants back", (Rows(held, "finding"),), "Reasons")
    yield Section("Failed, wrong or skipped", (Rows(tuple(_ended(report, variants)), "variant"),), "Ended")
    yield Section("Results", (Rows(tuple(_notes(variants)), "note"),))
    yield unknown_section(report.gaps)
    kernels = tuple(part for variant in variants for part in _kernels(variant))
    yield Section("Where the time goes", kernels, "Kernels", show="long")
    yield Section("How it was measured", tuple(_measured(report, variants)), "Measured", show="long")


def _sizes(sweep: Sweep, name: str) -> Table:
    """A row for each size, with each variant's speed-up and call."""
    named = list(dict.fromkeys(variant.name for point in sweep.points for variant in point.variants))
    rows = []
    for point in sweep.points:
        found = {variant.name: variant for variant in point.variants}
        rows.append((Cell(f"{point.size:,}"), *(words.size_cell(found.get(one)) for one in named)))
    columns = (Column(Span(name)), *(Column(Span(one)) for one in named))
    return Table(columns, tuple(rows), "size", label="Speed-up and call of each size")


def _figures(report: BenchReport, variants: Sequence[Variant]) -> Iterator[Figure]:
    """The figures of the best variant; nothing if it is eager mode."""
    best = next((one for one in variants if one.name == report.verdict.best), None)
    eager = variants[0]
    if best is None or best.name == EAGER:
        return
    speedup, compiled, pays = words.speedup_cell(best), words.compile_cell(best), words.pays_off_cell(best)
    yield Figure("speed-up", plain_text(speedup.text), plain_text(speedup.detail))
    if eager.call_us is not None and best.call_us is not None:
        before, after = words.time_text(eager.call_us.median), words.time_text(best.call_us.median)
        yield Figure("call", f"{before} → {after}", "eager → compiled")
    yield Figure(
        "compile", plain_text(compiled.text), f"{plain_text(compiled.detail)} start" if compiled.detail else ""
    )
    calls = best.break_even_calls
    yield Figure("pays off after", plain_text(pays.text), "" if calls is None else words.calling_text(calls, eager))


def _ended(report: BenchReport, variants: Sequence[Variant]) -> Iterator[Row]:
    for variant in variants:
        if variant.status == "ok":
            continue
        short, whole = (words.ended_text(variant, is_short=is_short) for is_short in (True, False))
        yield from _cut(variant.status, short, whole, _ENDED[variant.status])
        if variant.stages is not None:
            lines = (
                words.stages_texts(variant.stages, variant.reason, is_short=is_short) for is_short in (True, False)
            )
            yield from (row for short, whole in zip(*lines, strict=True) for row in _cut("", short, whole))
    yield from (Row(status, Span(text)) for status, text in words.ended_sizes(report, is_short=True))


def _cut(label: str, short: str, whole: str, tone: Tone | None = None) -> Iterator[Row]:
    """A text of which a terminal shows the first paragraph."""
    if short == whole:
        yield Row(label, Note(Span(whole), tone))
    else:
        yield Row(label, Note(Span(short), tone), show="short")
        yield Row(label, Code(whole, "text"), show="long")


def _notes(variants: Sequence[Variant]) -> Iterator[Row]:
    for variant in variants:
        for skip in () if variant.cuda_graphs is None else variant.cuda_graphs.skipped:
            yield Row("CUDA graphs", Span(f"{variant.name}: {words.skip_text(skip)}"))
    for names, text in words.correctness_groups(variants):
        yield Row("results", Span(f"{', '.join(names)}: {text}"))
    for variant in variants:
        cached = None if variant.cache is None else words.cache_text(variant.cache)
        if cached is not None:
            yield Row("cache", Span(f"{variant.name}: {cached}"))


def _kernels(variant: Variant) -> Iterator[Block]:
    """Where the time of one variant's call goes."""
    if variant.kernels is None:
        return
    yield Note(Span(f"{variant.name}: {words.kernels_text(variant.kernels)}"))
    if parts := words.kernel_parts(variant.kernels):
        yield Drawing("bench_shares.html.j2", {"parts": parts}, styles=("bench.css",))
    columns = (Column("kernel"), Column("of", is_number=False), Column("time"), Column("runs"))
    rows = (
        (
            Cell(Span(one.name, "code")),
            Cell(one.kind),
            Cell(words.time_text(one.us), value=one.us),
            Cell(f"{one.count:,}"),
        )
        for one in variant.kernels.largest
    )
    yield Table(columns, tuple(rows), "kernel", label=f"Largest kernels of {variant.name}")


def _measured(report: BenchReport, variants: Sequence[Variant]) -> Iterator[Block]:
    yield from _HOW
    yield Rows(tuple(_details(report, variants)), "figure")


def _details(report: BenchReport, variants: Sequence[Variant]) -> Iterator[Row]:
    for variant in variants:
        if variant.call_us is not None:
            yield Row("calls", Span(f"{variant.name}: {words.times_text(variant.call_us)}"))
    for variant in variants:
        for start, found in words.break_evens(variant):
            yield Row("pays off", Span(f"{variant.name}, {start}: after {words.break_even_text(found)}"))
    for variant in variants[1:]:
        if variant.correctness is not None and not variant.correctness.is_bitwise_equal:
            far = (
                f"{kind_text(one.kind)} {words.error_text(one.variant)}" for one in words.distances(variant.correctness)
            )
            yield Row("off float64", Span(f"{variant.name}: {', '.join(far) or 'not compared'}"))
    yield from setting_rows(report.target, report.environment)
    yield from (Row("recording", Note(Span(f"{name}: {folder}"), "dim")) for name, folder in report.recordings.items())

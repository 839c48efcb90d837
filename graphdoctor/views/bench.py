"""A bench on the terminal: the answer, what compiling gains and costs, what runs, what holds variants back, gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from graphdoctor.facts.bench import EAGER
from graphdoctor.views import bench_words as words
from graphdoctor.views.terminal_lines import (
    CELL_TONES,
    ONE_LINE,
    Code,
    Folded,
    Prose,
    cell_figure,
    clean,
    grid,
    labeled_rows,
    write_report,
)
from graphdoctor.views.words import place_text, worth_trying

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from graphdoctor.facts.bench import BenchReport, SweepPoint, Variant
    from graphdoctor.facts.diagnosis import Finding
    from graphdoctor.views.parts import Tone

_TONES: dict[Tone, str] = {"good": "bold green", "warning": "bold yellow", "bad": "bold red"}


def render_bench(report: BenchReport, console: Console, *, is_verbose: bool = False) -> None:
    """Write a bench to a terminal.

    Args:
        report: What to show.
        console: Where to.
        is_verbose: Add all figures of calls and break-evens, where the time of a call goes, suggestions in full, and
            where the recordings are.
    """
    write_report(console, _report(report, console.width, is_verbose=is_verbose), [_sentence(report)])


def _sentence(report: BenchReport) -> Text:
    return clean(report.verdict.text, _TONES[words.tone(report)])


def _report(report: BenchReport, width: int, *, is_verbose: bool) -> Iterator[RenderableType]:
    first, *rest = words.title_parts(report)
    title = clean(first, "bold")
    for part in rest:
        title.append(" · ", "dim").append_text(clean(part, "dim"))
    yield title
    yield Text()
    yield _sentence(report)
    if measured := words.measured_text(report):
        yield clean(measured, "dim")
    if report.sweep is not None:
        yield Text()
        yield _sweep_table(report.sweep.points, words.sweep_name(report), width=width)
        if (size := words.shown_size(report)) is not None:
            yield Text()
            yield clean(f"With {words.sweep_name(report)} = {size:,}", "bold")
    variants = words.shown_variants(report)
    for table in (words.speed_table(variants), words.run_table(report)):
        if table.rows:
            yield Text()
            yield _table(table, best=report.verdict.best, width=width)
    yield from _sections(report, variants, is_verbose=is_verbose)


# Tables.


def _table(shown: words.Table, *, best: str | None, width: int) -> Table:
    table = grid(width)
    for heading in shown.headings:
        table.add_column(Folded(Text(heading)))
    for variant, cells in shown.rows:
        style = "bold green" if variant.name == best and best != EAGER else "bold"
        table.add_row(_name(variant, style), *(cell_figure(cell, is_wide=width >= ONE_LINE) for cell in cells))
    return table


def _name(variant: Variant, style: str) -> RenderableType:
    """Its name, and below it the blocks that it compiles."""
    regions = [Folded(clean(", ".join(variant.regions), "dim"))] if variant.regions else []
    return Group(Folded(clean(variant.name, style)), *regions)


def _sweep_table(points: Sequence[SweepPoint], name: str, *, width: int) -> Table:
    """A row for each size, with each variant's speed-up and call."""
    table = grid(width)
    table.add_column(Folded(clean(name)), justify="right")
    named = list(dict.fromkeys(variant.name for point in points for variant in point.variants))
    for one in named:
        table.add_column(Folded(clean(one)))
    for point in points:
        found = {variant.name: variant for variant in point.variants}
        cells = [words.size_cell(found.get(one)) for one in named]
        table.add_row(f"{point.size:,}", *(cell_figure(cell, is_wide=width >= ONE_LINE) for cell in cells))
    return table


# What is below them.


def _sections(report: BenchReport, variants: Sequence[Variant], *, is_verbose: bool) -> Iterator[RenderableType]:
    groups = words.finding_groups(variants)
    if groups:
        yield Text()
        yield Text("What holds variants back", "bold")
        for finding, names in groups:
            yield labeled_rows(_finding_rows(finding, names, is_verbose=is_verbose))
    rows = [*_ended(report, is_verbose=is_verbose), *_notes(variants)]
    if is_verbose:
        rows += _details(report, variants)
    rows += [("unknown", clean(gap.message, "dim")) for gap in report.gaps]
    if rows:
        yield Text()
        yield labeled_rows(rows)


def _finding_rows(finding: Finding, names: Sequence[str], *, is_verbose: bool) -> Iterator[tuple[str, RenderableType]]:
    yield finding.code, clean(finding.message).append_text(clean(f" ({', '.join(names)})", "dim"))
    location, fixes = finding.location, worth_trying(finding.fixes)
    if is_verbose and location.file:
        yield "at", clean(f"{location.shown_file}:{location.line} in {location.function}", "dim")
    for fix in fixes if is_verbose else fixes[:1]:
        parts: list[RenderableType] = [Prose(clean(fix.title, "green"))]
        if is_verbose and fix.snippet is not None:
            parts += [Prose(clean(f"{place_text(fix.place)}:", "dim"))] if fix.place is not None else []
            parts.append(Code(fix.snippet))
        yield "try", Group(*parts)


def _ended(report: BenchReport, *, is_verbose: bool) -> Iterator[tuple[str, RenderableType]]:
    for variant in words.ended_variants(report):
        style = CELL_TONES[words.result_cell(variant).tone or "warning"]
        yield variant.status, clean(words.ended_text(variant, is_short=not is_verbose), style)
        if variant.stages is not None:
            lines = words.stages_texts(variant.stages, variant.reason, is_short=not is_verbose)
            yield from (("", clean(line)) for line in lines)
    yield from ((status, clean(text)) for status, text in words.ended_sizes(report, is_short=not is_verbose))


def _notes(variants: Sequence[Variant]) -> Iterator[tuple[str, RenderableType]]:
    for name, reason in words.skipped_graphs(variants):
        yield "CUDA graphs", clean(f"{name}: {reason}")
    for names, text in words.correctness_groups(variants):
        yield "results", clean(f"{', '.join(names)}: {text}")
    for variant in variants:
        cached = None if variant.cache is None else words.cache_text(variant.cache)
        if cached is not None:
            yield "cache", clean(f"{variant.name}: {cached}")


def _details(report: BenchReport, variants: Sequence[Variant]) -> Iterator[tuple[str, RenderableType]]:
    for variant in variants:
        if variant.call_us is not None:
            yield "calls", clean(f"{variant.name}: {words.times_text(variant.call_us)}")
    for variant in variants:
        for start, found in words.break_evens(variant):
            yield "pays off", clean(f"{variant.name}, {start}: after {words.break_even_text(found)}")
    for variant in variants:
        if variant.kernels is not None:
            yield "kernels", clean(f"{variant.name}: {words.kernels_text(variant.kernels)}")
    for name, folder in report.recordings.items():
        yield "recording", clean(f"{name}: {folder}", "dim")

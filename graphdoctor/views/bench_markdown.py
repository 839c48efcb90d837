"""A bench as Markdown for a pull request or an issue.

Comes in: a ``BenchReport``. Goes out: GitHub's Markdown, no longer than GitHub accepts: the answer, what compiling
gains and costs, what holds variants back; the rest is folded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from graphdoctor.facts.bench import EAGER
from graphdoctor.views import bench_words as words
from graphdoctor.views.markdown import Section, document
from graphdoctor.views.markdown_text import code, plain, sentence
from graphdoctor.views.words import suggested, worth_trying

if TYPE_CHECKING:
    from graphdoctor.facts.bench import BenchReport, Variant, VariantStatus
    from graphdoctor.facts.diagnosis import Finding

_VERDICT = 2000
"""Characters of an answer that names many variants or sizes."""

_ENDINGS: dict[VariantStatus, str] = {
    "ok": "ran",
    "wrong": "is wrong",
    "failed": "failed",
    "skipped": "was skipped",
}


def render_bench_markdown(report: BenchReport) -> str:
    """The answer, the tables, the reasons.

    Args:
        report: What to write.

    Returns:
        Markdown of at most ``MAX_CHARACTERS``, with a newline at the end.
    """
    first, *rest = words.title_parts(report)
    head = ["## graphdoctor", " · ".join([code(first), *map(plain, rest)])]
    return document([*head, f"**{sentence(report.verdict.text, _VERDICT)}**"], _sections(report))


def _sections(report: BenchReport) -> Iterator[Section]:
    variants = words.shown_variants(report)
    yield from _sweep(report)
    size = words.shown_size(report)
    above = "" if size is None else f"### With {code(words.sweep_name(report))} = {size:,}\n\n"
    yield _table(words.speed_table(variants), report, above)
    yield _table(words.run_table(report), report, "")
    findings = [_finding(finding, names) for finding, names in words.finding_groups(variants)]
    yield Section(findings, "finding", "### What holds variants back\n\n")
    yield Section(list(_ended(report)), "variant", "### Failed, wrong or skipped\n\n")
    yield Section([f"- {sentence(gap.message)}" for gap in report.gaps], "gap", "### Unknown\n\n")
    yield Section(list(_notes(variants)), "note", summary="Results, CUDA graphs and caches")
    yield Section(list(_measured(report, variants)), "figure", summary="How it was measured")


def _table(shown: words.Table, report: BenchReport, above: str) -> Section:
    head = f"{above}| {' | '.join(shown.headings)} |\n| --- |{' ---: |' * (len(shown.headings) - 1)}\n"
    rows = []
    for variant, cells in shown.rows:
        name = code(variant.name) + (f" ({plain(', '.join(variant.regions))})" if variant.regions else "")
        if variant.name == report.verdict.best != EAGER:
            name = f"**{name}**"
        rows.append(f"| {name} | {' | '.join(map(_cell, cells))} |")
    return Section(rows, "variant", head)


def _cell(cell: words.Cell) -> str:
    return f"**{cell.line}**" if cell.tone == "bad" else cell.line


def _sweep(report: BenchReport) -> Iterator[Section]:
    if report.sweep is None:
        return
    points = report.sweep.points
    names = list(dict.fromkeys(variant.name for point in points for variant in point.variants))
    head = f"| {code(words.sweep_name(report))} | {' | '.join(map(code, names))} |\n| ---: |{' ---: |' * len(names)}\n"
    rows = []
    for point in points:
        found = {variant.name: variant for variant in point.variants}
        rows.append(f"| {point.size:,} | {' | '.join(_cell(words.size_cell(found.get(name))) for name in names)} |")
    yield Section(rows, "size", head)


def _finding(finding: Finding, names: Sequence[str]) -> str:
    location = finding.location
    place = f" {code(f'{location.shown_file}:{location.line}')}" if location.file else ""
    text = f"- **{plain(finding.code)}**{place} {sentence(finding.message)}  \n  {', '.join(map(code, names))}"
    for fix in worth_trying(finding.fixes)[:1]:
        text += f"  \n  Try: {suggested(fix, sentence(fix.title))}"
    return text


def _ended(report: BenchReport) -> Iterator[str]:
    for variant in words.ended_variants(report):
        reason = f": {plain(variant.reason)}" if variant.reason else ""
        text = f"- {code(variant.name)} {_ENDINGS[variant.status]}{reason}"
        if variant.stages is not None:
            text += "".join(
                f"  \n  {plain(line)}" for line in words.stages_texts(variant.stages, variant.reason, is_short=True)
            )
        yield text
    yield from (f"- {status}: {plain(text)}" for status, text in words.ended_sizes(report, is_short=True))


def _notes(variants: Sequence[Variant]) -> Iterator[str]:
    for names, text in words.correctness_groups(variants):
        yield f"- {', '.join(map(code, names))}: {plain(text)}"
    for name, reason in words.skipped_graphs(variants):
        yield f"- {code(name)}: {plain(reason)}"
    for variant in variants:
        cached = None if variant.cache is None else words.cache_text(variant.cache)
        if cached is not None:
            yield f"- {code(variant.name)}: {plain(cached)}"


def _measured(report: BenchReport, variants: Sequence[Variant]) -> Iterator[str]:
    if measured := words.measured_text(report):
        yield f"- {plain(measured)}"
    for variant in variants:
        if variant.call_us is not None:
            yield f"- {code(variant.name)}: {words.times_text(variant.call_us)}"
        for start, found in words.break_evens(variant):
            yield f"- {code(variant.name)}, {start}, pays off after {words.break_even_text(found)}"
        if variant.kernels is not None:
            yield f"- {code(variant.name)}: {words.kernels_text(variant.kernels)}"

"""A job on the terminal: verdict, where ranks part, who waits for whom, findings with their ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from graphdoctor.model.wording import counted, ranks_text
from graphdoctor.render.cards import Prose, clean, finding_card, write
from graphdoctor.render.job_words import (
    absent_text,
    agreement_text,
    cache_text,
    count_texts,
    differing,
    early_text,
    finding_ranks_text,
    group_text,
    hang_text,
    incomplete_text,
    seconds_text,
    skew_texts,
    title_parts,
    value_rows,
    verdict,
)
from graphdoctor.render.words import Tone, clusters

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.model.job import Job

_TONES: dict[Tone, str] = {"good": "bold green", "warning": "bold yellow", "bad": "bold red"}
_MAX_ROWS = 12
_MAX_FINDINGS = 8


def render_job(job: Job, console: Console, *, is_verbose: bool = False) -> None:
    """Write the report of a job to a terminal.

    Args:
        job: What to show.
        console: Where to.
        is_verbose: Show every compile that differs, a row for each rank, and every finding in full.
    """
    for renderable in _report(job, is_verbose=is_verbose):
        write(console, renderable)


def _report(job: Job, *, is_verbose: bool) -> Iterator[RenderableType]:
    first, *rest = title_parts(job)
    title = clean(first, "bold")
    for part in rest:
        title.append(" · ", "dim").append_text(clean(part, "dim"))
    yield title
    yield Text()
    said, tone = verdict(job)
    yield clean(said, _TONES[tone])
    if job.first_divergence is not None:
        yield _pairs(value_rows(job.first_divergence))
    parts = list(count_texts(job))
    if job.skew.compile_s is not None:
        parts.append(f"{seconds_text(job.skew.compile_s)} compiling")
    yield clean(f"Each rank: {' · '.join(parts)}", "dim")
    for text in filter(None, (absent_text(job), incomplete_text(job), early_text(job))):
        yield clean(text, "yellow")
    yield from _matrix(job, is_verbose=is_verbose)
    yield from _waits(job)
    if is_verbose:
        yield Text()
        yield _rank_table(job)
    yield from _findings(job, is_verbose=is_verbose)
    for gap in job.gaps:
        yield Text()
        yield clean(f"{gap.code} {gap.message}", "dim")


def _pairs(rows: Iterator[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, value in rows:
        table.add_row(clean(f"  {name}", "dim"), Prose(clean(value)))
    return table


def _matrix(job: Job, *, is_verbose: bool) -> Iterator[RenderableType]:
    """The compiles on which ranks differ, those of ranks that did the same taken together."""
    yield Text()
    yield clean(agreement_text(job), "dim")
    rows = differing(job)
    if rows:
        table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for heading in ("compile", "function", "ranks", "did"):
            table.add_column(heading, no_wrap=heading == "compile")
        for row in rows if is_verbose else rows[:_MAX_ROWS]:
            for number, group in enumerate(row.groups):
                names = (row.compile, row.function) if number == 0 else ("", "")
                ranks = ranks_text(group.ranks).partition(" ")[2]
                did = Prose(clean(group_text(group, row), "yellow" if number else ""))
                table.add_row(clean(names[0]), Prose(clean(names[1])), clean(ranks), did)
        yield table
        if len(rows) > _MAX_ROWS and not is_verbose:
            yield Text(f"and {counted(len(rows) - _MAX_ROWS, 'more compile')} (-v shows all)", style="dim")
    if (text := cache_text(job)) is not None:
        yield clean(text, "dim")


def _waits(job: Job) -> Iterator[RenderableType]:
    texts = [*skew_texts(job), *map(hang_text, job.hangs)]
    if texts:
        yield Text()
    for text in texts:
        yield clean(text, "yellow")


def _rank_table(job: Job) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("rank", "process", "compiles", "breaks", "recompiles", "compiling", "waits", "whole"):
        table.add_column(heading, justify="right")
    for rank in job.ranks:
        whole = {True: "yes", False: "no", None: "?"}[rank.complete]
        table.add_row(
            str(rank.rank),
            str(rank.process or "?"),
            str(rank.summary.compiles),
            str(rank.summary.break_sites),
            str(rank.summary.recompiles),
            "?" if rank.compile_s is None else f"{rank.compile_s:.2f} s",
            "?" if rank.waits_s is None else f"{rank.waits_s:.2f} s",
            whole,
        )
    return table


def _findings(job: Job, *, is_verbose: bool) -> Iterator[RenderableType]:
    groups = list(clusters(job.findings))
    ranks_of = {finding.fingerprint: finding for finding in job.findings}
    for cluster in groups if is_verbose else groups[:_MAX_FINDINGS]:
        yield Text()
        yield clean(f"On {finding_ranks_text(ranks_of[cluster[0].fingerprint], job.ranks)}:", "dim")
        yield from finding_card(cluster, is_verbose=is_verbose, has_path=False)
    if len(groups) > _MAX_FINDINGS and not is_verbose:
        yield Text()
        yield Text(f"{counted(len(groups) - _MAX_FINDINGS, 'more finding')} (-v shows all)", style="dim")

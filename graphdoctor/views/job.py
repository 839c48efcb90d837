"""A job on the terminal: verdict, where ranks diverge, who waits for whom, what to run next, findings by rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from graphdoctor.facts.wording import counted, ranks_text
from graphdoctor.views.cards import finding_card, short_card
from graphdoctor.views.job_matrix import Matrix, MatrixRow, cell_state, cell_text, matrix_of
from graphdoctor.views.job_words import (
    absent_text,
    agreement_text,
    cache_text,
    count_texts,
    differences_text,
    early_text,
    finding_groups,
    function_text,
    hang_text,
    incomplete_text,
    next_commands,
    page_command,
    skew_texts,
    title_parts,
    trial_texts,
    unknown_ends_text,
    value_rows,
    verdict,
)
from graphdoctor.views.log_words import unshown_in_job
from graphdoctor.views.parts import Tone
from graphdoctor.views.terminal_lines import Command, Prose, clean, labeled_rows, write

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from graphdoctor.facts.job import Aspect, Job

_TONES: dict[Tone, str] = {"good": "bold green", "warning": "bold yellow", "bad": "bold red"}
_VERDICTS = {
    "verified": "bold green",
    "failed": "bold red",
    "changes results": "bold red",
    "makes it worse": "bold red",
}
_MAX_ROWS = 8
_MAX_LONG_ROWS = 4
"""Of those that can take a line for each of a few groups."""
_MAX_GROUPS = 3
_MAX_FINDINGS = 8
_MAX_WHOLE = 3
"""Findings that are shown in full; the others are a few lines each."""
_COLUMN_WIDTH = 17
"""Cells that a column of ranks should have at least."""
_VALUE_LINES = 2
_SAID: tuple[Aspect, ...] = ("presence", "outcome", "causes")
"""Aspects of which the first divergence says as much as its row would."""


def render_job(job: Job, console: Console, *, is_verbose: bool = False) -> None:
    """Write the report of a job to a terminal.

    Args:
        job: What to show.
        console: Where to.
        is_verbose: Show every compile that differs, a row for each rank, and every finding in full.
    """
    for renderable in _report(job, console.width, is_verbose=is_verbose):
        write(console, renderable)


def _report(job: Job, width: int, *, is_verbose: bool) -> Iterator[RenderableType]:
    first, *rest = title_parts(job)
    title = clean(first, "bold")
    for part in rest:
        title.append(" · ", "dim").append_text(clean(part, "dim"))
    yield title
    yield Text()
    said, tone = verdict(job)
    yield clean(said, _TONES[tone])
    if job.first_divergence is not None:
        limit = max(width // 2, width - 26) * _VALUE_LINES
        yield _pairs(value_rows(job.first_divergence, limit=limit))
    yield clean(f"Each rank: {' · '.join(count_texts(job))}", "dim")
    for text in filter(None, (absent_text(job), incomplete_text(job), early_text(job))):
        yield clean(text, "yellow")
    yield from _matrix(job, width, is_verbose=is_verbose)
    if texts := [*(hang_text(found, job) for found in job.hangs), *skew_texts(job)]:
        yield Text()
        yield from (clean(text, "yellow") for text in texts)
    if is_verbose:
        yield Text()
        yield _rank_table(job)
    commands = [*next_commands(job), *([("as a page", page)] if (page := page_command(job)) is not None else [])]
    if commands:
        yield Text()
        yield labeled_rows((label, Command(command)) for label, command in commands)
    yield from _findings(job, is_verbose=is_verbose)
    yield from _trials(job)
    if (unshown := unshown_in_job(job, is_verbose=is_verbose)) is not None:
        yield Text()
        yield clean(unshown, "dim")
    yield from _closing(job)


def _pairs(rows: Iterable[tuple[str, str]]) -> Padding:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(max_width=30)
    table.add_column()
    for name, value in rows:
        table.add_row(Prose(clean(name, "dim")), Prose(clean(value)))
    return Padding(table, (0, 0, 0, 2))


def _matrix(job: Job, width: int, *, is_verbose: bool) -> Iterator[RenderableType]:
    """The compiles on which ranks differ, a column for ranks that did the same in all of them."""
    said, cached = agreement_text(job), cache_text(job)
    if said is not None or cached is not None:
        yield Text()
    if said is not None:
        yield clean(said, "dim")
        matrix = matrix_of(job)
        rows = [row for row in matrix.rows if not row.compile.agree]
        if len(rows) == 1 and job.first_divergence is not None and job.first_divergence.what in _SAID:
            rows = []
        shown = rows if is_verbose else rows[:_MAX_ROWS]
        if not rows:
            pass
        elif len(matrix.columns) <= max((width - 28) // _COLUMN_WIDTH, 2):
            yield _by_column(matrix, shown)
        else:
            shown = shown if is_verbose else shown[:_MAX_LONG_ROWS]
            yield _by_group(shown, is_verbose=is_verbose)
        if len(rows) > len(shown):
            yield Text(f"and {counted(len(rows) - len(shown), 'more compile')} (-v shows all)", style="dim")
    if cached is not None:
        yield clean(cached, "dim")


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, no_wrap=heading == "compile")
    return table


_STYLES = {"same": "", "differs": "yellow", "missing": "red"}


def _by_column(matrix: Matrix, rows: Sequence[MatrixRow]) -> Table:
    table = _table("compile", "function", *map(ranks_text, matrix.columns))
    for row in rows:
        cells = (clean(cell_text(group, row.compile), _STYLES[cell_state(group)]) for group in row.groups)
        table.add_row(clean(row.compile.compile), Prose(clean(function_text(row.compile))), *map(Prose, cells))
    return table


def _by_group(rows: Sequence[MatrixRow], *, is_verbose: bool) -> Table:
    """Where there are too many columns: the groups of each compile, one below the other."""
    table = _table("compile", "function", "ranks", "did")
    for row in rows:
        groups, names = row.compile.groups, (row.compile.compile, function_text(row.compile))
        if len(groups) > _MAX_GROUPS and not is_verbose:
            did = Prose(clean(differences_text(row.compile), "yellow"))
            table.add_row(clean(names[0]), Prose(clean(names[1])), f"{len(groups)} groups", did)
            continue
        for number, group in enumerate(groups):
            compile_, function = names if number == 0 else ("", "")
            did = Prose(clean(cell_text(group, row.compile), _STYLES[cell_state(group)]))
            ranks = ranks_text(group.ranks).partition(" ")[2]
            table.add_row(clean(compile_), Prose(clean(function)), Prose(clean(ranks)), did)
    return table


def _rank_table(job: Job) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    has_ends = any(rank.complete is not None for rank in job.ranks)
    headings = ("rank", "process", "compiles", "breaks", "recompiles", "compiling", "waits")
    for heading in (*headings, *(["log"] if has_ends else [])):
        table.add_column(heading, justify="right")
    for rank in job.ranks:
        ends = {True: "whole", False: "ends early", None: "?"}[rank.complete]
        table.add_row(
            str(rank.rank),
            str(rank.process or "?"),
            str(rank.summary.compiles),
            str(rank.summary.break_sites),
            str(rank.summary.recompiles),
            "?" if rank.compile_s is None else f"{rank.compile_s:.2f} s",
            "?" if rank.waits_s is None else f"{rank.waits_s:.2f} s",
            *([ends] if has_ends else []),
        )
    return table


def _trials(job: Job) -> Iterator[RenderableType]:
    """Suggestions that were tried on the whole job."""
    if job.trials is None:
        return
    yield Text()
    yield Text(
        "Tried on the whole job, one at a time:" if job.trials else "Nothing that was found can be tried.", "bold"
    )
    for trial in job.trials:
        said, shown = trial_texts(trial)
        yield Prose(clean(f"  {said}", _VERDICTS.get(trial.verdict, "yellow")))
        yield _pairs([("", shown)])


def _findings(job: Job, *, is_verbose: bool) -> Iterator[RenderableType]:
    groups = list(finding_groups(job))
    for number, (cluster, ranks) in enumerate(groups if is_verbose else groups[:_MAX_FINDINGS]):
        yield Text()
        if is_verbose or number < _MAX_WHOLE:
            yield from finding_card(cluster, is_verbose=is_verbose, has_path=False)
        else:
            yield short_card(cluster)
        yield labeled_rows([("on", clean(ranks))])
    if len(groups) > _MAX_FINDINGS and not is_verbose:
        yield Text()
        yield Text(f"{counted(len(groups) - _MAX_FINDINGS, 'more finding')} (-v shows all)", style="dim")


def _closing(job: Job) -> Iterator[RenderableType]:
    unknown = [gap.message for gap in job.gaps]
    if (ends := unknown_ends_text(job)) is not None:
        unknown.append(ends)
    if unknown:
        yield Text()
        yield labeled_rows((("unknown", clean(text)) for text in unknown), style="dim")
    if job.hidden_findings:
        yield Text()
        yield Text(f"{counted(job.hidden_findings, 'finding')} hidden by --own-code, --select or --ignore.", "dim")

"""The ranks of a job side by side as Markdown for an issue.

Comes in: a ``Job``. Goes out: GitHub's Markdown, no longer than GitHub accepts: verdict, where ranks diverge, the
compiles that differ, who waits for whom, findings with their ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphdoctor.facts.wording import counted, ranks_text
from graphdoctor.views.diagnosis_markdown import finding_item
from graphdoctor.views.job_matrix import cell_state, cell_text, matrix_of
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
    skew_texts,
    title_parts,
    trial_texts,
    unknown_ends_text,
    value_rows,
    verdict,
)
from graphdoctor.views.log_words import unshown_in_job
from graphdoctor.views.markdown import Section, document
from graphdoctor.views.markdown_text import code, fenced, plain, sentence

if TYPE_CHECKING:
    from graphdoctor.facts.job import Divergence, Job, Rank

_MAX_COLUMNS = 6
_VALUE = 400


def render_job_markdown(job: Job) -> str:
    """The verdict, the first divergence, the matrix, times, possible hangs, findings, gaps.

    Args:
        job: What to write.

    Returns:
        Markdown of at most ``MAX_CHARACTERS``, with a newline at the end.
    """
    first, *rest = title_parts(job)
    head = ["## graphdoctor", " · ".join([code(first), *map(plain, rest)]), f"**{sentence(verdict(job)[0])}**"]
    head.append(f"Each rank: {' · '.join(plain(text) for text in count_texts(job))}")
    head += [plain(text) for text in (absent_text(job), incomplete_text(job), early_text(job)) if text is not None]
    return document(head, _sections(job))


def _sections(job: Job) -> Iterator[Section]:
    if job.first_divergence is not None:
        rows = [f"| {plain(ranks)} | {value} |" for ranks, value in _values(job.first_divergence)]
        yield Section(rows, "value", "### First divergence\n\n| ranks | value |\n| --- | --- |\n")
    yield Section([f"- {sentence(hang_text(found, job))}" for found in job.hangs], "place", "### Possible hangs\n\n")
    if (said := agreement_text(job)) is not None:
        yield _matrix(job, f"### Compiles\n\n{plain(said)}\n\n")
    texts = [*skew_texts(job), *([text] if (text := cache_text(job)) is not None else [])]
    yield Section([f"- {sentence(text)}" for text in texts], "note", "### Time\n\n")
    items = [finding_item(cluster, where) for cluster, where in finding_groups(job)]
    yield Section(items, "finding", "### Findings\n\n")
    tried = [f"- **{plain(what)}**  \n  {sentence(shown)}" for what, shown in map(trial_texts, job.trials or ())]
    yield Section(tried, "trial", "### Tried on the whole job\n\n")
    unknown = [gap.message for gap in job.gaps] + [text for text in (unknown_ends_text(job),) if text is not None]
    yield Section([f"- {sentence(text)}" for text in unknown], "gap", "### Unknown\n\n")
    rows = [_rank(rank) for rank in job.ranks]
    head = (
        "| rank | compiles | break sites | recompiles | compiling | waiting |\n"
        "| ---: | ---: | ---: | ---: | ---: | ---: |\n"
    )
    yield Section(rows, "rank", head, summary=f"Each rank: {len(rows)}")
    commands = [line for _, command in next_commands(job) for line in (*fenced(command, "sh"), "")]
    yield Section(["\n".join(commands)] if commands else [], "command", "To see more:\n\n")
    hidden = f"{counted(job.hidden_findings, 'finding')} hidden by --own-code, --select or --ignore."
    notes = [unshown_in_job(job, is_verbose=False), hidden if job.hidden_findings else None]
    yield Section([f"_{plain(note, len(note))}_" for note in notes if note is not None], "note")


def _values(found: Divergence) -> Iterator[tuple[str, str]]:
    lacking = {ranks_text(value.ranks) for value in found.values if value.value == "-"}
    for ranks, value in value_rows(found, limit=_VALUE):
        yield ranks, plain(value) if ranks in lacking else code(value, _VALUE)


def _matrix(job: Job, above: str) -> Section:
    """The compiles that differ, a column for ranks that did the same in all of them."""
    matrix = matrix_of(job)
    rows = [row for row in matrix.rows if not row.compile.agree]
    if len(matrix.columns) > _MAX_COLUMNS:
        lines = [
            f"| {code(row.compile.compile)} {code(function_text(row.compile))} | {len(row.compile.groups)} | "
            f"{plain(differences_text(row.compile))} |"
            for row in rows
        ]
        return Section(lines, "compile", f"{above}| compile | groups of ranks | |\n| --- | ---: | --- |\n")
    headings = "".join(f" {plain(ranks_text(ranks))} |" for ranks in matrix.columns)
    lines = []
    for row in rows:
        cells = (
            f" {text} |" if cell_state(group) == "same" else f" **{text}** |"
            for group in row.groups
            for text in (plain(cell_text(group, row.compile)),)
        )
        lines.append(f"| {code(row.compile.compile)} {code(function_text(row.compile))} |{''.join(cells)}")
    return Section(lines, "compile", f"{above}| compile |{headings}\n| --- |{' --- |' * len(matrix.columns)}\n")


def _rank(rank: Rank) -> str:
    summary = rank.summary
    times = ("unknown" if time is None else f"{time:.2f} s" for time in (rank.compile_s, rank.waits_s))
    cells = (rank.rank, summary.compiles, summary.break_sites, summary.recompiles, *times)
    return f"| {' | '.join(map(str, cells))} |"

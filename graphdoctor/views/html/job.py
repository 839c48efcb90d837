"""The ranks of a job side by side as one self-contained HTML file, whose size doesn't grow with ranks and compiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any

from graphdoctor.facts.job import Aspect, DivergentValue, Job, Rank
from graphdoctor.facts.wording import ranks_text
from graphdoctor.views.html.document import write_document
from graphdoctor.views.job_matrix import MatrixRow, cell_state, cell_text, matrix_of
from graphdoctor.views.job_words import (
    absent_text,
    agreement_text,
    cache_text,
    early_text,
    finding_groups,
    function_text,
    hang_text,
    incomplete_text,
    lacks_text,
    next_commands,
    rank_spans,
    skew_texts,
    title_parts,
    trial_texts,
    unknown_ends_text,
    verdict,
)
from graphdoctor.views.log_words import unshown_in_job

if TYPE_CHECKING:
    from graphdoctor.facts.job import CompileAgreement

_MAX_COLUMNS = 16
_MAX_ROWS = 300
_MAX_ALIKE = 40
"""Rows in a place where all ranks agree."""
_MAX_RANKS = 512
_MAX_FINDINGS = 60
_MAX_FIXES = 3
_MAX_VALUES = 12
_MAX_CHARACTERS = 1500
"""Of a value at the first divergence."""
_MAX_CELL = 160

_WHAT: dict[Aspect, str] = {
    "presence": "Some ranks don't compile it.",
    "outcome": "The compile ended differently.",
    "operations": "The first line of the printed graph that differs:",
    "sizes": "The first size in the printed graph that differs:",
    "collectives": "The collectives that Inductor scheduled:",
    "causes": "What made torch recompile:",
    "guards": "The first guard that differs:",
    "estimates": "The tensors that Inductor expects at run time:",
    "cache": "Whether a cache had it:",
}
_SIGNS = {"same": "=", "differs": "≠", "missing": "∅"}


@dataclass(frozen=True)
class _Part:
    """Neighboring rows of the matrix: differing ones, or ones that are the same on all ranks."""

    is_alike: bool
    rows: list[dict[str, Any]]
    count: int


def render_job_page(job: Job, *, has_source: bool = True) -> str:
    """The page.

    Args:
        job: What to show.
        has_source: Show lines of code.

    Returns:
        A whole HTML document.
    """
    if not has_source:
        from graphdoctor.views.html.sourceless import without_source

        job = without_source(job)
    said, tone = verdict(job)
    matrix = matrix_of(job)
    columns = matrix.columns[:_MAX_COLUMNS]
    left_out = [rank for ranks in matrix.columns[_MAX_COLUMNS:] for rank in ranks]
    parts, hidden = _parts(matrix.rows, len(columns))
    findings = list(finding_groups(job))
    context = {
        "job": job,
        "title": title_parts(job),
        "sentence": said,
        "tone": tone,
        "has_source": has_source,
        "warnings": [text for text in (absent_text(job), incomplete_text(job), early_text(job)) if text is not None],
        "spans": list(rank_spans(job)),
        "commands": list(next_commands(job)),
        "diverging": None if job.first_divergence is None else function_text(job.first_divergence),
        "what": None if job.first_divergence is None else _WHAT[job.first_divergence.what],
        "values": [] if job.first_divergence is None else list(_values(job.first_divergence.values)),
        "more_values": 0 if job.first_divergence is None else max(len(job.first_divergence.values) - _MAX_VALUES, 0),
        "agreement": agreement_text(job) or said,
        "columns": [(ranks_text(ranks), len(ranks)) for ranks in columns],
        "left_out": ranks_text(sorted(left_out)) if left_out else None,
        "parts": parts,
        "hidden_rows": hidden,
        "signs": _SIGNS,
        "differing": sum(not row.agree for row in job.agreement),
        "caches": cache_text(job),
        "skew": list(skew_texts(job)),
        "ranks": list(_ranks(job.ranks[:_MAX_RANKS], job)),
        "more_ranks": max(len(job.ranks) - _MAX_RANKS, 0),
        "unshown": unshown_in_job(job, is_verbose=True),
        "has_ends": any(rank.complete is not None for rank in job.ranks),
        "hangs": [_capital(hang_text(found, job).removeprefix("Possible hang: ")) for found in job.hangs],
        "usual": f"rank {job.ranks[0].rank}" if len(job.ranks) == 2 else "most ranks",
        "trials": [trial_texts(trial) for trial in job.trials or ()],
        "findings": findings[:_MAX_FINDINGS],
        "finding_count": len(findings),
        "max_fixes": _MAX_FIXES,
        "unknown": [gap.message for gap in job.gaps] + [text for text in (unknown_ends_text(job),) if text is not None],
    }
    return write_document("job.html.j2", context, blobs={}, scripts=(), styles=("job.css",))


def _values(values: Sequence[DivergentValue]) -> Iterator[tuple[str, tuple[str, str, str] | str]]:
    """Each group of ranks with its value: what is the same before, what differs, what is the same after.

    In its place, that they have none.
    """
    shown = values[:_MAX_VALUES]
    texts = [value.value[:_MAX_CHARACTERS] for value in shown if value.value != "-"]
    before = _alike(texts) if len(texts) > 1 else 0
    after = _alike([text[before:][::-1] for text in texts]) if len(texts) > 1 else 0
    for value in shown:
        text = value.value[:_MAX_CHARACTERS]
        end = len(text) - after
        cut = "…" if len(value.value) > _MAX_CHARACTERS else ""
        parts = text[:before], text[before:end], text[end:] + cut
        yield ranks_text(value.ranks), lacks_text(value.ranks) if value.value == "-" else parts


def _alike(texts: Sequence[str]) -> int:
    """With how many of the same characters texts begin."""
    return sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False)))


def _parts(rows: Sequence[MatrixRow], columns: int) -> tuple[list[_Part], int]:
    """The rows that are shown, and how many that differ aren't."""
    parts: list[_Part] = []
    room, hidden = _MAX_ROWS, 0
    for is_alike, group in groupby(rows, lambda row: row.compile.agree):
        found = list(group)
        shown = found[: min(_MAX_ALIKE, room) if is_alike else room]
        room -= len(shown)
        if shown:
            parts.append(_Part(is_alike, [_row(row, columns) for row in shown], len(found)))
        if not is_alike:
            hidden += len(found) - len(shown)
    return parts, hidden


def _row(row: MatrixRow, columns: int) -> dict[str, Any]:
    compile_: CompileAgreement = row.compile
    cells = [(cell_state(group), _cut(cell_text(group, compile_))) for group in row.groups[:columns]]
    return {"compile": compile_, "function": _cut(function_text(compile_)), "cells": cells}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…"


def _ranks(ranks: Sequence[Rank], job: Job) -> Iterator[dict[str, Any]]:
    """A row for each rank, with the shares of the longest time that it compiles and waits."""
    longest = max(((rank.compile_s or 0.0) + (rank.waits_s or 0.0) for rank in job.ranks), default=0.0)
    for rank in ranks:
        times = (rank.compile_s, rank.waits_s)
        widths = [None if time is None or not longest else max(round(100 * time / longest, 2), 0.0) for time in times]
        yield {"rank": rank, "compile_width": widths[0], "wait_width": widths[1]}

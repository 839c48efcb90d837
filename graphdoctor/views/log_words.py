"""What else torch's trace log has, in words: answers of caches, symbolic sizes, exports, and what
isn't shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import get_args

from graphdoctor.facts.base import grouped
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.evidence import (
    AnswerState,
    AskedCache,
    CacheAnswer,
    CollectiveSchedule,
    FakeKernel,
    LogEvidence,
    ShapeEvent,
    ShapeKind,
)
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.job import Job
from graphdoctor.views.parts import Note, Row, Show, Span
from graphdoctor.views.words import base_name, repeated_text
from graphdoctor.wording import counted, times

CACHES: dict[AskedCache, str] = {
    "fx_graph_cache": "Inductor's cache",
    "fx_graph_bundled_cache": "Inductor's part of AOTAutograd's cache",
    "aotautograd_cache": "AOTAutograd's cache",
    "dynamo_cache": "the cache of precompiled programs",
    "precompile_cache": "the cache of precompiled graphs",
}
_SHAPES: dict[ShapeKind, str] = {
    "dynamic": "dynamic size",
    "unbacked": "size that depends on data",
    "specialized": "became a constant",
    "guarded": "condition on sizes",
    "assumed": "assumed condition",
    "data_dependent": "condition that depends on data",
}
_MAX_REASON = 120
_MAX_ASSUMED = 3
_MAX_KINDS = 80
_MOST_LINES = 100
"""Of one kind."""


def log_rows(diagnosis: Diagnosis) -> Iterator[Row]:
    """Show what else is in a log; of our own recordings only on request, as findings have what
    matters.
    """
    evidence = diagnosis.recording.evidence
    show: Show = "always" if diagnosis.recording.is_foreign else "long"
    if evidence.cache_answers:
        compiles = grouped((answer.compile_id, answer) for answer in evidence.cache_answers)
        texts = (
            f"{compile_id or 'outside any compile'}: {caches_text(answers)}"
            for compile_id, answers in compiles.items()
        )
        yield from _listed("caches", caches_text(evidence.cache_answers), texts, show)
    if evidence.shapes:
        yield from _listed("sizes", shapes_text(evidence), map(shape_text, evidence.shapes), show)
    if programs := evidence.exported_programs:
        ranges = (
            ", ".join(f"{name} in {spread}" for name, spread in program.ranges.items())
            for program in programs
        )
        texts = (text or "no dynamic sizes" for text in ranges)
        yield from _listed("exported", counted(len(programs), "program"), texts, show)
    for text in dict.fromkeys(map(kernel_text, evidence.fake_kernels)):
        yield Row("operator", Span(text), show=show)
    if show == "always":
        for shape in [shape for shape in evidence.shapes if shape.kind == "assumed"][:_MAX_ASSUMED]:
            yield Row("assumed", Span(_shape_detail(shape)), show="short")
    if schedules := evidence.collectives:
        total = sum(len(schedule.operations) for schedule in schedules)
        text = f"{counted(total, 'collective')} in {counted(len(schedules), 'graph')}"
        yield from _listed("graphs", text, map(_schedule_text, schedules), show)


def _listed(label: str, text: str, texts: Iterable[str], show: Show) -> Iterator[Row]:
    lines = list(texts)
    yield Row(label, Span(text), show=show)
    yield from (Row("", Span(line), show="long") for line in lines[:_MOST_LINES])
    if (more := len(lines) - _MOST_LINES) > 0:
        yield Row("", f"{more} more: `graphdoctor report --format json` has them", show="long")


def caches_text(answers: Iterable[CacheAnswer]) -> str:
    """Count the answers of each cache on disk, with the commonest reason."""
    pieces = []
    for cache, of_cache in grouped((answer.cache, answer) for answer in answers).items():
        counts = Counter(answer.state for answer in of_cache)
        reasons = Counter(answer.reason for answer in of_cache if answer.reason is not None)
        said = repeated_text(
            (state, counts[state]) for state in get_args(AnswerState) if counts[state]
        )
        why = f" ({_cut(reasons.most_common(1)[0][0])})" if reasons else ""
        pieces.append(f"{CACHES[cache]}: {said}{why}")
    return " · ".join(pieces)


def shapes_text(evidence: LogEvidence) -> str:
    """Count symbolic sizes and conditions."""
    counts = Counter(shape.kind for shape in evidence.shapes)
    more = f", and {evidence.hidden_shapes} more" if evidence.hidden_shapes else ""
    return (
        repeated_text((text, counts[kind]) for kind, text in _SHAPES.items() if counts[kind]) + more
    )


def shape_text(shape: ShapeEvent) -> str:
    """Describe what happened to one symbolic size, and where."""
    compile_ = "" if shape.compile_id is None else f"{shape.compile_id}: "
    return f"{compile_}{_SHAPES[shape.kind]}: {_shape_detail(shape)}"


def _shape_detail(shape: ShapeEvent) -> str:
    name = shape.expression
    if shape.source is not None:
        name = f"{expression(shape.source)} ({shape.expression})"
    value = "" if shape.value is None else f" = {shape.value}"
    spread = "" if shape.range is None else f" in {shape.range}"
    repeated = f", {times(shape.count)}" if shape.count > 1 else ""
    at = "" if shape.file is None else f", {base_name(shape.file)}:{shape.line}"
    return f"{name}{value}{spread}{repeated}{at}"


def kernel_text(kernel: FakeKernel) -> str:
    """Say what is wrong with an operator's fake kernel."""
    if kernel.is_missing:
        return f"{kernel.op} has no fake kernel"
    return f"the fake kernel of {kernel.op} is wrong" + (
        "" if kernel.reason is None else f": {_cut(kernel.reason)}"
    )


def _schedule_text(schedule: CollectiveSchedule) -> str:
    names = ", ".join(name.removeprefix("torch.ops.") for name in schedule.operations)
    return f"{schedule.compile_id or '?'}: {names}"


def unshown_text(diagnosis: Diagnosis) -> Iterator[Note]:
    """Yield the records that a report doesn't show, by kind."""
    counts = {
        record.kind: (record.count,)
        for record in diagnosis.recording.evidence.records
        if not record.is_shown
    }
    yield from _unshown("", counts, is_foreign=diagnosis.recording.is_foreign)


def unshown_in_job(job: Job) -> Iterator[Note]:
    """Yield the records that the report of a job doesn't show: of each kind, how many a rank
    has.
    """
    records = (record for rank in job.ranks for record in rank.records if not record.is_shown)
    counts = grouped((record.kind, record.count) for record in records)
    has_all = {
        kind: (*of_ranks, *([0] if len(of_ranks) < len(job.ranks) else []))
        for kind, of_ranks in counts.items()
    }
    yield from _unshown(
        " of each rank", has_all, is_foreign=any(gap.kind == "foreign_log" for gap in job.gaps)
    )


def _unshown(
    whose: str, counts: Mapping[str, Sequence[int]], *, is_foreign: bool
) -> Iterator[Note]:
    """Yield a note of all kinds, unless a log has more of them than torch writes, each with its
    least and most records.
    """
    ranked = sorted(counts.items(), key=lambda item: (-max(item[1]), item[0]))
    kinds = [
        f"{'–'.join(map(str, dict.fromkeys((min(of_kind), max(of_kind)))))} {_cut(kind)}"
        for kind, of_kind in ranked
    ]
    more = len(kinds) - _MAX_KINDS
    listed = ", ".join(kinds[:_MAX_KINDS]) + (
        f" and {counted(more, 'more kind')}" if more > 0 else ""
    )
    if kinds:
        text = f"Also in the log{whose}: {listed}; tlparse writes them to files."
        yield Note(Span(text), "dim", show="always" if is_foreign else "long")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_REASON else f"{line[: _MAX_REASON - 1]}…"

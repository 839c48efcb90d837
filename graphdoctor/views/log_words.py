"""What else torch's trace log has, in words: answers of caches, symbolic sizes, exports, and what
isn't shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import get_args

from graphdoctor.facts.base import grouped
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.evidence import (
    AskedCache,
    CacheAnswer,
    CacheState,
    FakeKernel,
    LogEvidence,
    RecordCount,
    ShapeKind,
)
from graphdoctor.facts.job import Job
from graphdoctor.views.parts import Note, Row, Show, Span
from graphdoctor.views.words import few_text, repeated_text
from graphdoctor.wording import counted, shortened

CACHES: dict[AskedCache, str] = {
    "fx_graph_cache": "Inductor's cache",
    "aotautograd_cache": "AOTAutograd's cache",
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
_MAX_KINDS = 80


def log_rows(diagnosis: Diagnosis) -> Iterator[Row]:
    """Count what else is in a log, which its JSON has in full; of our own recordings only on
    request, as findings have what matters.
    """
    evidence = diagnosis.recording.evidence
    show: Show = "always" if diagnosis.recording.is_foreign else "long"
    programs, collectives = evidence.exported_programs, evidence.collectives
    texts = {
        "caches": caches_text(evidence.cache_answers),
        "sizes": shapes_text(evidence),
        "exported": counted(programs, "program") if programs else "",
        "operators": ", ".join(dict.fromkeys(map(kernel_text, evidence.fake_kernels))),
        "collectives": counted(collectives, "operation") if collectives else "",
    }
    for label, text in texts.items():
        if text:
            yield Row(label, Span(text), show=show)


def caches_text(answers: Iterable[CacheAnswer]) -> str:
    """Count the answers of each cache on disk, with the commonest reason."""
    pieces = []
    for cache, of_cache in grouped((answer.cache, answer) for answer in answers).items():
        counts = Counter(answer.state for answer in of_cache)
        reasons = Counter(answer.reason for answer in of_cache if answer.reason is not None)
        said = repeated_text(
            (state, counts[state]) for state in get_args(CacheState) if counts[state]
        )
        why = f" ({shortened(reasons.most_common(1)[0][0], _MAX_REASON)})" if reasons else ""
        pieces.append(f"{CACHES[cache]}: {said}{why}")
    return " · ".join(pieces)


def shapes_text(evidence: LogEvidence) -> str:
    """Count symbolic sizes and conditions."""
    counts = Counter(shape.kind for shape in evidence.shapes)
    more = f", and {evidence.hidden_shapes} more" if evidence.hidden_shapes else ""
    return (
        repeated_text((text, counts[kind]) for kind, text in _SHAPES.items() if counts[kind]) + more
    )


def kernel_text(kernel: FakeKernel) -> str:
    """Say what is wrong with an operator's fake kernel."""
    if kernel.is_missing:
        return f"{kernel.op} has no fake kernel"
    return f"the fake kernel of {kernel.op} is wrong" + (
        "" if kernel.reason is None else f": {shortened(kernel.reason, _MAX_REASON)}"
    )


def unshown_text(diagnosis: Diagnosis) -> Iterator[Note]:
    """Yield the records that a report doesn't show, by kind."""
    recording = diagnosis.recording
    yield from _unshown(recording.evidence.records, "", is_foreign=recording.is_foreign)


def unshown_in_job(job: Job) -> Iterator[Note]:
    """Yield the records that the report of a job doesn't show, of all ranks together."""
    is_foreign = any(gap.kind == "foreign_log" for gap in job.gaps)
    records = [record for rank in job.ranks for record in rank.records]
    yield from _unshown(records, " of all ranks", is_foreign=is_foreign)


def _unshown(records: Iterable[RecordCount], whose: str, *, is_foreign: bool) -> Iterator[Note]:
    """Yield a note of all kinds, unless a log has more of them than torch writes."""
    counts: Counter[str] = Counter()
    for record in records:
        counts[record.kind] += 0 if record.is_shown else record.count
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    kinds = [f"{count} {shortened(kind, _MAX_REASON)}" for kind, count in ordered if count]
    if kinds:
        listed = few_text(kinds, _MAX_KINDS)
        text = f"Also in the log{whose}: {listed}; tlparse writes them to files."
        yield Note(Span(text), "dim", show="always" if is_foreign else "long")

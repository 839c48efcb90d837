"""What else torch's trace log has, in words: answers of caches, symbolic sizes, exports, and what isn't shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from graphdoctor.facts.expressions import expression
from graphdoctor.facts.wording import counted, times
from graphdoctor.views.parts import Note, Row, Show, Span
from graphdoctor.views.words import base_name

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.evidence import (
        AskedCache,
        CacheAnswer,
        CollectiveSchedule,
        FakeKernel,
        LogEvidence,
        RuntimeEstimate,
        ShapeEvent,
        ShapeKind,
        TritonKernel,
    )
    from graphdoctor.facts.job import Job

CACHES: dict[AskedCache, str] = {
    "fx_graph_cache": "Inductor's cache",
    "fx_graph_bundled_cache": "Inductor's part of AOTAutograd's cache",
    "aotautograd_cache": "AOTAutograd's cache",
    "dynamo_cache": "the cache of precompiled programs",
    "precompile_cache": "the cache of precompiled graphs",
}
_STATES = {"hit": "hit", "miss": "miss", "bypass": "bypass", "disabled": "disabled", "failed": "failure"}
_PLURALS = {"miss": "misses", "bypass": "bypasses", "disabled": "disabled"}
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
    """What else is in a log; of a recording of ours that is for who asks, as its findings have what matters."""
    evidence = diagnosis.recording.evidence
    show: Show = "always" if diagnosis.recording.is_foreign else "long"
    if evidence.cache_answers:
        yield Row("caches", Span(caches_text(evidence.cache_answers)), show=show)
        yield from _each(answer_texts(evidence.cache_answers))
    if evidence.shapes:
        yield Row("sizes", Span(shapes_text(evidence)), show=show)
        yield from _each(map(shape_text, evidence.shapes))
    if evidence.exported_programs:
        yield Row("exported", counted(len(evidence.exported_programs), "program"), show=show)
        ranges = (program.ranges.items() for program in evidence.exported_programs)
        yield from _each(
            ", ".join(f"{name} in {spread}" for name, spread in each) or "no dynamic sizes" for each in ranges
        )
    for text in dict.fromkeys(kernel_text(found) for found in evidence.fake_kernels):
        yield Row("operator", Span(text), show=show)
    if show == "always":
        for found in [found for found in evidence.shapes if found.kind == "assumed"][:_MAX_ASSUMED]:
            text = shape_text(found).partition("assumed condition: ")[2]
            yield Row("assumed", Span(text), show="short")
    if evidence.triton_kernels:
        yield Row("kernels", Span(triton_total(evidence.triton_kernels)), show=show)
        yield from _each(map(triton_text, evidence.triton_kernels))
    if evidence.collectives or evidence.estimates or evidence.executions:
        yield Row("graphs", " · ".join(_run_texts(evidence)), show=show)
        yield from _each(_by_compile(evidence))


def _each(texts: Iterable[str]) -> Iterator[Row]:
    """Lines of a row; no output shows thousands of them."""
    found = list(texts)
    yield from (Row("", Span(text), show="long") for text in found[:_MOST_LINES])
    if (more := len(found) - _MOST_LINES) > 0:
        yield Row("", f"{more} more: `graphdoctor report --format json` has them", show="long")


def caches_text(answers: Iterable[CacheAnswer]) -> str:
    """How often each cache on disk said what, with the commonest reason."""
    counts: dict[AskedCache, Counter[str]] = {}
    reasons: dict[AskedCache, Counter[str]] = {}
    for found in answers:
        counts.setdefault(found.cache, Counter())[found.state] += 1
        if found.reason is not None:
            reasons.setdefault(found.cache, Counter())[found.reason] += 1
    parts = []
    for cache, states in counts.items():
        said = ", ".join(_state_count(state, states[state]) for state in _STATES if states[state])
        why = f" ({_cut(reasons[cache].most_common(1)[0][0])})" if cache in reasons else ""
        parts.append(f"{CACHES[cache]}: {said}{why}")
    return " · ".join(parts)


def _state_count(state: str, count: int) -> str:
    word = _STATES[state]
    return f"{count} {word if count == 1 else _PLURALS.get(state, word + 's')}"


def answer_texts(answers: Iterable[CacheAnswer]) -> Iterator[str]:
    """What the caches said to each compile."""
    compiles: dict[str | None, list[CacheAnswer]] = {}
    for found in answers:
        compiles.setdefault(found.compile_id, []).append(found)
    for compile_id, of_compile in compiles.items():
        yield f"{compile_id or 'outside any compile'}: {caches_text(of_compile)}"


def shapes_text(evidence: LogEvidence) -> str:
    """How many symbolic sizes and conditions there are."""
    counts = Counter(found.kind for found in evidence.shapes)
    words: dict[ShapeKind, str] = {
        "dynamic": counted(counts["dynamic"], "dynamic size"),
        "unbacked": f"{counts['unbacked']} that depend{'s' * (counts['unbacked'] == 1)} on data",
        "specialized": f"{counts['specialized']} became {'a constant' if counts['specialized'] == 1 else 'constants'}",
        "guarded": f"{counted(counts['guarded'], 'condition')} on sizes",
        "assumed": f"{counted(counts['assumed'], 'condition')} assumed",
        "data_dependent": f"{counted(counts['data_dependent'], 'condition')} that can't be decided",
    }
    parts = [text for kind, text in words.items() if counts[kind]]
    if evidence.hidden_shapes:
        parts.append(f"{evidence.hidden_shapes} more")
    return " · ".join(parts)


def shape_text(found: ShapeEvent) -> str:
    """What happened to one symbolic size, and where."""
    name = found.expression if found.source is None else f"{expression(found.source)} ({found.expression})"
    value = "" if found.value is None else f" = {found.value}"
    spread = "" if found.range is None else f" in {found.range}"
    repeated = f", {times(found.count)}" if found.count > 1 else ""
    at = "" if found.file is None else f", {base_name(found.file)}:{found.line}"
    of = "" if found.compile_id is None else f"{found.compile_id}: "
    return f"{of}{_SHAPES[found.kind]}: {name}{value}{spread}{repeated}{at}"


def kernel_text(found: FakeKernel) -> str:
    """What is wrong with an operator's fake kernel."""
    if found.is_missing:
        return f"{found.op} has no fake kernel"
    return f"the fake kernel of {found.op} is wrong" + ("" if found.reason is None else f": {_cut(found.reason)}")


def _run_texts(evidence: LogEvidence) -> Iterator[str]:
    if evidence.collectives:
        total = sum(len(found.operations) for found in evidence.collectives)
        yield f"{counted(total, 'collective')} in {counted(len(evidence.collectives), 'graph')}"
    if evidence.estimates:
        known = [found.estimated_us for found in evidence.estimates if found.estimated_us is not None]
        yield f"Inductor expects {_us(sum(known))} of kernels" if known else "no estimate of any kernel's time"
    if evidence.executions:
        yield f"{counted(len(evidence.executions), 'run')} of graphs in order"


def _by_compile(evidence: LogEvidence) -> Iterator[str]:
    yield from map(schedule_text, evidence.collectives)
    yield from map(estimate_text, evidence.estimates)
    if evidence.executions:
        yield f"ran in this order: {', '.join(evidence.executions)}"


def triton_total(kernels: Sequence[TritonKernel]) -> str:
    """How many Triton kernels there are, and what compiling them took."""
    known = [found.compile_us for found in kernels if found.compile_us is not None]
    took = f", {sum(known) / 1e6:.2f} s compiling" if len(known) == len(kernels) else ""
    return f"{counted(len(kernels), 'Triton kernel')}{took}"


def triton_text(found: TritonKernel) -> str:
    """One Triton kernel."""
    took = "" if found.compile_us is None else f", {found.compile_us / 1e3:.1f} ms"
    notes = "".join(f", {name} {value}" for name, value in found.notes.items())
    return f"{found.compile_id or '?'}: {found.name}{took}{notes}"


def schedule_text(found: CollectiveSchedule) -> str:
    """The collectives of one graph."""
    return f"{found.compile_id or '?'}: {', '.join(name.removeprefix('torch.ops.') for name in found.operations)}"


def estimate_text(found: RuntimeEstimate) -> str:
    """What Inductor expects one graph to take."""
    operations = counted(found.operations, "operation")
    if found.estimated_us is None:
        return f"{found.compile_id or '?'}: no estimate for {operations}"
    of_these = f", {_us(found.collectives_us)} of them in collectives" if found.collectives else ""
    return f"{found.compile_id or '?'}: {_us(found.estimated_us)} expected for {operations}{of_these}"


def _us(microseconds: float) -> str:
    return f"{microseconds:.3g} µs" if microseconds < 100 else f"{microseconds:,.0f} µs"


def unshown_text(diagnosis: Diagnosis) -> Iterator[Note]:
    """The records that a report doesn't show, by kind."""
    unshown = [found for found in diagnosis.recording.evidence.records if not found.is_shown]
    unshown.sort(key=lambda found: (-found.count, found.kind))
    kinds = [f"{found.count} {_cut(found.kind)}" for found in unshown]
    yield from _unshown("", kinds, is_foreign=diagnosis.recording.is_foreign)


def unshown_in_job(job: Job) -> Iterator[Note]:
    """The records that the report of a job doesn't show: of each kind, how many a rank has."""
    counts: dict[str, list[int]] = {}
    for rank in job.ranks:
        for found in rank.records:
            if not found.is_shown:
                counts.setdefault(found.kind, []).append(found.count)
    spans = []
    for kind, numbers in sorted(counts.items(), key=lambda item: (-max(item[1]), item[0])):
        low = min(numbers) if len(numbers) == len(job.ranks) else 0
        span = f"{max(numbers)}" if low == max(numbers) else f"{low}–{max(numbers)}"
        spans.append(f"{span} {_cut(kind)}")
    is_foreign = any(gap.kind == "foreign_log" for gap in job.gaps)
    yield from _unshown(" of each rank", spans, is_foreign=is_foreign)


def _unshown(whose: str, kinds: Sequence[str], *, is_foreign: bool) -> Iterator[Note]:
    if kinds:
        text = f"Also in the log{whose}: {_kinds(kinds)}; graphdoctor unpack writes them to files."
        yield Note(Span(text), "dim", show="always" if is_foreign else "long")


def _kinds(texts: Sequence[str]) -> str:
    """All of them, unless a log has more than torch writes."""
    more = len(texts) - _MAX_KINDS
    return ", ".join(texts[:_MAX_KINDS]) + (f" and {counted(more, 'more kind')}" if more > 0 else "")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_REASON else f"{line[: _MAX_REASON - 1]}…"

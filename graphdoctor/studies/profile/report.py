"""Makes a report of what a profile recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from graphdoctor.facts.base import values_of
from graphdoctor.facts.bench import CallTimes
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.picture import SourceText
from graphdoctor.facts.profile import Fusion, MemoryUse, ProfiledLine, ProfileReport, SavedTensor
from graphdoctor.facts.profiled import InductorGraph, KeptBy, MeasuredMemory, Profiled
from graphdoctor.facts.recording import Recording
from graphdoctor.studies.profile.lines import (
    module_path,
    module_roots,
    operation_name,
    share_out,
    total,
)
from graphdoctor.studies.profile.regime import judged, regime_of, with_bounds


def profile_report(recording: Recording, diagnosis: Diagnosis, *, version: str) -> ProfileReport:
    """Make the report of a profile."""
    profiled = recording.profiled
    calls = [call.inputs for call in recording.calls if call.inputs]
    report = ProfileReport(
        graphdoctor_version=version,
        **values_of(recording, "environment", "cuda_graphs", "caches"),
        target=diagnosis.recording.target,
        call=calls[-1] if calls else None,
        device=None if profiled is None else profiled.call.device,
        call_us=None if profiled is None else CallTimes.of(profiled.call.times_us),
        compile_s=total([compile_.duration_s for compile_ in recording.compiles]),
        findings=tuple(_within(diagnosis.findings, profiled)),
        gaps=diagnosis.recording.gaps,
    )
    if profiled is None or report.call_us is None:
        return report
    roots = module_roots(recording)
    shared = share_out(profiled, report.call_us.median, roots)
    kernels = judged(shared.kernels, profiled.calibration, profiled.call.device)
    lines = with_bounds(shared.lines, shared.parts, kernels)
    seen = recording.kernels
    is_seen = seen is not None and seen.kernels_us is not None
    kernels_us = sum(kernel.us for kernel in profiled.call.kernels) if is_seen else None
    report = replace(
        report,
        eager_us=None
        if profiled.call.eager is None
        else CallTimes.of(profiled.call.eager.times_us),
        kernels_us=kernels_us,
        kernels=kernels,
        lines=tuple(_with_texts(lines, recording.picture.files if recording.picture else ())),
        **values_of(shared, "modules", "parts", "unattributed_us"),
        rest_us=None if kernels_us is None else max(0.0, report.call_us.median - kernels_us),
        fusion=fusion_of(profiled),
        calibration=profiled.calibration,
        memory=memory_use(
            profiled, recording.memory, roots, has_backward=recording.target.has_backward
        ),
        graph_launches=None if seen is None else seen.graph_launches,
        graph_input_copy_us=None if seen is None else seen.graph_input_copy_us,
    )
    return replace(report, regime=regime_of(report, recording, diagnosis))


def _within(findings: Iterable[Finding], profiled: Profiled | None) -> Iterator[Finding]:
    """The findings, without what one costs where that is more than this call takes: another, slower
    call had it.
    """
    times = None if profiled is None else CallTimes.of(profiled.call.times_us)
    for finding in findings:
        cost = finding.cost
        is_more = times is not None and cost is not None and (cost.call_us or 0.0) > times.median
        shown = (
            cost.replace(call_us=None, call_from=None, share=None)
            if cost is not None and is_more
            else cost
        )
        yield finding.replace(cost=shown)


def _with_texts(
    lines: Iterable[ProfiledLine], files: Iterable[SourceText]
) -> Iterator[ProfiledLine]:
    """Lines with their text as it was while the program ran, where no stack has it."""
    texts = {file.file: file.text.split("\n") for file in files if file.text is not None}
    for line in lines:
        text = texts.get(line.file, [])
        if line.text is None and 0 < line.line <= len(text):
            yield replace(line, text=text[line.line - 1].strip())
        else:
            yield line


def fusion_of(profiled: Profiled) -> Fusion | None:
    """Count what was fused; None if no graph of Inductor's ran."""
    graphs = {(graph.graph, graph.phase): graph for graph in profiled.graphs}
    runs = [
        graphs[run.graph, run.phase]
        for run in profiled.call.runs
        if (run.graph, run.phase) in graphs
    ]
    if not runs:
        return None
    vanished = [operation for graph in runs for operation in _vanished(graph)]
    eager = profiled.call.eager
    return Fusion(
        operations=sum(_before(graph) for graph in runs),
        decomposed=sum(not operation.is_view for graph in runs for operation in graph.operations),
        kernels=sum(len(graph.kernels) for graph in runs),
        vanished=len(vanished),
        vanished_bytes=total([0, *vanished]),
        eager_launches=None if eager is None else eager.launches,
        launches=len(profiled.call.kernels),
    )


def _vanished(graph: InductorGraph) -> list[int | None]:
    computed = {number for kernel in graph.kernels for number in kernel.operations}
    return [
        operation.bytes
        for number, operation in enumerate(graph.operations)
        if number in computed and not operation.is_view and not operation.is_stored
    ]


def _before(graph: InductorGraph) -> int:
    """Operations before decomposition: neighbors of one operation at one line in one module are
    one.
    """
    count = 0
    last: object = None
    for operation in graph.operations:
        if operation.is_view:
            continue
        same = (operation.operation, operation.stack[-1:], operation.module)
        count += operation.operation == operation.target or same != last
        last = same
    return count


_MEASURED = ("peak_bytes", "peak_of", "before_bytes", "eager_saved_bytes")
"""Fields that are known if the call's memory was measured."""


def memory_use(
    profiled: Profiled,
    measured: MeasuredMemory | None,
    roots: Mapping[str, str],
    *,
    has_backward: bool,
) -> MemoryUse | None:
    """Memory of the call; None if neither that nor a graph's part of it is known.

    ``measured``: the memory; None if it wasn't measured.
    ``roots``: what the paths of modules begin with, by compile: see ``module_roots``.
    """
    graphs = profiled.partitioned
    if measured is None and not any(graph.partition for graph in graphs):
        return None
    groups = (_saved(group, roots) for group in profiled.kept_alike)
    saved = tuple(sorted(groups, key=lambda tensor: (tensor.is_argument, -(tensor.bytes or 0))))
    recomputed = _recomputed(graphs)
    saved_bytes = None if measured is None else measured.saved_bytes
    listed = total([0, *(tensor.bytes for tensor in saved if not tensor.is_argument)])
    return MemoryUse(
        saved=saved,
        saved_bytes=saved_bytes,
        recomputed=recomputed,
        recomputed_count=sum(recomputed.values()),
        unlisted_bytes=None
        if saved_bytes is None or listed is None
        else max(0, saved_bytes - listed),
        has_backward=has_backward,
        **{name: getattr(measured, name, None) for name in _MEASURED},
    )


def _saved(group: Sequence[KeptBy], roots: Mapping[str, str]) -> SavedTensor:
    (_, first) = group[0]
    ids = {graph.compile_id for graph, _ in group}
    modules = {
        module_path(tensor.module, roots.get(graph.compile_id or "", "")) for graph, tensor in group
    }
    entry = first.stack[-1] if first.stack else None
    return SavedTensor(
        **values_of(first, "name", "is_argument", "tensor", "is_cheap"),
        operation=None if first.operation is None else operation_name(first.operation),
        bytes=total([tensor.bytes for _, tensor in group]),
        file=None if entry is None else entry.file,
        line=None if entry is None else entry.line,
        compile_id=ids.pop() if len(ids) == 1 else None,
        count=len(group),
        module=None if first.is_argument else _common(modules),
    )


def _recomputed(graphs: Iterable[InductorGraph]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for graph in graphs:
        for operation, count in (graph.partition.recomputed if graph.partition else {}).items():
            counts[operation_name(operation)] += count
    return dict(counts.most_common())


def _common(paths: set[str | None]) -> str | None:
    """One path for all, with ``*`` in the place of numbers that differ; None if they differ
    otherwise.
    """
    split_paths = [path.split(".") for path in paths if path is not None]
    if len(split_paths) != len(paths) or len(set(map(len, split_paths))) != 1:
        return None
    parts = [set(names) for names in zip(*split_paths, strict=True)]
    if any(len(names) > 1 and not all(name.isdigit() for name in names) for names in parts):
        return None
    return ".".join(names.pop() if len(names) == 1 else "*" for names in parts)

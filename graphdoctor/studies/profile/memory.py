"""Says what memory a call takes: what is kept for its backward pass by which lines, what is computed again, the peak.

Comes in: the graphs for which code was generated, their runs, and the memory that was measured. Goes out:
``MemoryUse``. What several runs of graphs keep at one line, of one size, is one tensor with a count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from graphdoctor.facts.profile import MemoryUse, SavedTensor
from graphdoctor.facts.profiled import InductorGraph, KeptBy, MeasuredMemory, Profiled
from graphdoctor.studies.profile.lines import module_path, operation_name


def memory_use(
    profiled: Profiled, measured: MeasuredMemory | None, roots: Mapping[str, str], *, has_backward: bool
) -> MemoryUse | None:
    """Memory of the call; None if neither that nor a graph's part of it is known.

    Args:
        profiled: What was recorded.
        measured: The memory; None if it wasn't measured.
        roots: What the paths of modules begin with, by compile: see ``module_roots``.
        has_backward: The call runs its backward pass.
    """
    graphs = profiled.partitioned
    if measured is None and not any(graph.partition for graph in graphs):
        return None
    groups = (_saved(group, roots) for group in profiled.kept_alike)
    saved = tuple(sorted(groups, key=lambda tensor: (tensor.is_argument, -(tensor.bytes or 0))))
    recomputed = _recomputed(graphs)
    saved_bytes = None if measured is None else measured.saved_bytes
    sizes = [tensor.bytes for tensor in saved if not tensor.is_argument]
    listed = [size for size in sizes if size is not None]
    is_complete = saved_bytes is not None and len(listed) == len(sizes)
    return MemoryUse(
        saved=saved,
        saved_bytes=saved_bytes,
        recomputed=recomputed,
        recomputed_count=sum(recomputed.values()),
        peak_bytes=None if measured is None else measured.peak_bytes,
        peak_of=None if measured is None else measured.peak_of,
        before_bytes=None if measured is None else measured.before_bytes,
        unlisted_bytes=max(0, saved_bytes - sum(listed)) if is_complete and saved_bytes is not None else None,
        eager_saved_bytes=None if measured is None else measured.eager_saved_bytes,
        has_backward=has_backward,
    )


def _saved(group: Sequence[KeptBy], roots: Mapping[str, str]) -> SavedTensor:
    (_, first) = group[0]
    ids = {graph.compile_id for graph, _ in group}
    modules = {module_path(tensor.module, roots.get(graph.compile_id or "", "")) for graph, tensor in group}
    sizes = [tensor.bytes for _, tensor in group if tensor.bytes is not None]
    entry = first.stack[-1] if first.stack else None
    return SavedTensor(
        name=first.name,
        operation=None if first.operation is None else operation_name(first.operation),
        bytes=sum(sizes) if len(sizes) == len(group) else None,
        is_argument=first.is_argument,
        file=None if entry is None else entry.file,
        line=None if entry is None else entry.line,
        compile_id=ids.pop() if len(ids) == 1 else None,
        tensor=first.tensor,
        count=len(group),
        module=None if first.is_argument else _common(modules),
        is_cheap=first.is_cheap,
    )


def _recomputed(graphs: Iterable[InductorGraph]) -> dict[str, int]:
    """Operations that backward graphs compute again, the most frequent first."""
    counts: Counter[str] = Counter()
    for graph in graphs:
        for operation, count in (graph.partition.recomputed if graph.partition else {}).items():
            counts[operation_name(operation)] += count
    return dict(counts.most_common())


def _common(paths: set[str | None]) -> str | None:
    """One path for all, with ``*`` in the place of numbers that differ; None if they differ otherwise."""
    known = [path.split(".") for path in paths if path is not None]
    if len(known) != len(paths) or len({len(path) for path in known}) != 1:
        return None
    parts = [set(names) for names in zip(*known, strict=True)]
    if any(len(names) > 1 and not all(name.isdigit() for name in names) for names in parts):
        return None
    return ".".join(names.pop() if len(names) == 1 else "*" for names in parts)

"""Makes a report of what a profile recorded."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from graphdoctor.facts.base import grouped, values_of
from graphdoctor.facts.bench import CallTimes
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.kernels import CodeLine, ProfilePhase
from graphdoctor.facts.profile import (
    Fusion,
    MemoryUse,
    ProfiledKernel,
    ProfiledKind,
    ProfiledLine,
    ProfiledModule,
    ProfileReport,
    SavedTensor,
    TimePart,
)
from graphdoctor.facts.profiled import (
    InductorGraph,
    InductorKernel,
    InductorOperation,
    KeptBy,
    MatchedRun,
    MeasuredMemory,
    Profiled,
)
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.kernels import parts
from graphdoctor.studies.profile.regime import judged, regime_of, with_bounds


def profile_report(recording: Recording, diagnosis: Diagnosis, *, version: str) -> ProfileReport:
    """Make the report of a profile."""
    profiled, seen, findings = recording.profiled, recording.kernels, diagnosis.findings
    calls = [call.inputs for call in recording.calls if call.inputs]
    call_us = None if profiled is None else CallTimes.of(profiled.call.times_us)
    if call_us is not None:
        # What one costs isn't this call's where that is more: another, slower call had it.
        findings = tuple(
            finding.replace(cost=finding.cost.replace(call_us=None, call_from=None, share=None))
            if finding.cost is not None and (finding.cost.call_us or 0.0) > call_us.median
            else finding
            for finding in findings
        )
    report = ProfileReport(
        graphdoctor_version=version,
        **values_of(recording, "environment", "cuda_graphs", "caches"),
        target=diagnosis.recording.target,
        call=calls[-1] if calls else None,
        compiled_for=_compiled_for(recording),
        device=None if profiled is None else profiled.call.device,
        call_us=call_us,
        compile_s=total([compile_.duration_s for compile_ in recording.compiles]),
        findings=findings,
        gaps=diagnosis.recording.gaps,
    )
    if profiled is None or call_us is None:
        return report
    roots, eager = module_roots(recording), profiled.call.eager
    shared = share_out(profiled, call_us.median, roots)
    kernels = judged(shared.kernels, profiled.calibration, profiled.call.device)
    lines = []
    files = recording.picture.files if recording.picture else ()
    texts = {file.file: file.text.split("\n") for file in files if file.text is not None}
    for line in with_bounds(shared.lines, shared.parts, kernels):
        # As it was while the program ran, where no stack has it.
        text = texts.get(line.file, [])
        has_text = line.text is not None or not 0 < line.line <= len(text)
        lines.append(line if has_text else replace(line, text=text[line.line - 1].strip()))
    is_seen = seen is not None and seen.kernels_us is not None
    kernels_us = sum(kernel.us for kernel in profiled.call.kernels) if is_seen else None
    report = replace(
        report,
        eager_us=None if eager is None else CallTimes.of(eager.times_us),
        kernels_us=kernels_us,
        kernels=kernels,
        lines=tuple(lines),
        **values_of(shared, "modules", "parts", "unattributed_us"),
        rest_us=None if kernels_us is None else max(0.0, call_us.median - kernels_us),
        fusion=fusion_of(profiled),
        calibration=profiled.calibration,
        memory=memory_use(
            profiled, recording.memory, roots, has_backward=recording.target.has_backward
        ),
        graph_launches=None if seen is None else seen.graph_launches,
        graph_input_copy_us=None if seen is None else seen.graph_input_copy_us,
    )
    if report.compiled_for is not None and report.memory is not None:
        # What was measured isn't of the sizes of what is listed.
        report = replace(report, memory=replace(report.memory, unlisted_bytes=None))
    return replace(report, regime=regime_of(report, recording, diagnosis))


def _compiled_for(recording: Recording) -> str | None:
    """Return the call that the code of the last call was compiled for; None if that was the
    same.
    """
    profiled = recording.profiled
    ids = {graph.compile_id for graph in profiled.partitioned} if profiled is not None else set()
    calls = {call.index: call.inputs for call in recording.calls}
    numbers = (compile_.call_index for compile_ in recording.compiles if compile_.compile_id in ids)
    made_for = (calls[number] for number in numbers if number in calls)
    last = recording.calls[-1].inputs if recording.calls else None
    return next((inputs for inputs in made_for if inputs and last not in (None, inputs)), None)


_OF_PASS = "", (), None


def fusion_of(profiled: Profiled) -> Fusion | None:
    """Count what was fused; None if no graph of Inductor's ran."""
    graphs = {(graph.graph, graph.phase): graph for graph in profiled.graphs}
    keys = [(run.graph, run.phase) for run in profiled.call.runs]
    runs = [graphs[key] for key in keys if key in graphs]
    if not runs:
        return None
    before, vanished = 0, list[int | None]()
    for graph in runs:
        computed = {number for kernel in graph.kernels for number in kernel.operations}
        last: object = None
        has_stacks = any(operation.stack for operation in graph.operations)
        for number, operation in enumerate(graph.operations):
            if operation.is_view:
                continue
            # What one of Inductor's passes put in the place of an operation has no stack, such as a
            # softmax of a quotient (``torch/_inductor/fx_passes/joint_graph.py``, 2.13).
            is_of_pass = has_stacks and not operation.stack and operation.module is None
            # Before decomposition, neighbors of one operation at one line in one module are one.
            same = (operation.operation, operation.stack[-1:], operation.module)
            same = _OF_PASS if is_of_pass else same
            is_own = operation.operation == operation.target and not is_of_pass
            before += is_own or same != last
            last = same
            if number in computed and not (operation.is_stored or is_of_pass):
                vanished.append(operation.bytes)
    eager = profiled.call.eager
    return Fusion(
        operations=before,
        decomposed=sum(not operation.is_view for graph in runs for operation in graph.operations),
        kernels=sum(len(graph.kernels) for graph in runs),
        vanished=len(vanished),
        vanished_bytes=total([0, *vanished]),
        eager_launches=None if eager is None else eager.launches,
        launches=len(profiled.call.kernels),
    )


_MEASURED = ("peak_bytes", "peak_of", "before_bytes", "eager_saved_bytes")
"""Fields that are known if the call's memory was measured."""


def memory_use(
    profiled: Profiled,
    measured: MeasuredMemory | None,
    roots: Mapping[str, str],
    *,
    has_backward: bool,
) -> MemoryUse | None:
    """Return the memory of the call; None if neither that nor a graph's part of it is known.

    ``measured``: the memory; None if it wasn't measured.
    ``roots``: what the paths of modules begin with, by compile: see ``module_roots``.
    """
    graphs = profiled.partitioned
    if measured is None and not any(graph.partition for graph in graphs):
        return None
    groups = (_saved(group, roots) for group in profiled.kept_alike)
    saved = tuple(sorted(groups, key=lambda tensor: (tensor.is_argument, -(tensor.bytes or 0))))
    recomputed: Counter[str] = Counter()
    for graph in graphs:
        for operation, count in (graph.partition.recomputed if graph.partition else {}).items():
            recomputed[operation_name(operation)] += count
    saved_bytes = None if measured is None else measured.saved_bytes
    listed = total([0, *(tensor.bytes for tensor in saved if not tensor.is_argument)])
    return MemoryUse(
        saved=saved,
        saved_bytes=saved_bytes,
        recomputed=dict(recomputed.most_common()),
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


def _common(paths: set[str | None]) -> str | None:
    """Return one path for all, with ``*`` in the place of numbers that differ; None if they differ
    otherwise.
    """
    split_paths = [path.split(".") for path in paths if path is not None]
    if len(split_paths) != len(paths) or len(set(map(len, split_paths))) != 1:
        return None
    parts = [set(names) for names in zip(*split_paths, strict=True)]
    if any(len(names) > 1 and not all(name.isdigit() for name in names) for names in parts):
        return None
    return ".".join(names.pop() if len(names) == 1 else "*" for names in parts)


# Lines and modules.


_Number = TypeVar("_Number", int, float, Counter[str])

_OVERLOAD = re.compile(r"\.[A-Za-z_]\w*$")
_SELF = re.compile(r"^self\.?")

_Place = tuple[tuple[StackEntry, ...], str | None]
"""A stack and the innermost module."""


@dataclass(frozen=True)
class KernelRuns:
    """All runs of one kernel that compute the same operations; ``graph``: None outside of
    generated code.
    """

    matched: list[MatchedRun]
    name: str
    graph: InductorGraph | None
    operations: tuple[InductorOperation, ...]

    @property
    def us(self) -> float:
        """Microseconds of all runs."""
        return sum(matched.us for matched in self.matched)


@dataclass(frozen=True)
class Shared:
    """The kernels' time, shared among lines and modules.

    Args:
        kernels: The most costly first.
        lines: The most costly first.
        modules: In the order of their paths.
    """

    kernels: tuple[ProfiledKernel, ...]
    parts: tuple[TimePart, ...]
    lines: tuple[ProfiledLine, ...]
    modules: tuple[ProfiledModule, ...]
    unattributed_us: float


def share_out(profiled: Profiled, call_us: float, roots: Mapping[str, str]) -> Shared:
    """Share the time of all kernels among the lines of the program.

    ``roots``: what the paths of modules begin with, by compile: see ``module_roots``.
    """
    kernels: list[ProfiledKernel] = []
    shared: list[TimePart] = []
    unattributed_us = 0.0
    for number, runs in enumerate(kernel_runs(profiled)):
        root = roots.get((runs.graph and runs.graph.compile_id) or "", "")
        places: dict[_Place, float] = defaultdict(float)
        for operation, part in parts(runs.operations):
            places[operation.stack, module_path(operation.module, root)] += part
        shared += (
            TimePart(kernel=number, us=runs.us * part, stack=stack, module=module)
            for (stack, module), part in places.items()
        )
        kernels.append(_kernel(profiled, runs, places, call_us))
        unattributed_us += 0.0 if places else runs.us
    return Shared(
        kernels=tuple(kernels),
        parts=tuple(shared),
        lines=tuple(_lines(shared, kernels, call_us)),
        modules=tuple(_modules(shared, kernels)),
        unattributed_us=unattributed_us,
    )


def kernel_runs(profiled: Profiled) -> list[KernelRuns]:
    """Return the runs of each kernel of a call, the most costly kernel first."""
    groups: dict[object, KernelRuns] = {}
    for matched in profiled.matched:
        run, code = profiled.call.kernels[matched.run], profiled.code_of(matched)
        key: object = (run.name, run.kind, run.phase, run.operation)
        runs = KernelRuns([], run.name, None, ())
        if code is not None:
            graph, kernel = code
            name = run.name if run.kind == "generated" or run.operation is None else kernel.name
            operations = tuple(graph.operations[number] for number in kernel.operations)
            same = frozenset(
                (operation.operation, operation.target, operation.stack[-1:], operation.module)
                for operation in operations
            )
            key = (name, graph.graph, graph.phase, same)
            runs = KernelRuns([], name, graph, operations)
        groups.setdefault(key, runs).matched.append(matched)
    return sorted(groups.values(), key=lambda runs: -runs.us)


def _kernel(
    profiled: Profiled, runs: KernelRuns, places: Mapping[_Place, float], call_us: float
) -> ProfiledKernel:
    first = profiled.call.kernels[runs.matched[0].run]
    # One call in the code can run several kernels.
    codes: dict[object, InductorKernel] = {}
    for matched in runs.matched:
        if (code := profiled.code_of(matched)) is not None:
            codes.setdefault((profiled.call.kernels[matched.run].run, matched.kernel), code[1])
    kernel = next(iter(codes.values()), None)
    kind: ProfiledKind = first.kind if kernel is None else kernel.kind
    # The profiler knows what only copies or communicates.
    kinds = {profiled.call.kernels[matched.run].kind for matched in runs.matched}
    if kinds in ({"copy"}, {"communication"}):
        kind = first.kind
    operations = [operation.operation for operation in runs.operations]
    if not operations and kernel is None and first.operation:
        operations = [first.operation]
    lines: dict[CodeLine, float] = defaultdict(float)
    for (stack, _), part in places.items():
        lines[CodeLine(file=stack[-1].file, line=stack[-1].line)] += part
    counts = [code.elementwise for code in codes.values()]
    elementwise = [None if count is None else Counter(count) for count in counts]
    return ProfiledKernel(
        name=runs.name,
        kind=kind,
        phase=first.phase if runs.graph is None else runs.graph.phase,
        operations=tuple(dict.fromkeys(map(operation_name, operations))),
        operation_count=len(runs.operations),
        lines=tuple(sorted(lines, key=lambda line: -lines[line])),
        calls=len({matched.run for matched in runs.matched}),
        time_us=runs.us,
        share=runs.us / call_us,
        bytes=total([code.bytes for code in codes.values()]),
        argument_bytes=total([code.argument_bytes for code in codes.values()]),
        flops=total([code.flops for code in codes.values()]),
        elementwise=total(elementwise),
        dtype=None if kernel is None else kernel.dtype,
        compile_id=None if runs.graph is None else runs.graph.compile_id,
        graph=None if runs.graph is None else runs.graph.graph,
    )


def module_roots(recording: Recording) -> dict[str, str]:
    """Return the class of the module whose ``forward`` a compile is of, where that isn't the target
    itself.

    After a graph break torch compiles what the target calls on its own, and names modules from
    there. A function that a decorator puts around a ``forward`` is no module.
    """
    target = (recording.target.class_name or "").rpartition(".")[2]
    files = recording.picture.files if recording.picture is not None else ()
    texts, roots = {file.file: file.text or "" for file in files}, {}
    for compile_id, frame in recording.frames_by_compile().items():
        owner = (frame.qualname or "").rpartition(".")[0].rpartition(".")[2]
        if owner in ("", "<locals>", target):
            continue
        pattern = rf"^[ \t]*(?:async[ \t]+)?(def|class)[ \t]+{re.escape(owner)}\b"
        definitions = re.findall(pattern, texts.get(frame.file, ""), re.MULTILINE)
        if "def" not in definitions or "class" in definitions:
            roots[compile_id] = owner
    return roots


def total(values: Sequence[_Number | None]) -> _Number | None:
    """Add values up; None if there are no values, or one is unknown."""
    numbers = [value for value in values if value is not None]
    return sum(numbers[1:], numbers[0]) if numbers and len(numbers) == len(values) else None


def operation_name(operation: str) -> str:
    """Return an operation without its overload, such as ``aten.gelu``."""
    return _OVERLOAD.sub("", operation) if operation.count(".") > 1 else operation


def module_path(path: str | None, root: str = "") -> str | None:
    """Return a module's path in the target, such as ``layers.0``, empty for the target itself; None
    if it isn't known.

    ``path``: as torch has it, such as ``L['self'].layers.0``.
    """
    name = "" if path is None else _SELF.sub("", expression(path))
    return ".".join(part for part in (root, name) if part) if path is not None or root else None


def _lines(
    parts: Sequence[TimePart], kernels: Sequence[ProfiledKernel], call_us: float
) -> list[ProfiledLine]:
    lines = []
    for (file, number), line_parts in grouped((part.place, part) for part in parts).items():
        times: dict[int, float] = defaultdict(float)
        phases: dict[ProfilePhase, float] = defaultdict(float)
        for part in line_parts:
            times[part.kernel] += part.us
            phases[kernels[part.kernel].phase] += part.us
        lines.append(
            ProfiledLine(
                file=file,
                line=number,
                text=next(
                    (part.stack[-1].text for part in line_parts if part.stack[-1].text), None
                ),
                forward_us=phases["forward"],
                backward_us=phases["backward"],
                share=sum(times.values()) / call_us,
                kernels=tuple(sorted(times, key=lambda kernel: -times[kernel])),
            )
        )
    return sorted(lines, key=lambda line: -line.share)


def _modules(
    parts: Iterable[TimePart], kernels: Sequence[ProfiledKernel]
) -> Iterator[ProfiledModule]:
    times: dict[tuple[str, ...], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for part in parts:
        names = tuple(name for name in (part.module or "").split(".") if name)
        for depth in range(len(names) + 1):
            times[names[:depth]][kernels[part.kernel].phase] += part.us

    def order(names: tuple[str, ...]) -> list[tuple[int, str]]:
        # ``layers.2`` comes before ``layers.10``.
        return [(int(name), "") if name.isdigit() else (-1, name) for name in names]

    for names in sorted(times, key=order):
        phases = times[names]
        yield ProfiledModule(
            path=".".join(names), forward_us=phases["forward"], backward_us=phases["backward"]
        )

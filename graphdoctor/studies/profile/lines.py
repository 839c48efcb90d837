"""Shares the time of kernels among lines and modules of the program.

Comes in: runs of kernels with the operations that each computes. Goes out: kernels, and which line
of which module has which part of them. A kernel's time is shared among its operations that are
known to come from a line, in proportion to the elements that each works on: of the largest tensor
that it takes or makes. A kernel without any belongs to no line.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from graphdoctor.facts.base import grouped
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.kernels import CodeLine, ProfilePhase
from graphdoctor.facts.profile import (
    ProfiledKernel,
    ProfiledKind,
    ProfiledLine,
    ProfiledModule,
    TimePart,
)
from graphdoctor.facts.profiled import (
    InductorGraph,
    InductorKernel,
    InductorOperation,
    KernelRun,
    MatchedRun,
    Profiled,
)
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.kernels import parts

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
    """The runs of each kernel of a call, the most costly kernel first."""
    groups: dict[object, KernelRuns] = {}
    for matched in profiled.matched:
        run, code = profiled.call.kernels[matched.run], profiled.code_of(matched)
        key: object = (run.name, run.kind, run.phase, run.operation)
        graph, operations = None, tuple[InductorOperation, ...]()
        if code is not None:
            graph, kernel = code
            operations = tuple(graph.operations[number] for number in kernel.operations)
            same = frozenset(
                (operation.operation, operation.target, operation.stack[-1:], operation.module)
                for operation in operations
            )
            key = (_name(run, kernel), graph.graph, graph.phase, same)
        groups.setdefault(key, KernelRuns([], graph, operations)).matched.append(matched)
    return sorted(groups.values(), key=lambda runs: -runs.us)


def _name(run: KernelRun, kernel: InductorKernel) -> str:
    return run.name if run.kind == "generated" or run.operation is None else kernel.name


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
        name=first.name if kernel is None else _name(first, kernel),
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
    """The class of the module whose ``forward`` a compile is of, where that isn't the target
    itself.

    After a graph break torch compiles what the target calls on its own, and names modules from
    there. A function that a decorator puts around a ``forward`` is no module.
    """
    target = (recording.target.class_name or "").rpartition(".")[2]
    texts = (
        {file.file: file.text for file in recording.picture.files}
        if recording.picture is not None
        else {}
    )
    roots = {}
    for compile_id, frame in recording.frames_by_compile().items():
        owner = (frame.qualname or "").rpartition(".")[0].rpartition(".")[2]
        if owner not in ("", "<locals>", target) and not _is_function(owner, texts.get(frame.file)):
            roots[compile_id] = owner
    return roots


def _is_function(name: str, text: str | None) -> bool:
    """Return whether a file defines a function with a name, and no class."""
    definitions = re.findall(
        rf"^[ \t]*(?:async[ \t]+)?(def|class)[ \t]+{re.escape(name)}\b", text or "", re.MULTILINE
    )
    return "def" in definitions and "class" not in definitions


def total(values: Sequence[_Number | None]) -> _Number | None:
    """The sum; None if there are no values, or one is unknown."""
    numbers = [value for value in values if value is not None]
    return sum(numbers[1:], numbers[0]) if numbers and len(numbers) == len(values) else None


def operation_name(operation: str) -> str:
    """An operation without its overload, such as ``aten.gelu``."""
    return _OVERLOAD.sub("", operation) if operation.count(".") > 1 else operation


def module_path(path: str | None, root: str = "") -> str | None:
    """A module's path in the target, such as ``layers.0``, empty for the target itself; None if it
    isn't known.

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
    times: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for part in parts:
        names = [name for name in (part.module or "").split(".") if name]
        for depth in range(len(names) + 1):
            times[".".join(names[:depth])][kernels[part.kernel].phase] += part.us
    for path in sorted(times, key=_order):
        yield ProfiledModule(
            path=path, forward_us=times[path]["forward"], backward_us=times[path]["backward"]
        )


def _order(path: str) -> list[tuple[int, str]]:
    """Sort key: ``layers.2`` comes before ``layers.10``."""
    return [(int(name), "") if name.isdigit() else (-1, name) for name in path.split(".")]

"""Shares the time of kernels among lines and modules of the program.

Comes in: runs of kernels with the operations that each computes. Goes out: kernels, and which line
of which module has which part of them. A kernel's time is shared among its operations that are
known to come from a line, in proportion to the elements that each works on: of the largest tensor
that it takes or makes. A kernel without any belongs to no line.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from graphdoctor.facts.base import grouped, values_of
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.kernels import CodeLine, ProfilePhase
from graphdoctor.facts.profile import (
    ProfiledKernel,
    ProfiledKind,
    ProfiledLine,
    ProfiledModule,
    TimePart,
)
from graphdoctor.facts.profiled import InductorGraph, InductorOperation, Profiled
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.diagnosis.kernel_times import parts

_Number = TypeVar("_Number", int, float, Counter[str])

_OVERLOAD = re.compile(r"\.[A-Za-z_]\w*$")
_SELF = re.compile(r"^self\.?")

_Place = tuple[tuple[StackEntry, ...], str | None]
"""A stack and the innermost module."""


@dataclass
class KernelGroup:
    """All runs of one kernel that compute the same operations; ``runs`` are their indices in the
    profiled call.
    """

    name: str
    kind: ProfiledKind
    phase: ProfilePhase
    graph: InductorGraph | None = None
    operations: tuple[InductorOperation, ...] = ()
    launched_by: str | None = None
    us: float = 0.0
    runs: set[int] = field(default_factory=set)
    calls: set[tuple[int | None, int | None]] = field(default_factory=set)
    bytes: list[int | None] = field(default_factory=list)
    argument_bytes: list[int | None] = field(default_factory=list)
    flops: list[int | None] = field(default_factory=list)
    elementwise: list[Counter[str] | None] = field(default_factory=list)
    dtype: str | None = None
    ran: set[ProfiledKind] = field(default_factory=set)
    """What the profiler takes its runs for."""


@dataclass(frozen=True)
class Shared:
    """Where the kernels' time goes.

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
    found: list[tuple[KernelGroup, dict[_Place, float]]] = []
    for kernel in kernel_groups(profiled):
        compile_id = "" if kernel.graph is None else kernel.graph.compile_id or ""
        found.append((kernel, _places(kernel.operations, roots.get(compile_id, ""))))
    shared = tuple(
        TimePart(kernel=number, us=kernel.us * part, stack=stack, module=module)
        for number, (kernel, own) in enumerate(found)
        for (stack, module), part in own.items()
    )
    kernels = tuple(_profiled(kernel, own, call_us) for kernel, own in found)
    return Shared(
        kernels=kernels,
        parts=shared,
        lines=tuple(_lines(shared, kernels, call_us)),
        modules=tuple(_modules(shared, kernels)),
        unattributed_us=sum(kernel.us for kernel, own in found if not own),
    )


def kernel_groups(profiled: Profiled) -> list[KernelGroup]:
    """The kernels of a call, the most costly first."""
    grouped: dict[object, KernelGroup] = {}
    for matched in profiled.matched:
        run = profiled.call.kernels[matched.run]
        code = profiled.code_of(matched)
        if code is None:
            key: object = (run.name, run.kind, run.phase, run.operation)
            kind: ProfiledKind = run.kind
            made = KernelGroup(run.name, kind, run.phase, launched_by=run.operation)
        else:
            graph, kernel = code
            operations = tuple(graph.operations[number] for number in kernel.operations)
            name = run.name if run.kind == "generated" or run.operation is None else kernel.name
            same = tuple(
                (each.operation, each.target, each.stack[-1:], each.module) for each in operations
            )
            kind = kernel.kind
            key = (name, graph.graph, graph.phase, frozenset(same))
            made = KernelGroup(name, kind, graph.phase, graph, operations, dtype=kernel.dtype)
        group = grouped.setdefault(key, made)
        group.us += matched.us
        group.ran.add(run.kind)
        # One call in the code can run several kernels.
        if code is not None and (run.run, matched.kernel) not in group.calls:
            group.calls.add((run.run, matched.kernel))
            group.bytes.append(code[1].bytes)
            group.argument_bytes.append(code[1].argument_bytes)
            group.flops.append(code[1].flops)
            own = code[1].elementwise
            group.elementwise.append(None if own is None else Counter(own))
        group.runs.add(matched.run)
    for group in grouped.values():
        if group.ran in ({"copy"}, {"communication"}):
            (group.kind,) = group.ran
    return sorted(grouped.values(), key=lambda kernel: -kernel.us)


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
    """Whether a file defines a function with a name, and no class."""
    found = re.findall(
        rf"^[ \t]*(?:async[ \t]+)?(def|class)[ \t]+{re.escape(name)}\b", text or "", re.MULTILINE
    )
    return "def" in found and "class" not in found


def _places(operations: Sequence[InductorOperation], root: str) -> dict[_Place, float]:
    found: dict[_Place, float] = defaultdict(float)
    for operation, part in parts(operations):
        found[operation.stack, module_path(operation.module, root)] += part
    return found


def _profiled(kernel: KernelGroup, places: dict[_Place, float], call_us: float) -> ProfiledKernel:
    lines: dict[CodeLine, float] = defaultdict(float)
    for (stack, _), part in places.items():
        lines[CodeLine(file=stack[-1].file, line=stack[-1].line)] += part
    named = [each.operation for each in kernel.operations] or (
        [kernel.launched_by] if kernel.launched_by else []
    )
    return ProfiledKernel(
        **values_of(kernel, "name", "kind", "phase", "dtype"),
        operations=tuple(dict.fromkeys(map(operation_name, named))),
        operation_count=len(kernel.operations),
        lines=tuple(sorted(lines, key=lambda line: -lines[line])),
        calls=len(kernel.runs),
        time_us=kernel.us,
        share=kernel.us / call_us,
        bytes=total(kernel.bytes),
        argument_bytes=total(kernel.argument_bytes),
        flops=total(kernel.flops),
        elementwise=total(kernel.elementwise),
        compile_id=None if kernel.graph is None else kernel.graph.compile_id,
        graph=None if kernel.graph is None else kernel.graph.graph,
    )


def total(values: Sequence[_Number | None]) -> _Number | None:
    """The sum; None if there are no values, or one is unknown."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(values) else None


def operation_name(operation: str) -> str:
    """An operation without its overload, such as ``aten.gelu``."""
    return _OVERLOAD.sub("", operation) if operation.count(".") > 1 else operation


def module_path(path: str | None, root: str = "") -> str | None:
    """A module's path in the target, such as ``layers.0``, empty for the target itself; None if it
    isn't known.

    ``path``: as torch has it, such as ``L['self'].layers.0``.
    """
    own = "" if path is None else _SELF.sub("", expression(path))
    return ".".join(part for part in (root, own) if part) if path is not None or root else None


def _lines(
    parts: Sequence[TimePart], kernels: Sequence[ProfiledKernel], call_us: float
) -> Iterable[ProfiledLine]:
    by_line = grouped((part.place, part) for part in parts)
    found = []
    for (file, line), own in by_line.items():
        times: dict[int, float] = defaultdict(float)
        for part in own:
            times[part.kernel] += part.us
        phases = {
            phase: sum(us for each, us in times.items() if kernels[each].phase == phase)
            for phase in _PHASES
        }
        found.append(
            ProfiledLine(
                file=file,
                line=line,
                text=next((part.stack[-1].text for part in own if part.stack[-1].text), None),
                forward_us=phases["forward"],
                backward_us=phases["backward"],
                share=sum(phases.values()) / call_us,
                kernels=tuple(sorted(times, key=lambda each: -times[each])),
            )
        )
    return sorted(found, key=lambda line: -line.share)


_PHASES: tuple[ProfilePhase, ...] = ("forward", "backward")


def _modules(
    parts: Iterable[TimePart], kernels: Sequence[ProfiledKernel]
) -> Iterable[ProfiledModule]:
    times: dict[str, dict[ProfilePhase, float]] = defaultdict(lambda: dict.fromkeys(_PHASES, 0.0))
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

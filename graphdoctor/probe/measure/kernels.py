"""Where the time of a steady call goes, kernel by kernel, from the events of torch.profiler.

On a GPU a kernel is what runs on the device. On a CPU it is the outermost operation that computes
something itself: ``aten::linear`` only calls ``aten::addmm``, and what that calls is part of it;
Inductor's in C++ show themselves after ``show_generated_kernels``. Time that two kernels share, on
two streams or threads, counts once, for the one that began first; so kernels and the rest add up to
the call.
"""

from __future__ import annotations

import itertools
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import torch

from ...facts.kernels import MOST_KERNELS, CodeLine, KernelKind, KernelShare, KernelTime
from ...facts.profiled import InductorRun, KernelRun
from ..torch_private import torch_api
from ..torch_private.torch_codegen import RUN_RANGE
from ..torch_private.torch_kernels import (
    COPIES,
    GRAPH_INPUT_COPY,
    GRAPH_LAUNCHES,
    LINE_RANGE,
    LineRanges,
    ProfiledEvent,
    is_communication,
    is_generated,
    operator_role,
    profile_activities,
    profiled_events,
)
from .timing import preemptions, time_calls

CALL_RANGE = "graphdoctor_kernels"
"""Profiler range of one call."""

EMPTY_RANGE = "graphdoctor_empty_call"
"""Profiler range of a call that does nothing: the profiler's own time, and ours."""

_MIN_CALLS, _MAX_CALLS = 3, 20
_MAX_EVENTS = 50_000
_BUDGET_S = 1.0
_PROFILED_S = 2 * _BUDGET_S
_MAX_UNPROFILED = 50
_DEVICE_S, _MAX_IN_A_ROW = 0.1, 5
_SLOWED = 2.0
"""A profiler makes calls of many short operations about that much longer."""

_DISTURBED, _PROFILER_US = 5.0, 200.0
_CALLING_NS = 20_000
"""An operation that only calls others takes a few microseconds for each, under the profiler."""

_MEMORY_COPY = "Memcpy"
_ANONYMOUS = "(anonymous namespace)"
_AUTOGRAD = "autograd::engine::"
_OPERATION = re.compile(r"(?!autograd::|torch::autograd::)\w+::\w")
_DRIVER = re.compile(r"(cuda|cu|hip)[A-Z]")
"""Calls of the CUDA runtime and driver, as Kineto names them, such as ``cudaLaunchKernel``."""

_WAIT = re.compile(r"(cuda|cu|hip)[A-Z]\w*Synchronize$")
"""Of these, those that return when the device is done."""


@dataclass(eq=False)
class _Node:
    event: ProfiledEvent
    parent: _Node | None = None
    children: list[_Node] = field(default_factory=list)

    def outwards(self) -> Iterator[_Node]:
        node: _Node | None = self
        while node is not None:
            yield node
            node = node.parent


class Kernel(NamedTuple):
    """One run of a kernel; ``node`` is the event on the host that it is, or that launched it, if
    there is one.
    """

    name: str
    kind: KernelKind
    start_ns: int
    end_ns: int
    is_graph_input: bool = False
    node: _Node | None = None

    def operations(self) -> list[str]:
        """Torch's that it is, or that launched it, innermost first."""
        around = () if self.node is None else self.node.outwards()
        return [node.event.name for node in around if _OPERATION.match(node.event.name)]

    def line(self) -> CodeLine | None:
        """The line of the program, by its operation's range; None without one."""
        if self.node is None:
            return None
        # What ran first shows itself around the range, with one of the mode's between the two.
        inside = [node for child in self.node.children for node in (child, *child.children)]
        around = [*inside, *self.node.outwards()]
        named = (node.event.name for node in around if node.event.name.startswith(LINE_RANGE))
        number, _, file = next(named, "").removeprefix(LINE_RANGE).partition(" ")
        return CodeLine(file=file, line=int(number)) if file else None


_Runs = tuple[list[InductorRun], list[KernelRun]]
_Run = TypeVar("_Run", InductorRun, KernelRun)


@dataclass(frozen=True)
class SeenCall:
    """One call under the profiler; ``was_held_up``: the system took a processor from the process
    meanwhile.
    """

    whole: ProfiledEvent
    nodes: Sequence[_Node]
    kernels: Sequence[Kernel]
    empty_ns: int
    is_on_device: bool
    was_held_up: bool = False

    @property
    def us(self) -> float:
        """How long it took."""
        return self.whole.duration_ns / 1e3

    @property
    def launches(self) -> int | None:
        """How many kernels ran; None if the profiler can't see them: where it sees none at all on a
        device.
        """
        return len(self.kernels) if self.kernels or not self.is_on_device else None

    @property
    def graph_launches(self) -> int:
        """How often it launched a CUDA graph."""
        return sum(node.event.name.startswith(GRAPH_LAUNCHES) for node in self.nodes)

    def share(self) -> KernelShare:
        """Where its time goes, added up."""
        by_name: dict[tuple[str, KernelKind], list[float]] = defaultdict(list)
        launched_by: dict[str, list[list[str]]] = defaultdict(list)
        copied_us = 0.0
        for kernel, counted_ns in self._counted_once():
            by_name[short_name(kernel.name), kernel.kind].append(counted_ns / 1e3)
            if kernel.kind == "library":
                launched_by[short_name(kernel.name)].append(kernel.operations())
            copied_us += counted_ns / 1e3 if kernel.is_graph_input else 0.0

        def us(kind: KernelKind) -> float | None:
            return (
                None
                if self.launches is None
                else sum(sum(each) for key, each in by_name.items() if key[1] == kind)
            )

        def launching(name: str) -> dict[str, Any]:
            known = [operations for operations in launched_by[name] if operations]
            innermost = {operations[0] for operations in known} if self.is_on_device else ()
            outermost = {operations[-1] for operations in known}
            return {"operations": tuple(sorted(innermost)), "within": tuple(sorted(outermost))}

        largest = sorted(by_name.items(), key=lambda item: -sum(item[1]))[:MOST_KERNELS]
        inside = [node.event for node in self.nodes]
        regions = [(event.start_ns, event.end_ns) for event in inside if _is_region(event.name)]
        # A wait for the device is as long as its kernels are.
        others = (
            _waits(inside)
            if self.is_on_device
            else [(kernel.start_ns, kernel.end_ns) for kernel in self.kernels]
        )
        covered_ns = _covered_ns([*regions, *others])
        return KernelShare(
            device="cuda" if self.is_on_device else "cpu",
            call_us=self.us,
            library_us=us("library"),
            generated_us=us("generated"),
            copy_us=us("copy"),
            communication_us=us("communication"),
            graph_input_copy_us=copied_us
            if self.is_on_device and self.launches is not None
            else None,
            launches=self.launches,
            graph_launches=self.graph_launches,
            region_runs=sum(
                _is_region(event.name) and event.name != torch_api.CACHE_LOOKUP for event in inside
            ),
            region_us=(covered_ns - _covered_ns(others)) / 1e3,
            outside_us=max(0, self.whole.duration_ns - covered_ns - self.empty_ns) / 1e3,
            largest=tuple(
                KernelTime(name=name, kind=kind, us=sum(each), count=len(each), **launching(name))
                for (name, kind), each in largest
            ),
        )

    def runs(self) -> _Runs:
        """Each run of a graph of Inductor's, and each run of a kernel with the graph's run that it
        belongs to.
        """
        marked = [node for node in self.nodes if node.event.name.startswith(RUN_RANGE)]
        records = []
        for node in marked:
            graph, phase = node.event.name.removeprefix(RUN_RANGE).split(" ")
            records.append(
                InductorRun(graph=int(graph), phase=phase, us=node.event.duration_ns / 1e3)
            )  # type: ignore[arg-type]
        index = {node: number for number, node in enumerate(marked)}
        return records, [
            _run(kernel, counted_ns, index, records) for kernel, counted_ns in self._counted_once()
        ]

    def _counted_once(self) -> Iterator[tuple[Kernel, int]]:
        """Each kernel with the time that no earlier one has, up to the end of the call."""
        last = 0
        for kernel in sorted(self.kernels, key=lambda kernel: (kernel.start_ns, kernel.end_ns)):
            end = min(kernel.end_ns, self.whole.end_ns)
            yield kernel, max(0, end - max(kernel.start_ns, last))
            last = max(last, end)


def _run(
    kernel: Kernel, counted_ns: int, index: dict[_Node, int], runs: Sequence[InductorRun]
) -> KernelRun:
    around = [] if kernel.node is None else list(kernel.node.outwards())
    run = next((index[node] for node in around if node in index), None)
    is_backward = any(node.event.name.startswith(_AUTOGRAD) for node in around)
    inside = itertools.takewhile(lambda node: node not in index, around)
    operations = [node.event for node in inside if _OPERATION.match(node.event.name)]
    launched_by = operations[-1] if operations and kernel.kind != "generated" else None
    return KernelRun(
        name=short_name(kernel.name),
        kind=kernel.kind,
        us=counted_ns / 1e3,
        phase=runs[run].phase if run is not None else "backward" if is_backward else "forward",
        operation=None if launched_by is None else launched_by.name,
        launch=None if launched_by is None else launched_by.number,
        run=run,
    )


@dataclass(frozen=True)
class MeasuredKernels:
    """A steady call, with the profiler and without; ``one_by_one``: without CUDA graphs, None if it
    wasn't made.
    """

    calls: Sequence[SeenCall]
    times_us: Sequence[float]
    one_by_one: SeenCall | None = None

    @property
    def best(self) -> SeenCall:
        """The shortest of the profiled calls, which the machine disturbed least."""
        return min(self.calls, key=attrgetter("us"))

    def runs(self) -> _Runs:
        """Runs of graphs and of kernels; each one's time is the median over the calls that ran the
        same ones.

        Without calls in which the system took a processor from the process, if enough others
        remain.
        """
        runs, kernels = self.best.runs()
        own = [call for call in self.calls if not call.was_held_up]
        all_runs = [call.runs() for call in (own if len(own) >= _MIN_CALLS else self.calls)]
        same = [found for found in all_runs if _names(found) == _names((runs, kernels))] or [
            (runs, kernels)
        ]
        runs, kernels = (
            _median(runs, [each for each, _ in same]),
            _median(kernels, [each for _, each in same]),
        )
        return runs, kernels if self.one_by_one is None else _with_operations(
            kernels, self.one_by_one.runs()[1]
        )

    def share(self) -> KernelShare:
        """Where the call's time goes, added up."""
        return self.best.share().replace(unprofiled_us=min(self.times_us))


def _median(first: list[_Run], same: Sequence[list[_Run]]) -> list[_Run]:
    times = (statistics.median(each.us for each in alike) for alike in zip(*same, strict=True))
    return [run.replace(us=us) for run, us in zip(first, times, strict=True)]


def _with_operations(
    kernels: Sequence[KernelRun], one_by_one: Sequence[KernelRun]
) -> list[KernelRun]:
    """The kernels that CUDA graphs launched with their operations, where a run of a graph has the
    same kernels.
    """
    found = list(kernels)
    for run in {kernel.run for kernel in kernels} - {None}:
        own = [
            at
            for at, each in enumerate(kernels)
            if each.run == run and each.operation != GRAPH_INPUT_COPY
        ]
        known = [kernel for kernel in one_by_one if kernel.run == run]
        if [kernels[at].name for at in own] == [kernel.name for kernel in known]:
            for at, same in zip(own, known, strict=True):
                found[at] = same.replace(us=kernels[at].us, run=run, phase=kernels[at].phase)
    return found


def _names(found: _Runs) -> list[object]:
    runs, kernels = found
    return [*((run.graph, run.phase) for run in runs), *((each.name, each.run) for each in kernels)]


def is_disturbed(measured: KernelShare) -> bool:
    """Other work on the machine made each profiled call longer than a profiler does."""
    return measured.call_us > _DISTURBED * (measured.unprofiled_us or 0.0) + _PROFILER_US


Around = Callable[[], AbstractContextManager[object]]
"""Entered for calls under the profiler, and for no others."""


@dataclass(frozen=True)
class Repeated:
    """A call that can be made again and again, and compiles nothing; ``restore`` puts back its
    arguments.
    """

    make: Callable[[], object]
    restore: Callable[[], None] = lambda: None

    def __call__(self) -> None:
        """Make it, and leave its arguments as they were."""
        self.make()
        self.restore()


def measure_kernels(call: Repeated, around: Around = nullcontext) -> MeasuredKernels | None:
    """Time a call's kernels; None if this torch doesn't tell the profiler's events."""
    times = time_calls(
        call.make, seconds=_BUDGET_S, most=_MAX_UNPROFILED, restore=call.restore, is_own_only=True
    )
    least = min(times)
    calls, event_count = _profiled(call, 1, around)
    if not event_count:
        return None
    # The first call under a profiler is slower: its buffers are new.
    count = min(_MAX_CALLS, _MAX_EVENTS // event_count, max(_MIN_CALLS, int(_BUDGET_S / least)))
    if count:
        calls, _ = _profiled(call, count, around)
    ends = time.perf_counter() + _BUDGET_S
    while (
        count
        and min(call.us for call in calls) > _SLOWED * least * 1e6
        and time.perf_counter() < ends
    ):
        calls += _profiled(call, count, around)[0]
    return MeasuredKernels(calls, [each * 1e6 for each in times])


def device_us(
    make: Callable[[], object], restore: Callable[[], None] | None, seconds: float
) -> float | None:
    """The part of a call in a row in which a GPU works, in microseconds; None if the profiler sees
    none.

    ``restore``: puts back what a call changed in its arguments; then each is profiled by itself.
    ``seconds``: of one.
    """
    most = max(1, min(_MAX_IN_A_ROW, int(_DEVICE_S / max(seconds, 1e-9)))) if restore is None else 1
    found = 0.0
    # A profiler's first calls start CUPTI, and some of their kernels may be missing.
    for number in (1, most):
        torch_api.synchronize()
        made, ends = 0, time.perf_counter() + _DEVICE_S
        try:
            with torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CUDA]
            ) as profiler:
                while not made or (made < number and time.perf_counter() < ends):
                    make()
                    made += 1
                torch_api.synchronize()
        except RuntimeError:  # the program profiles itself, and only one profiler can run
            return None
        if restore is not None:
            restore()
        own = [
            event
            for event in profiled_events(profiler)
            if event.is_on_device and not event.is_range
        ]
        found = _covered_ns((event.start_ns, event.end_ns) for event in own) / 1e3 / made
    return found or None


def with_lines(share: KernelShare, call: Repeated, is_own: Callable[[str], bool]) -> KernelShare:
    """The kernels of a call in eager mode with the lines that compute them, where torch tells
    them.
    """
    found: dict[str, dict[CodeLine, None]] = defaultdict(dict)
    seen = seen_call(call, partial(LineRanges, is_own))
    for kernel in () if seen is None else seen.kernels:
        if (line := kernel.line()) is not None:
            found[short_name(kernel.name)][line] = None
    return share.replace(
        largest=tuple(each.replace(lines=tuple(found[each.name])) for each in share.largest)
    )


def seen_call(call: Repeated, around: Around) -> SeenCall | None:
    """A call under the profiler, once it is warm; None if this torch doesn't tell the profiler's
    events.
    """
    return next(reversed(_profiled(call, _MIN_CALLS, around)[0]), None)


def _profiled(call: Repeated, count: int, around: Around) -> tuple[list[SeenCall], int]:
    """Calls under the profiler, and how many events there are in all; none where torch doesn't tell
    them.

    Fewer where other work on the machine makes them long.
    """
    held_up: list[bool] = []
    ends = time.perf_counter() + _PROFILED_S
    with around(), torch.profiler.profile(activities=profile_activities()) as profiler:
        while len(held_up) < min(count, _MIN_CALLS) or (
            len(held_up) < count and time.perf_counter() < ends
        ):
            torch_api.synchronize()
            with torch.profiler.record_function(EMPTY_RANGE):
                torch_api.synchronize()
            before = preemptions()
            with torch.profiler.record_function(CALL_RANGE):
                call.make()
                torch_api.synchronize()
            held_up.append(preemptions() != before)
            call.restore()
    events = profiled_events(profiler)
    return list(calls_in(events, has_device=torch_api.uses_cuda(), held_up=held_up)), len(events)


def calls_in(
    events: Sequence[ProfiledEvent], *, has_device: bool, held_up: Sequence[bool] = ()
) -> Iterator[SeenCall]:
    """Each call in a profile, which is under ``CALL_RANGE``."""
    nodes = _nodes(event for event in events if not event.is_on_device)
    if has_device:
        # The driver's calls and torch's operations are numbered apart.
        driver = {node.event.number: node for node in nodes if _DRIVER.match(node.event.name)}
        operations = {
            node.event.number: node for node in nodes if not _DRIVER.match(node.event.name)
        }
        kernels = [
            _device_kernel(event, operations.get(event.launched_by), driver.get(event.number))
            for event in events
            if event.is_on_device and not event.is_range
        ]
    else:
        kernels = [
            kernel for node in nodes if node.parent is None for kernel in _host_kernels(node)
        ]
    empty = [node for node in nodes if node.event.name == EMPTY_RANGE]
    waited = (_covered_ns(_waits(child.event for child in node.children)) for node in empty)
    empty_ns = min(
        (node.event.duration_ns - wait for node, wait in zip(empty, waited, strict=True)), default=0
    )
    wholes = sorted(
        (node.event for node in nodes if node.event.name == CALL_RANGE),
        key=lambda event: event.start_ns,
    )
    for number, whole in enumerate(wholes):
        inside = [node for node in nodes if whole.start_ns <= node.event.start_ns < whole.end_ns]
        own = [kernel for kernel in kernels if whole.start_ns <= kernel.start_ns < whole.end_ns]
        yield SeenCall(
            whole, inside, own, empty_ns, has_device, number < len(held_up) and held_up[number]
        )


def short_name(name: str) -> str:
    """A kernel's name without return type, template arguments and parameters."""
    if name.startswith(_MEMORY_COPY):
        return name
    bare = name.removeprefix("void ").replace(_ANONYMOUS, _ANONYMOUS.strip("()"))
    end = min((bare.index(mark) for mark in "<(" if mark in bare), default=len(bare))
    return bare[:end].replace(_ANONYMOUS.strip("()"), _ANONYMOUS) or name


def _is_region(name: str) -> bool:
    return name.startswith(torch_api.REGION_PREFIX) or name in (
        torch_api.CACHE_LOOKUP,
        torch_api.COMPILED_BACKWARD,
    )


def _nodes(events: Iterable[ProfiledEvent]) -> list[_Node]:
    around: dict[int, list[_Node]] = defaultdict(list)
    made: list[_Node] = []
    known = list(events)
    threads = {
        thread: number
        for number, thread in enumerate(dict.fromkeys(event.thread for event in known))
    }
    for event in sorted(
        known, key=lambda event: (threads[event.thread], event.start_ns, -event.duration_ns)
    ):
        outer = around[event.thread]
        while outer and outer[-1].event.end_ns < event.end_ns:
            outer.pop()
        node = _Node(event, outer[-1] if outer else None)
        if node.parent is not None:
            node.parent.children.append(node)
        outer.append(node)
        made.append(node)
    return made


def _host_kernels(node: _Node) -> list[Kernel]:
    event = node.event
    role = "kernel" if is_generated(event.name) else operator_role(event.name)
    within: list[Kernel] = []
    if role not in ("kernel", "copy"):
        within = [kernel for child in node.children for kernel in _host_kernels(child)]
        # It computes by means that are no operations, such as oneDNN's convolutions, if most of its
        # time is in nothing that it calls, and more than it takes to call.
        own_ns = event.duration_ns - sum(child.event.duration_ns for child in node.children)
        if role != "calls" or (within and own_ns <= max(_CALLING_NS, event.duration_ns / 2)):
            return within
    kind: KernelKind = (
        "generated" if is_generated(event.name) else "copy" if role == "copy" else "library"
    )
    if role == "kernel" and kind == "library" and is_communication(event.name):
        kind = "communication"
    return [Kernel(event.name, kind, event.start_ns, event.end_ns, node=node)]


def _device_kernel(
    event: ProfiledEvent, operation: _Node | None, driver_call: _Node | None
) -> Kernel:
    around = [] if operation is None else [node.event.name for node in operation.outwards()]
    is_copy = event.name.startswith(_MEMORY_COPY) or (bool(around) and around[0] in COPIES)
    kind: KernelKind = "copy" if is_copy else "generated" if is_generated(event.name) else "library"
    if any(map(is_communication, (event.name, *around))):
        # With a single rank, NCCL only copies.
        kind = "communication"
    is_graph_input = is_copy and GRAPH_INPUT_COPY in around
    return Kernel(
        event.name, kind, event.start_ns, event.end_ns, is_graph_input, driver_call or operation
    )


def _waits(events: Iterable[ProfiledEvent]) -> list[tuple[int, int]]:
    return [(event.start_ns, event.end_ns) for event in events if _WAIT.match(event.name)]


def _covered_ns(spans: Iterable[tuple[int, int]]) -> int:
    covered = last = 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, last))
        last = max(last, end)
    return covered

"""Where the time of a steady call goes, kernel by kernel, from the events of torch.profiler.

On a GPU a kernel is what runs on the device. On a CPU it is the outermost operation that computes
something itself: ``aten::linear`` only calls ``aten::addmm``, and what that calls is part of it;
Inductor's in C++ show themselves after ``show_generated_kernels``. Time that two kernels share, on
two streams or threads, counts once, for the one that began first; so kernels and the rest add up to
the call.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import takewhile
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple, TypeVar

from torch.profiler import ProfilerActivity, profile, record_function

from ...facts.kernels import MOST_KERNELS, KernelKind, KernelShare, KernelTime, ProfilePhase
from ...facts.profiled import InductorRun, KernelRun
from ..torch_private.torch_api import (
    CACHE_LOOKUP,
    COMPILED_BACKWARD,
    REGION_PREFIX,
    synchronize,
    uses_cuda,
)
from ..torch_private.torch_codegen import RUN_RANGE
from ..torch_private.torch_kernels import (
    COPIES,
    GRAPH_INPUT_COPY,
    GRAPH_LAUNCHES,
    ProfiledEvent,
    is_communication,
    is_generated,
    operator_role,
    profile_activities,
    profiled_events,
)
from .timing import Make, Restore, preemptions, time_calls

CALL_RANGE = "graphdoctor_kernels"
"""Profiler range of one call."""

EMPTY_RANGE = "graphdoctor_empty_call"
"""Profiler range of a call that does nothing: the profiler's own time, and ours."""

_MIN_CALLS = 3
_MAX_CALLS = 20
_MAX_EVENTS = 50_000
_BUDGET_S = 1.0
_PROFILED_S = 2 * _BUDGET_S
_MAX_UNPROFILED = 50
_DEVICE_S = 0.1
_MAX_IN_A_ROW = 5
_SLOWED = 2.0
"""A profiler makes calls of many short operations about that much longer."""

_DISTURBED = 5.0
_PROFILER_US = 200.0
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

_Spans = Iterable[tuple[int, int]]


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

    def around(self) -> list[_Node]:
        """Return the node and those around it, innermost first."""
        return [] if self.node is None else list(self.node.outwards())

    def operations(self, index: Container[_Node] = ()) -> list[ProfiledEvent]:
        """Return the operations around it, innermost first, within a run of a graph in
        ``index``.
        """
        nodes = takewhile(lambda node: node not in index, self.around())
        return [node.event for node in nodes if _OPERATION.match(node.event.name)]


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
        """Return its duration in microseconds."""
        return self.whole.duration_ns / 1e3

    @property
    def launches(self) -> int | None:
        """Count its kernels; None if the profiler sees none at all on a device."""
        return len(self.kernels) if self.kernels or not self.is_on_device else None

    @property
    def graph_launches(self) -> int:
        """Count its launches of CUDA graphs."""
        return sum(node.event.name.startswith(GRAPH_LAUNCHES) for node in self.nodes)

    def share(self) -> KernelShare:
        """Add up where its time goes."""
        groups = defaultdict(list)
        kind_us: dict[KernelKind, float] = defaultdict(float)
        copied_us = 0.0
        for kernel, counted_ns in self._counted_once():
            us = counted_ns / 1e3
            groups[short_name(kernel.name), kernel.kind].append((kernel, us))
            kind_us[kernel.kind] += us
            copied_us += us if kernel.is_graph_input else 0.0
        largest = []
        for (name, kind), runs in groups.items():
            launched_by = {
                operations[0].name
                for kernel, _ in runs
                if kind == "library" and self.is_on_device and (operations := kernel.operations())
            }
            largest.append(
                KernelTime(
                    name=name,
                    kind=kind,
                    us=sum(us for _, us in runs),
                    count=len(runs),
                    operations=tuple(sorted(launched_by)),
                )
            )
        largest.sort(key=lambda kernel: -kernel.us)
        inside = [node.event for node in self.nodes]
        names = (CACHE_LOOKUP, COMPILED_BACKWARD)
        regions = [it for it in inside if it.name.startswith(REGION_PREFIX) or it.name in names]
        # A wait for the device is as long as its kernels are.
        others = [(kernel.start_ns, kernel.end_ns) for kernel in self.kernels]
        if self.is_on_device:
            others = _waits(inside)
        covered_ns = _covered_ns([*_spans(regions), *others])
        # What runs eagerly at a graph break is the program's, though Dynamo's code calls it.
        broken_ns = _covered_ns([*_breaks(self.nodes), *others]) - _covered_ns(others)
        is_seen = self.launches is not None
        kinds: tuple[KernelKind, ...] = ("library", "generated", "copy", "communication")
        return KernelShare(
            device="cuda" if self.is_on_device else "cpu",
            call_us=self.us,
            **{f"{kind}_us": kind_us[kind] if is_seen else None for kind in kinds},
            graph_input_copy_us=copied_us if self.is_on_device and is_seen else None,
            launches=self.launches,
            graph_launches=self.graph_launches,
            region_runs=sum(event.name != CACHE_LOOKUP for event in regions),
            region_us=(covered_ns - _covered_ns(others) - broken_ns) / 1e3,
            outside_us=(max(0, self.whole.duration_ns - covered_ns - self.empty_ns) + broken_ns)
            / 1e3,
            largest=tuple(largest[:MOST_KERNELS]),
        )

    def runs(self) -> _Runs:
        """List each run of a graph of Inductor's, and each run of a kernel with the graph's run
        that it belongs to.
        """
        runs: list[InductorRun] = []
        index: dict[_Node, int] = {}
        for node in self.nodes:
            if node.event.name.startswith(RUN_RANGE):
                graph, name = node.event.name.removeprefix(RUN_RANGE).split(" ")
                phase: ProfilePhase = "backward" if name == "backward" else "forward"
                index[node] = len(runs)
                us = node.event.duration_ns / 1e3
                runs.append(InductorRun(graph=int(graph), phase=phase, us=us))
        kernels = []
        for kernel, counted_ns in self._counted_once():
            around = kernel.around()
            run = next((index[node] for node in around if node in index), None)
            is_backward = any(node.event.name.startswith(_AUTOGRAD) for node in around)
            phase = "backward" if is_backward else "forward"
            operations = [] if kernel.kind == "generated" else kernel.operations(index)
            launched_by = operations[-1] if operations else None
            kernels.append(
                KernelRun(
                    name=short_name(kernel.name),
                    kind=kernel.kind,
                    us=counted_ns / 1e3,
                    phase=phase if run is None else runs[run].phase,
                    operation=None if launched_by is None else launched_by.name,
                    launch=None if launched_by is None else launched_by.number,
                    run=run,
                )
            )
        return runs, kernels

    def _counted_once(self) -> Iterator[tuple[Kernel, int]]:
        """Each kernel with the time that no earlier one has, up to the end of the call."""
        last = 0
        for kernel in sorted(self.kernels, key=attrgetter("start_ns", "end_ns")):
            end = min(kernel.end_ns, self.whole.end_ns)
            yield kernel, max(0, end - max(kernel.start_ns, last))
            last = max(last, end)


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
        """List runs of graphs and of kernels; each one's time is the median over the calls that ran
        the same ones.

        Without calls in which the system took a processor from the process, if enough others
        remain.
        """
        first = self.best.runs()
        undisturbed = [call for call in self.calls if not call.was_held_up]
        calls = undisturbed if len(undisturbed) >= _MIN_CALLS else self.calls
        same = [runs for runs in (call.runs() for call in calls) if _names(runs) == _names(first)]
        same = same or [first]
        runs = _median(first[0], [graphs for graphs, _ in same])
        kernels = _median(first[1], [of_call for _, of_call in same])
        if self.one_by_one is not None:
            kernels = _with_operations(kernels, self.one_by_one.runs()[1])
        return runs, kernels

    def share(self) -> KernelShare:
        """Add up where the call's time goes."""
        return self.best.share().replace(unprofiled_us=min(self.times_us))


def _median(first: list[_Run], same: Sequence[list[_Run]]) -> list[_Run]:
    times = (statistics.median(run.us for run in alike) for alike in zip(*same, strict=True))
    return [run.replace(us=us) for run, us in zip(first, times, strict=True)]


def _with_operations(
    kernels: Sequence[KernelRun], one_by_one: Sequence[KernelRun]
) -> list[KernelRun]:
    """Return the kernels that CUDA graphs launched with their operations, where a run of a graph
    has the same kernels.
    """
    named = list(kernels)
    for run in {kernel.run for kernel in kernels} - {None}:
        of_run = [
            at
            for at, kernel in enumerate(kernels)
            if kernel.run == run and kernel.operation != GRAPH_INPUT_COPY
        ]
        others = [kernel for kernel in one_by_one if kernel.run == run]
        if [kernels[at].name for at in of_run] == [kernel.name for kernel in others]:
            for at, other in zip(of_run, others, strict=True):
                named[at] = other.replace(us=kernels[at].us, run=run, phase=kernels[at].phase)
    return named


def _names(of_call: _Runs) -> list[object]:
    runs, kernels = of_call
    return [*((run.graph, run.phase) for run in runs), *((it.name, it.run) for it in kernels)]


def is_disturbed(measured: KernelShare) -> bool:
    """Return whether other work made each profiled call longer than a profiler does."""
    return measured.call_us > _DISTURBED * (measured.unprofiled_us or 0.0) + _PROFILER_US


Around = Callable[[], AbstractContextManager[object]]
"""Entered for calls under the profiler, and for no others."""


@dataclass(frozen=True)
class Repeated:
    """A call that can be made again and again, and compiles nothing; ``restore`` puts back its
    arguments.
    """

    make: Make
    restore: Restore = lambda: None

    def __call__(self) -> None:
        """Make it, and leave its arguments as they were."""
        self.make()
        self.restore()


def measure_kernels(call: Repeated, around: Around = nullcontext) -> MeasuredKernels:
    """Time a call's kernels."""
    times = time_calls(
        call.make, seconds=_BUDGET_S, most=_MAX_UNPROFILED, restore=call.restore, is_own_only=True
    )
    least = min(times)
    calls, event_count = _profiled(call, 1, around)
    # The first call under a profiler is slower: its buffers are new.
    count = min(_MAX_CALLS, _MAX_EVENTS // event_count, max(_MIN_CALLS, int(_BUDGET_S / least)))
    if count:
        calls, _ = _profiled(call, count, around)
    ends = perf_counter() + _BUDGET_S
    slow_us = _SLOWED * least * 1e6
    while count and min(call.us for call in calls) > slow_us and perf_counter() < ends:
        calls += _profiled(call, count, around)[0]
    return MeasuredKernels(calls, [seconds * 1e6 for seconds in times])


def device_us(make: Make, restore: Restore | None, seconds: float) -> float | None:
    """Measure the part of a call in a row in which a GPU works, in microseconds; None if the
    profiler sees none.

    With ``restore``, each is profiled by itself. ``seconds``: of one.
    """
    most = max(1, min(_MAX_IN_A_ROW, int(_DEVICE_S / max(seconds, 1e-9)))) if restore is None else 1
    us = 0.0
    # A profiler's first calls start CUPTI, and some of their kernels may be missing.
    for number in (1, most):
        synchronize()
        made = 0
        ends = perf_counter() + _DEVICE_S
        try:
            with profile(activities=[ProfilerActivity.CUDA]) as profiler:
                while not made or (made < number and perf_counter() < ends):
                    make()
                    made += 1
                synchronize()
        except RuntimeError:  # the program profiles itself, and only one profiler can run
            return None
        if restore is not None:
            restore()
        us = _covered_ns(_spans(_on_device(profiled_events(profiler)))) / 1e3 / made
    return us or None


def seen_call(call: Repeated, around: Around) -> SeenCall:
    """Profile a call, once it is warm."""
    return _profiled(call, _MIN_CALLS, around)[0][-1]


def _profiled(call: Repeated, count: int, around: Around) -> tuple[list[SeenCall], int]:
    """Calls under the profiler, and how many events there are in all.

    Fewer calls where other work on the machine makes them long.
    """
    held_up: list[bool] = []
    ends = perf_counter() + _PROFILED_S
    with around(), profile(activities=profile_activities()) as profiler:
        while len(held_up) < min(count, _MIN_CALLS) or (
            len(held_up) < count and perf_counter() < ends
        ):
            synchronize()
            with record_function(EMPTY_RANGE):
                synchronize()
            before = preemptions()
            with record_function(CALL_RANGE):
                call.make()
                synchronize()
            held_up.append(preemptions() != before)
            call.restore()
    events = profiled_events(profiler)
    return list(calls_in(events, has_device=uses_cuda(), held_up=held_up)), len(events)


def calls_in(
    events: Sequence[ProfiledEvent], *, has_device: bool, held_up: Sequence[bool] = ()
) -> Iterator[SeenCall]:
    """Yield each call in a profile, which is under ``CALL_RANGE``."""
    nodes = _nodes([event for event in events if not event.is_on_device])
    if has_device:
        # The driver's calls and torch's operations are numbered apart.
        driver: dict[int, _Node] = {}
        operations: dict[int, _Node] = {}
        for node in nodes:
            is_driver = _DRIVER.match(node.event.name)
            (driver if is_driver else operations)[node.event.number] = node
        kernels = [
            _device_kernel(event, operations.get(event.launched_by), driver.get(event.number))
            for event in _on_device(events)
        ]
    else:
        outermost = (node for node in nodes if node.parent is None)
        kernels = [kernel for node in outermost for kernel in _host_kernels(node)]
    empty_ns = min(
        (
            node.event.duration_ns - _covered_ns(_waits(child.event for child in node.children))
            for node in nodes
            if node.event.name == EMPTY_RANGE
        ),
        default=0,
    )
    wholes = [node.event for node in nodes if node.event.name == CALL_RANGE]
    for number, whole in enumerate(sorted(wholes, key=attrgetter("start_ns"))):
        start = whole.start_ns
        end = whole.end_ns
        inside = [node for node in nodes if start <= node.event.start_ns < end]
        of_call = [kernel for kernel in kernels if start <= kernel.start_ns < end]
        was_held_up = number < len(held_up) and held_up[number]
        yield SeenCall(whole, inside, of_call, empty_ns, has_device, was_held_up)


def short_name(name: str) -> str:
    """Return a kernel's name without return type, template arguments and parameters."""
    if name.startswith(_MEMORY_COPY):
        return name
    inner = _ANONYMOUS.strip("()")
    bare = name.removeprefix("void ").replace(_ANONYMOUS, inner)
    end = min((bare.index(mark) for mark in "<(" if mark in bare), default=len(bare))
    return bare[:end].replace(inner, _ANONYMOUS) or name


def _on_device(events: Iterable[ProfiledEvent]) -> list[ProfiledEvent]:
    return [event for event in events if event.is_on_device and not event.is_range]


def _nodes(events: Sequence[ProfiledEvent]) -> list[_Node]:
    around: dict[int, list[_Node]] = defaultdict(list)
    nodes = []
    threads = list(dict.fromkeys(event.thread for event in events))
    place = {thread: number for number, thread in enumerate(threads)}
    for event in sorted(events, key=lambda it: (place[it.thread], it.start_ns, -it.duration_ns)):
        outer = around[event.thread]
        while outer and outer[-1].event.end_ns < event.end_ns:
            outer.pop()
        node = _Node(event, outer[-1] if outer else None)
        if node.parent is not None:
            node.parent.children.append(node)
        outer.append(node)
        nodes.append(node)
    return nodes


def _host_kernels(node: _Node) -> list[Kernel]:
    event = node.event
    role = "kernel" if is_generated(event.name) else operator_role(event.name)
    if role not in ("kernel", "copy"):
        within = [kernel for child in node.children for kernel in _host_kernels(child)]
        # It computes by means that are no operations, such as oneDNN's convolutions, if most of its
        # time is in nothing that it calls, and more than it takes to call.
        alone_ns = event.duration_ns - sum(child.event.duration_ns for child in node.children)
        if role != "calls" or (within and alone_ns <= max(_CALLING_NS, event.duration_ns / 2)):
            return within
    kind: KernelKind = "copy" if role == "copy" else "library"
    if is_generated(event.name):
        kind = "generated"
    elif role == "kernel" and is_communication(event.name):
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
    node = driver_call or operation
    return Kernel(event.name, kind, event.start_ns, event.end_ns, is_graph_input, node)


def _breaks(nodes: Iterable[_Node]) -> Iterator[tuple[int, int]]:
    """Yield the time from each graph, or compiled function, to the search for the code of the next
    one that the same code of Dynamo's calls.
    """
    graphs = {
        around
        for node in nodes
        if node.event.name.startswith(RUN_RANGE)
        for around in node.outwards()
    }
    for region in (node for node in nodes if node.event.name.startswith(REGION_PREFIX)):
        end_ns: int | None = None
        for child in sorted(region.children, key=lambda node: node.event.start_ns):
            if child.event.name == CACHE_LOOKUP and end_ns is not None:
                yield end_ns, child.event.start_ns
            elif child in graphs or child.event.name.startswith(REGION_PREFIX):
                end_ns = child.event.end_ns


def _spans(events: Iterable[ProfiledEvent]) -> list[tuple[int, int]]:
    return [(event.start_ns, event.end_ns) for event in events]


def _waits(events: Iterable[ProfiledEvent]) -> list[tuple[int, int]]:
    return _spans(event for event in events if _WAIT.match(event.name))


def _covered_ns(spans: _Spans) -> int:
    covered = last = 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, last))
        last = max(last, end)
    return covered

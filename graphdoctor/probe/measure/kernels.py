"""Where the time of a steady call goes, kernel by kernel, from the events of torch.profiler.

On a GPU a kernel is what runs on the device, inside CUDA graphs too. On a CPU it is the outermost operation that
computes something itself: ``aten::linear`` only calls ``aten::addmm``, and what ``aten::addmm`` calls is part of it.
Kernels of Inductor's in C++ show themselves only in code that was compiled after ``show_generated_kernels``. Time that
two kernels share, on two streams or threads, counts once, for the one that began first; so kernels and the rest add
up to the call.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from ..torch_private import torch_api
from ..torch_private.torch_kernels import COPIES, GRAPH_INPUT_COPY, GRAPH_LAUNCHES, is_generated, operator_role
from ..torch_private.torch_profiler import ProfiledEvent, profile_activities, profiled_events
from ..wire import KernelKind, KernelRecord, KernelsEvent
from .timing import time_calls

CALL_RANGE = "graphdoctor_kernels"
"""Profiler range of one call."""

EMPTY_RANGE = "graphdoctor_empty_call"
"""Profiler range of a call that does nothing: the profiler's own time, and ours."""

_MIN_CALLS, _MAX_CALLS = 3, 20
_MAX_EVENTS = 50_000
_BUDGET_S = 1.0
_MAX_UNPROFILED = 50
_SLOWED = 2.0
"""A profiler makes calls of many short operations about that much longer."""

_DISTURBED, _PROFILER_US = 5.0, 200.0
_MAX_NAMES = 10
_MEMORY_COPY = "Memcpy"
_ANONYMOUS = "(anonymous namespace)"


@dataclass(frozen=True)
class Kernel:
    """One run of a kernel.

    Args:
        name: As the profiler names it.
        kind: Who wrote it.
        start_ns: When it began.
        end_ns: When it ended.
        is_graph_input: It copies inputs into static buffers of a CUDA graph.
    """

    name: str
    kind: KernelKind
    start_ns: int
    end_ns: int
    is_graph_input: bool = False


@dataclass
class _Node:
    """An event on the host with what happened in it, in the same thread."""

    event: ProfiledEvent
    parent: _Node | None = None
    children: list[_Node] = field(default_factory=list)

    def is_within(self, name: str) -> bool:
        """It, or something around it, has this name."""
        node: _Node | None = self
        while node is not None and node.event.name != name:
            node = node.parent
        return node is not None


def measure_kernels(call: Callable[[], object]) -> KernelsEvent | None:
    """Time a call's kernels: of several calls, the shortest, which the machine disturbed least.

    Args:
        call: Makes it; nothing may be compiled in it.

    Returns:
        None if this torch doesn't tell the profiler's events.
    """
    unprofiled = time_calls(call, seconds=_BUDGET_S, most=_MAX_UNPROFILED)
    first = _profiled(call, 1)
    if first is None:
        return None
    # The first call under a profiler is slower: its buffers are new.
    count = min(_MAX_CALLS, _MAX_EVENTS // len(first), max(_MIN_CALLS, int(_BUDGET_S / min(unprofiled))))
    best = min(_shares(_profiled(call, count) if count else first), key=_call_us)
    ends = time.perf_counter() + _BUDGET_S
    while count and _call_us(best) > _SLOWED * min(unprofiled) * 1e6 and time.perf_counter() < ends:
        best = min(best, *_shares(_profiled(call, count)), key=_call_us)
    best["unprofiled_us"] = min(unprofiled) * 1e6
    return best


def is_disturbed(measured: KernelsEvent) -> bool:
    """Other work on the machine made each profiled call longer than a profiler does."""
    return measured["call_us"] > _DISTURBED * measured["unprofiled_us"] + _PROFILER_US


def _call_us(share: KernelsEvent) -> float:
    return share["call_us"]


def _shares(events: Sequence[ProfiledEvent] | None) -> Iterator[KernelsEvent]:
    return shares_in(events or (), has_device=torch_api.uses_cuda())


def _profiled(call: Callable[[], object], count: int) -> list[ProfiledEvent] | None:
    with torch.profiler.profile(activities=profile_activities()) as profiler:
        for _ in range(count):
            torch_api.synchronize()
            with torch.profiler.record_function(EMPTY_RANGE):
                torch_api.synchronize()
            with torch.profiler.record_function(CALL_RANGE):
                call()
                torch_api.synchronize()
    return profiled_events(profiler)


def shares_in(
    events: Sequence[ProfiledEvent],
    *,
    has_device: bool,
    role: Callable[[str], Literal["kernel", "copy", "calls", "none"]] = operator_role,
) -> Iterator[KernelsEvent]:
    """The share of each call in a profile.

    Args:
        events: All events; each call is under ``CALL_RANGE``.
        has_device: The program uses a CUDA device, so that its kernels count.
        role: What a name on the host stands for.
    """
    hosts = [event for event in events if not event.is_on_device]
    nodes = _nodes(hosts)
    if has_device:
        launchers = {node.event.number: node for node in nodes if node.event.launched_by == 0}
        kernels = [_device_kernel(event, launchers) for event in events if event.is_on_device and not event.is_range]
    else:
        roots = [node for node in nodes if node.parent is None]
        kernels = [kernel for root in roots for kernel in _host_kernels(root, role)]
    empty_ns = min((event.duration_ns for event in hosts if event.name == EMPTY_RANGE), default=0)
    for whole in sorted((event for event in hosts if event.name == CALL_RANGE), key=lambda event: event.start_ns):
        inside = [event for event in hosts if whole.start_ns <= event.start_ns < whole.end_ns]
        own = [kernel for kernel in kernels if whole.start_ns <= kernel.start_ns < whole.end_ns]
        # A device that ran no kernel at all: the profiler can't see it.
        yield _share(whole, inside, own, empty_ns, is_device=has_device, is_seen=bool(own) or not has_device)


def _share(
    whole: ProfiledEvent,
    inside: Sequence[ProfiledEvent],
    own: Sequence[Kernel],
    empty_ns: int,
    *,
    is_device: bool,
    is_seen: bool,
) -> KernelsEvent:
    times: dict[KernelKind, float] = {"library": 0.0, "generated": 0.0, "copy": 0.0}
    by_name: dict[tuple[str, KernelKind], list[float]] = defaultdict(list)
    graph_input_ns = 0
    for kernel, counted_ns in _counted_once(own, whole.end_ns):
        times[kernel.kind] += counted_ns / 1e3
        by_name[short_name(kernel.name), kernel.kind].append(counted_ns / 1e3)
        graph_input_ns += counted_ns if kernel.is_graph_input else 0
    largest = sorted(by_name.items(), key=lambda item: -sum(item[1]))[:_MAX_NAMES]
    regions = [(event.start_ns, event.end_ns) for event in inside if _is_region(event.name)]
    on_host = [] if is_device else [(kernel.start_ns, kernel.end_ns) for kernel in own]
    covered_ns = _covered_ns([*regions, *on_host])
    return KernelsEvent(
        event="kernels",
        device="cuda" if is_device else "cpu",
        call_us=whole.duration_ns / 1e3,
        unprofiled_us=0.0,
        library_us=times["library"] if is_seen else None,
        generated_us=times["generated"] if is_seen else None,
        copy_us=times["copy"] if is_seen else None,
        graph_input_copy_us=graph_input_ns / 1e3 if is_seen and is_device else None,
        launches=len(own) if is_seen else None,
        graph_launches=sum(event.name.startswith(GRAPH_LAUNCHES) for event in inside),
        region_runs=sum(
            event.name.startswith(torch_api.REGION_PREFIX) or event.name == torch_api.COMPILED_BACKWARD
            for event in inside
        ),
        region_us=(covered_ns - _covered_ns(on_host)) / 1e3,
        outside_us=max(0, whole.duration_ns - covered_ns - empty_ns) / 1e3,
        largest=[KernelRecord(name=name, kind=kind, us=sum(each), count=len(each)) for (name, kind), each in largest],
    )


def short_name(name: str) -> str:
    """A kernel's name without return type, template arguments and parameters."""
    if name.startswith(_MEMORY_COPY):
        return name
    bare = name.removeprefix("void ").replace(_ANONYMOUS, _ANONYMOUS.strip("()"))
    end = min((bare.index(mark) for mark in "<(" if mark in bare), default=len(bare))
    return bare[:end].replace(_ANONYMOUS.strip("()"), _ANONYMOUS) or name


def _is_region(name: str) -> bool:
    return name.startswith(torch_api.REGION_PREFIX) or name in (torch_api.CACHE_LOOKUP, torch_api.COMPILED_BACKWARD)


def _nodes(events: Iterable[ProfiledEvent]) -> list[_Node]:
    """The host's events, each with what lies in it."""
    by_thread: dict[int, list[ProfiledEvent]] = defaultdict(list)
    for event in events:
        by_thread[event.thread].append(event)
    made: list[_Node] = []
    for own in by_thread.values():
        around: list[_Node] = []
        for event in sorted(own, key=lambda event: (event.start_ns, -event.duration_ns)):
            while around and around[-1].event.end_ns < event.end_ns:
                around.pop()
            node = _Node(event, around[-1] if around else None)
            if node.parent is not None:
                node.parent.children.append(node)
            around.append(node)
            made.append(node)
    return made


def _host_kernels(node: _Node, role: Callable[[str], str]) -> list[Kernel]:
    event = node.event
    if is_generated(event.name):
        return [Kernel(event.name, "generated", event.start_ns, event.end_ns)]
    found = role(event.name)
    if found in ("kernel", "copy"):
        return [Kernel(event.name, "copy" if found == "copy" else "library", event.start_ns, event.end_ns)]
    within = [kernel for child in node.children for kernel in _host_kernels(child, role)]
    if not within and found == "calls":
        # It computes by means that are no operations, such as oneDNN's convolutions.
        return [Kernel(event.name, "library", event.start_ns, event.end_ns)]
    return within


def _device_kernel(event: ProfiledEvent, launchers: Mapping[int, _Node]) -> Kernel:
    launcher = launchers.get(event.launched_by)
    is_copy = event.name.startswith(_MEMORY_COPY) or (launcher is not None and launcher.event.name in COPIES)
    kind: KernelKind = "copy" if is_copy else "generated" if is_generated(event.name) else "library"
    is_graph_input = is_copy and launcher is not None and launcher.is_within(GRAPH_INPUT_COPY)
    return Kernel(event.name, kind, event.start_ns, event.end_ns, is_graph_input)


def _counted_once(kernels: Iterable[Kernel], end_ns: int) -> Iterator[tuple[Kernel, int]]:
    """Each kernel with the time that no earlier one has, up to the end of the call."""
    last = 0
    for kernel in sorted(kernels, key=lambda kernel: (kernel.start_ns, kernel.end_ns)):
        end = min(kernel.end_ns, end_ns)
        yield kernel, max(0, end - max(kernel.start_ns, last))
        last = max(last, end)


def _covered_ns(spans: Iterable[tuple[int, int]]) -> int:
    """The time that lies in at least one of the spans."""
    covered = last = 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, last))
        last = max(last, end)
    return covered

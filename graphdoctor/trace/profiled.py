"""Reads what a profile recorded: the graphs for which Inductor generated code, and a steady call kernel by kernel.

Comes in: the probe's artifact of each such graph, and its events of the call. Goes out: ``Profiled``, each run of a
kernel with the call in the generated code that it is. torch.profiler names kernels, the generated code calls them; both
are in the same order. A generated kernel is found by its name. What a library runs is found by the operation that
launched it, and where the profiler knows none, as in a CUDA graph, by its place between generated kernels.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from graphdoctor.facts.base import Fact
from graphdoctor.facts.profiled import (
    Calibration,
    InductorGraph,
    InductorKernel,
    InductorKernelKind,
    InductorOperation,
    KeptTensor,
    KernelRun,
    MatchedRun,
    Partition,
    Profiled,
    ProfiledCall,
)
from graphdoctor.facts.reading import read_fact
from graphdoctor.trace.events import Events
from graphdoctor.trace.origin import PlaceReader

_Fact = TypeVar("_Fact", bound=Fact)

_OF_GRAPH = re.compile(r"graph_\d+_(?=cpp_)")
"""What the profiler puts before the name of a kernel in C++ (``torch/_inductor/codegen/cpp.py``, 2.13)."""

_OVERLOAD = re.compile(r"\.(default|out|\w+_out)$")
_GENERATED: tuple[InductorKernelKind, ...] = ("pointwise", "reduction", "template")
_LIBRARY = ("extern_kernels.", "torch.ops.", "aten.", "inductor_ops.")


def matched_runs(call: ProfiledCall, graphs: Sequence[InductorGraph]) -> Iterator[MatchedRun]:
    """Each run of a kernel, graph by graph, with the call in the generated code that it is."""
    index = {(graph.graph, graph.phase): number for number, graph in enumerate(graphs)}
    by_run: dict[int | None, list[int]] = defaultdict(list)
    for number, kernel in enumerate(call.kernels):
        by_run[kernel.run].append(number)
    for run, numbers in by_run.items():
        found = None if run is None else call.runs[run]
        graph = None if found is None else index.get((found.graph, found.phase))
        if graph is None:
            yield from (MatchedRun(run=number, us=call.kernels[number].us) for number in numbers)
        else:
            yield from _InGraph(call.kernels, graph, graphs[graph].kernels).matched(numbers)


class _InGraph:
    def __init__(self, kernels: Sequence[KernelRun], graph: int, calls: Sequence[InductorKernel]) -> None:
        self._kernels = kernels
        self._graph = graph
        self._calls = calls
        self._names = [call.name for call in calls]

    def matched(self, runs: Sequence[int]) -> Iterator[MatchedRun]:
        """The runs; between two generated kernels are those of the calls between the two."""
        done = 0
        waiting: list[int] = []
        for run in runs:
            name = _OF_GRAPH.sub("", self._kernels[run].name)
            at = next((at for at in range(done, len(self._names)) if self._names[at] == name), None)
            if at is not None:
                yield from self._between(waiting, range(done, at))
                yield self._match(run, at)
                waiting, done = [], at + 1
            elif self._kernels[run].kind == "generated":
                yield self._match(run, None)
            else:
                waiting.append(run)
        yield from self._between(waiting, range(done, len(self._names)))

    def _match(self, run: int, call: int | None, parts: int = 1) -> MatchedRun:
        us = self._kernels[run].us / parts
        return MatchedRun(run=run, us=us, graph=None if call is None else self._graph, kernel=call)

    def _between(self, runs: Sequence[int], calls: Sequence[int]) -> Iterator[MatchedRun]:
        left = list(calls)
        taken: set[int] = set()
        launch: int | None = None
        launched: int | None = None
        unknown: list[int] = []
        for run in runs:
            kernel = self._kernels[run]
            if kernel.operation is None:
                unknown.append(run)
                continue
            # One call can run several kernels.
            if kernel.launch is None or kernel.launch != launch:
                launch = kernel.launch
                name = base_name(kernel.operation)
                at = next((at for at, call in enumerate(left) if base_name(self._names[call]) == name), None)
                launched = None if at is None else left[at]
                if at is not None:
                    taken.add(left[at])
                    # What stands before it in the code ran before it.
                    left = left[at + 1 :]
            yield self._match(run, launched)
        left = [call for call in calls if call not in taken and self._calls[call].kind not in _GENERATED]
        yield from self._by_place(unknown, left)

    def _by_place(self, runs: Sequence[int], calls: Sequence[int]) -> Iterator[MatchedRun]:
        """Runs that nothing on the host is known of: one for each call in their order, or else all share each."""
        if len(runs) == len(calls):
            yield from (self._match(run, call) for run, call in zip(runs, calls, strict=True))
            return
        for run in runs:
            yield from (self._match(run, call, len(calls)) for call in calls)
            if not calls:
                yield self._match(run, None)


def base_name(name: str) -> str:
    """An operation's name without namespace and overload, such as ``addmm``."""
    for prefix in _LIBRARY:
        name = name.removeprefix(prefix)
    return re.split(r"::|\.", _OVERLOAD.sub("", name))[-1]


def inductor_graph(found: Mapping[str, Any], compile_id: str | None, place: PlaceReader) -> InductorGraph:
    """A graph for which Inductor generated code."""
    stacks = [tuple(entry for line in stack if (entry := place(*line)) is not None) for stack in found["stacks"]]

    def facts(kind: type[_Fact], items: Iterable[Mapping[str, Any]]) -> tuple[_Fact, ...]:
        known = ({**each, "stack": () if each["stack"] is None else stacks[each["stack"]]} for each in items)
        return tuple(read_fact(kind, each, skips_unknown=True) for each in known)

    partition = found.get("partition")
    return InductorGraph(
        graph=found["graph"],
        phase=found["phase"],
        compile_id=compile_id,
        operations=facts(InductorOperation, found["operations"]),
        kernels=tuple(read_fact(InductorKernel, each, skips_unknown=True) for each in found["kernels"]),
        partition=None
        if partition is None
        else Partition(
            saved=facts(KeptTensor, partition["saved"]),
            recomputed=partition["recomputed"],
            draws_random=partition["draws_random"],
        ),
    )


def profiled_call(events: Events, graphs: Iterable[InductorGraph]) -> Profiled | None:
    """What a profile recorded; None for any other run, and if the call wasn't profiled."""
    call, known = events.fact("profiled_call", ProfiledCall), tuple(graphs)
    if call is None:
        return None
    measured = events.fields("calibration")
    return Profiled(
        call=call,
        graphs=known,
        matched=tuple(matched_runs(call, known)),
        # Up to graphdoctor 0.1, what was measured was in an object of its own.
        calibration=read_fact(Calibration, measured | measured.pop("found", {})) if measured else None,
    )

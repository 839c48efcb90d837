"""Reads what a profile recorded: the graphs for which Inductor generated code, and a steady call
kernel by kernel.

torch.profiler names kernels, the generated code calls them, both in the same order. A generated
kernel is found by its name; what a library runs by the operation that launched it, or, if that is
unknown, by its place between the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from graphdoctor.facts.base import Fact, grouped
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
"""What the profiler puts before the name of a kernel in C++ (``torch/_inductor/codegen/cpp.py``,
2.13)."""

_OVERLOAD = re.compile(r"\.(default|out|\w+_out)$")
_GENERATED: tuple[InductorKernelKind, ...] = ("pointwise", "reduction", "template")
LIBRARY = ("extern_kernels.", "torch.ops.", "aten.", "inductor_ops.")
"""Prefixes of library functions in generated code; its header defines the last two."""


def matched_runs(call: ProfiledCall, graphs: Sequence[InductorGraph]) -> Iterator[MatchedRun]:
    """Each run of a kernel, graph by graph, with the call in the generated code that it is."""
    index = {(graph.graph, graph.phase): number for number, graph in enumerate(graphs)}
    for run, numbers in grouped(
        (kernel.run, number) for number, kernel in enumerate(call.kernels)
    ).items():
        found = None if run is None else call.runs[run]
        graph = None if found is None else index.get((found.graph, found.phase))
        if graph is None:
            yield from (MatchedRun(run=number, us=call.kernels[number].us) for number in numbers)
        else:
            yield from _matched(numbers, call.kernels, graph, graphs[graph].kernels)


def _matched(
    runs: Sequence[int], kernels: Sequence[KernelRun], graph: int, calls: Sequence[InductorKernel]
) -> Iterator[MatchedRun]:
    """The runs of one graph; between two generated kernels are those of the calls between the
    two.
    """

    def match(run: int, call: int | None, parts: int = 1) -> MatchedRun:
        return MatchedRun(
            run=run, us=kernels[run].us / parts, graph=None if call is None else graph, kernel=call
        )

    def between(end: int) -> Iterator[MatchedRun]:
        left = list(range(done, end))
        taken: set[int] = set()
        launch = launched = None
        unknown: list[int] = []
        for run in waiting:
            kernel = kernels[run]
            if kernel.operation is None:
                unknown.append(run)
                continue
            # One call can run several kernels.
            if kernel.launch is None or kernel.launch != launch:
                launch, name = kernel.launch, base_name(kernel.operation)
                launched = next(
                    (call for call in left if base_name(calls[call].name) == name), None
                )
                if launched is not None:
                    taken.add(launched)
                    # What stands before it in the code ran before it.
                    left = [call for call in left if call > launched]
            yield match(run, launched)
        left = [
            call
            for call in range(done, end)
            if call not in taken and calls[call].kind not in _GENERATED
        ]
        if len(unknown) == len(left):
            yield from map(match, unknown, left)
            return
        for run in unknown:
            # Nothing on the host is known of it: all calls share it.
            yield from (match(run, call, len(left)) for call in left)
            if not left:
                yield match(run, None)

    done = 0
    waiting: list[int] = []
    for run in runs:
        name = _OF_GRAPH.sub("", kernels[run].name)
        at = next((at for at in range(done, len(calls)) if calls[at].name == name), None)
        if at is not None:
            yield from between(at)
            yield match(run, at)
            waiting, done = [], at + 1
        elif kernels[run].kind == "generated":
            yield match(run, None)
        else:
            waiting.append(run)
    yield from between(len(calls))


def base_name(name: str) -> str:
    """An operation's name without namespace and overload, such as ``addmm``."""
    for prefix in LIBRARY:
        name = name.removeprefix(prefix)
    return re.split(r"::|\.", _OVERLOAD.sub("", name))[-1]


def inductor_graph(
    found: Mapping[str, Any], compile_id: str | None, place: PlaceReader
) -> InductorGraph:
    """A graph for which Inductor generated code."""
    stacks = [
        tuple(entry for line in stack if (entry := place(*line)) is not None)
        for stack in found["stacks"]
    ]

    def facts(kind: type[_Fact], items: Iterable[Mapping[str, Any]]) -> tuple[_Fact, ...]:
        known = (
            {**each, "stack": () if each["stack"] is None else stacks[each["stack"]]}
            for each in items
        )
        return tuple(read_fact(kind, each, skips_unknown=True) for each in known)

    partition = found.get("partition")
    if partition is not None:
        known = {name: partition[name] for name in ("recomputed", "draws_random")}
        partition = Partition(saved=facts(KeptTensor, partition["saved"]), **known)
    return InductorGraph(
        graph=found["graph"],
        phase=found["phase"],
        compile_id=compile_id,
        operations=facts(InductorOperation, found["operations"]),
        kernels=tuple(
            read_fact(InductorKernel, each, skips_unknown=True) for each in found["kernels"]
        ),
        partition=partition,
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
        calibration=read_fact(Calibration, measured | measured.pop("found", {}))
        if measured
        else None,
    )

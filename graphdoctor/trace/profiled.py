"""Reads what a profile recorded: the graphs for which Inductor generated code, and a steady call kernel by kernel.

Comes in: the probe's artifact of each such graph, and its events of the call. Goes out: ``Profiled``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from graphdoctor.facts.profiled import (
    Calibration,
    InductorGraph,
    InductorKernel,
    InductorOperation,
    KeptTensor,
    MeasuredMemory,
    Partition,
    Profiled,
    ProfiledCall,
)
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.stack import StackEntry
from graphdoctor.trace.attribution import matched_runs
from graphdoctor.trace.events import Events


class Entries(Protocol):
    """Makes stack entries."""

    def place(self, file: str, line: int, function: str) -> StackEntry | None:
        """The entry for a place; None if it can't be made."""


def inductor_graph(found: Mapping[str, Any], compile_id: str | None, entries: Entries) -> InductorGraph:
    """A graph for which Inductor generated code."""
    stacks = [tuple(_known(stack, entries)) for stack in found["stacks"]]
    operations = [
        read_fact(
            InductorOperation,
            {**each, "stack": () if each["stack"] is None else stacks[each["stack"]]},
            skips_unknown=True,
        )
        for each in found["operations"]
    ]
    partition = found.get("partition")
    return InductorGraph(
        graph=found["graph"],
        phase=found["phase"],
        compile_id=compile_id,
        operations=tuple(operations),
        kernels=tuple(read_fact(InductorKernel, each, skips_unknown=True) for each in found["kernels"]),
        partition=None if partition is None else _partition(partition, stacks),
    )


def _partition(found: Mapping[str, Any], stacks: Sequence[tuple[StackEntry, ...]]) -> Partition:
    saved = [
        read_fact(
            KeptTensor, {**each, "stack": () if each["stack"] is None else stacks[each["stack"]]}, skips_unknown=True
        )
        for each in found["saved"]
    ]
    return Partition(saved=tuple(saved), recomputed=found["recomputed"], draws_random=found["draws_random"])


def _known(stack: Iterable[tuple[str, int, str]], entries: Entries) -> Iterable[StackEntry]:
    for file, line, function in stack:
        if (entry := entries.place(file, line, function)) is not None:
            yield entry


def profiled_call(events: Events, graphs: Iterable[InductorGraph]) -> Profiled | None:
    """What a profile recorded; None for any other run, and if the call wasn't profiled."""
    if "profiled_call" not in events:
        return None
    call, known = read_fact(ProfiledCall, events.fields("profiled_call")), tuple(graphs)
    measured = events.fields("calibration")
    return Profiled(
        call=call,
        graphs=known,
        matched=tuple(matched_runs(call, known)),
        # Up to graphdoctor 0.1, what was measured was in an object of its own.
        calibration=read_fact(Calibration, measured | measured.pop("found", {})) if measured else None,
    )


def measured_memory(events: Events) -> MeasuredMemory | None:
    """Memory of a steady call; None if it wasn't measured."""
    return read_fact(MeasuredMemory, events.fields("memory")) if "memory" in events else None

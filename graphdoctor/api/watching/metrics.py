"""Metrics of a watch, under the names that all exporters share, and what each event adds to them.

Function and reason are no labels: a program has any number of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from graphdoctor.facts.watch import WatchEvent, WatchKind


class Metric(NamedTuple):
    """A sum of what events add to it; one in seconds is a histogram."""

    name: str
    description: str
    unit: str
    """In UCUM, as OpenTelemetry has it."""
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """An amount that one event adds to a metric."""

    metric: Metric
    value: float
    labels: dict[str, str] = {}  # noqa: RUF012 - nobody writes to it


COUNT = Metric(
    "torch.compile.count",
    "Compiles and recordings of CUDA graphs, done or not",
    "{compile}",
    ("trigger", "kind", "outcome"),
)
DURATION = Metric("torch.compile.duration", "Time that a compile took", "s")
RECOMPILES = Metric("torch.compile.recompiles", "Recompiles", "{compile}")
LIMIT_HITS = Metric(
    "torch.compile.limit_hits", "Times a function reached a recompile limit", "{hit}"
)
GRAPH_BREAKS = Metric("torch.compile.graph_breaks", "Graph breaks in compiles", "{break}")
CACHE = Metric("torch.compile.cache", "Lookups in torch's caches", "{lookup}", ("layer", "result"))
LOST = Metric("torch.compile.lost", "Events that the sinks were too slow for", "{event}")
METRICS = (COUNT, DURATION, RECOMPILES, LIMIT_HITS, GRAPH_BREAKS, CACHE, LOST)

DURATION_BOUNDS_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
_TRIGGERS: dict[WatchKind, str] = {
    "compile": "dynamo",
    "recompile": "dynamo",
    "backward": "lazy_backward",
    "cuda_graph": "cudagraph_recording",
    "cuda_graph_skipped": "cudagraph_recording",
}
"""By torch's names (``CallbackTrigger`` in ``torch/_dynamo/callback.py``, 2.13)."""


def samples(event: WatchEvent) -> Iterator[Sample]:
    """Yield what an event adds; nothing where torch doesn't say."""
    if (trigger := _TRIGGERS.get(event.kind)) is not None:
        kind = "cuda_graph" if event.kind == "cuda_graph_skipped" else event.kind
        yield Sample(COUNT, 1, {"trigger": trigger, "kind": kind, "outcome": _outcome(event)})
    if event.seconds is not None:
        yield Sample(DURATION, event.seconds)
    if event.kind == "recompile" and not event.is_blocked:
        yield Sample(RECOMPILES, 1)
    if event.kind == "limit":
        yield Sample(LIMIT_HITS, 1)
    if event.graph_breaks:
        yield Sample(GRAPH_BREAKS, event.graph_breaks)
    for layer, result in event.cache.items():
        yield Sample(CACHE, 1, {"layer": layer, "result": result})
    if event.kind == "lost":
        yield Sample(LOST, event.count)


def _outcome(event: WatchEvent) -> str:
    if event.kind == "cuda_graph_skipped":
        return "skipped"
    return "blocked" if event.is_blocked else "ok" if event.is_ok else "failed"

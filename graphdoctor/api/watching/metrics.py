"""Metrics of a watch, under the names that all exporters share, and what each event adds to them.

Function and reason are no labels: a program has any number of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from graphdoctor.facts.watch import WatchEvent, WatchKind


class Metric(NamedTuple):
    """A sum of what events add to it; one in seconds is a histogram."""

    description: str
    unit: str
    """In UCUM, as OpenTelemetry has it."""
    labels: tuple[str, ...] = ()


METRICS = {
    "torch.compile.count": Metric(
        "Compiles and recordings of CUDA graphs, done or not",
        "{compile}",
        ("trigger", "kind", "outcome"),
    ),
    "torch.compile.duration": Metric("Time that a compile took", "s"),
    "torch.compile.recompiles": Metric("Recompiles", "{compile}"),
    "torch.compile.limit_hits": Metric("Times a function reached a recompile limit", "{hit}"),
    "torch.compile.graph_breaks": Metric("Graph breaks in compiles", "{break}"),
    "torch.compile.cache": Metric("Lookups in torch's caches", "{lookup}", ("layer", "result")),
}
"""By name."""

DURATION_BOUNDS_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
_TRIGGERS: dict[WatchKind, str] = {
    "compile": "dynamo",
    "recompile": "dynamo",
    "backward": "lazy_backward",
    "cuda_graph": "cudagraph_recording",
    "cuda_graph_skipped": "cudagraph_recording",
}
"""By torch's names (``CallbackTrigger`` in ``torch/_dynamo/callback.py``, 2.13)."""


def samples(event: WatchEvent) -> Iterator[tuple[str, float, dict[str, str]]]:
    """Yield what an event adds to metrics, with its labels; nothing where torch doesn't say."""
    if (trigger := _TRIGGERS.get(event.kind)) is not None:
        kind = "cuda_graph" if event.kind == "cuda_graph_skipped" else event.kind
        labels = {"trigger": trigger, "kind": kind, "outcome": _outcome(event)}
        yield "torch.compile.count", 1, labels
    if event.seconds is not None:
        yield "torch.compile.duration", event.seconds, {}
    if event.kind == "recompile" and not event.is_blocked:
        yield "torch.compile.recompiles", 1, {}
    if event.kind == "limit":
        yield "torch.compile.limit_hits", 1, {}
    if event.graph_breaks:
        yield "torch.compile.graph_breaks", event.graph_breaks, {}
    for layer, result in event.cache.items():
        yield "torch.compile.cache", 1, {"layer": layer, "result": result}


def _outcome(event: WatchEvent) -> str:
    if event.kind == "cuda_graph_skipped":
        return "skipped"
    return "blocked" if event.is_blocked else "ok" if event.is_ok else "failed"

"""Metrics for Prometheus, ``torch_compile_count_total`` and the others, in the registry that the
program's own are in. The only module that imports prometheus_client.
"""

from __future__ import annotations

import os
from functools import cache

from prometheus_client import Counter, Histogram, start_http_server

from graphdoctor.api.watching.metrics import DURATION_BOUNDS_S, METRICS, Metric, samples
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.watch import WatchEvent


class PrometheusSink:
    """Counts events in prometheus_client's registry, and serves it at ``[HOST:]PORT`` unless the
    program does: on the loopback interface if no host is named, local rank N at PORT + N.

    Raises:
        GraphDoctorError: It can't be served there.
    """

    def __init__(self, argument: str | None = None) -> None:
        self._metrics = _registered()
        self._server = None
        if argument is not None:
            host, _, port = argument.rpartition(":")
            try:
                at = int(port) + int(os.environ.get("LOCAL_RANK", "0"))
                self._server, _ = start_http_server(at, host or "127.0.0.1")
            except (OSError, ValueError) as error:
                raise GraphDoctorError(f"prometheus:{argument} can't serve: {error}.") from error

    def export(self, event: WatchEvent) -> None:
        """Count the event."""
        for name, value, labels in samples(event):
            collector = self._metrics[name]
            labeled = collector.labels(**labels) if labels else collector
            labeled.observe(value) if isinstance(labeled, Histogram) else labeled.inc(value)

    def close(self) -> None:
        """Stop serving. The metrics stay registered, so that no counter goes back."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


@cache
def _registered() -> dict[str, Counter | Histogram]:
    """Return the process's metrics: a registry takes each name once."""
    return {name: _collector(name.replace(".", "_"), metric) for name, metric in METRICS.items()}


def _collector(name: str, metric: Metric) -> Counter | Histogram:
    if metric.unit == "s":
        bounds = DURATION_BOUNDS_S
        return Histogram(name, metric.description, unit="seconds", buckets=bounds)
    return Counter(name, metric.description, metric.labels)

"""Metrics and span events for OpenTelemetry, through whatever SDK the program has set up.

The only module that imports opentelemetry.
"""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry import metrics, trace

from graphdoctor.api.watching.metrics import DURATION_BOUNDS_S, METRICS, Metric, samples
from graphdoctor.facts.watch import WatchEvent
from graphdoctor.version import __version__

_OURS = "kind compile_id seconds reason causes graph_breaks step rank is_ok is_locked is_blocked"
_ATTRIBUTES = {
    "function": "code.function.name",
    "file": "code.file.path",
    "line": "code.line.number",
    **{name: f"torch.compile.{name}" for name in _OURS.split()},
}
"""Fields of an event by OpenTelemetry's names of source code, or ours."""


class OpenTelemetrySink:
    """Counts events in metrics of the global meter provider, and adds each to the current span."""

    def __init__(self, _argument: str | None = None) -> None:
        meter = metrics.get_meter("graphdoctor", __version__)
        self._record = {name: _recorder(meter, name, metric) for name, metric in METRICS.items()}

    def export(self, event: WatchEvent) -> None:
        """Count the event."""
        for name, value, labels in samples(event):
            self._record[name](value, labels)

    def mark_span(self, event: WatchEvent) -> None:
        """Add the event to the span of the calling thread, if it is recorded."""
        span = trace.get_current_span()
        if span.is_recording():
            fields = {attribute: getattr(event, name) for name, attribute in _ATTRIBUTES.items()}
            known = {name: value for name, value in fields.items() if value not in (None, ())}
            span.add_event("torch.compile", known, timestamp=int(event.time_s * 1e9))

    def close(self) -> None:
        """Nothing is kept: the SDK exports."""


def _recorder(
    meter: metrics.Meter, name: str, metric: Metric
) -> Callable[[float, dict[str, str]], None]:
    if metric.unit == "s":
        return meter.create_histogram(
            name,
            metric.unit,
            metric.description,
            explicit_bucket_boundaries_advisory=DURATION_BOUNDS_S,
        ).record
    return meter.create_counter(name, metric.unit, metric.description).add

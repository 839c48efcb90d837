"""Running totals as scalars over steps, for the writers and the trainers that programs log to."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Protocol, cast

from graphdoctor.facts.watch import WatchEvent

Log = Callable[..., object]


class Counts(Protocol):
    """What is counted, such as by a ``Watch``."""

    recompiles: int
    limit_hits: int
    compile_seconds: float


class ScalarSink:
    """Writes the totals so far at each event's step.

    Args:
        writer: Has ``add_scalar(name, value, step)``, as TensorBoard's SummaryWriter, or
            ``log(values)``, as a run of Weights & Biases. It stays open.
    """

    def __init__(self, writer: object) -> None:
        self.recompiles = self.limit_hits = 0
        self.compile_seconds = 0.0
        self._add_scalar: Log | None = getattr(writer, "add_scalar", None)
        if self._add_scalar is None:
            self._log = cast("Log", getattr(writer, "log"))  # noqa: B009 - an object has none
            self._options = signature(self._log).parameters

    def export(self, event: WatchEvent) -> None:
        """Write the totals with the event."""
        self.recompiles += event.kind == "recompile" and not event.is_blocked
        self.limit_hits += event.kind == "limit"
        self.compile_seconds += event.seconds or 0
        values = scalars(self)
        if self._add_scalar is not None:
            for name, value in values.items():
                self._add_scalar(name, value, event.step)
        elif "commit" in self._options:
            # Into the row that the run logs next: with a step it would be dropped if that is past.
            self._log(values, commit=False)
        else:
            self._log(values, **({"step": event.step} if "step" in self._options else {}))

    def close(self) -> None:
        """Nothing: the writer is the program's."""


def scalars(counts: Counts) -> dict[str, float]:
    """Return totals by the names that they are logged under."""
    return {
        "compile/recompiles": counts.recompiles,
        "compile/seconds": counts.compile_seconds,
        "compile/limit_hits": counts.limit_hits,
    }

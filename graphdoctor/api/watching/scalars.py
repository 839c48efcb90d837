"""Running totals as scalars over steps, for the writers and the trainers that programs log to."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Protocol

from graphdoctor.facts.watch import WatchEvent

Log = Callable[..., object]


class Counts(Protocol):
    """Totals, such as those of a ``Watch``."""

    recompiles: int
    limit_hits: int
    compile_seconds: float


class ScalarSink:
    """Writes the totals so far at each event's step.

    Args:
        writer: Has TensorBoard's ``add_scalar(name, value, step)`` or, as a run of Weights &
            Biases, ``log(values)``. It stays open.
    """

    def __init__(self, writer: object) -> None:
        self.recompiles = self.limit_hits = 0
        self.compile_seconds = 0.0
        self._add_scalar: Log | None = getattr(writer, "add_scalar", None)
        self._log: Log | None = getattr(writer, "log", None)

    def export(self, event: WatchEvent) -> None:
        """Write the totals with the event."""
        self.recompiles += event.kind == "recompile" and not event.is_blocked
        self.limit_hits += event.kind == "limit"
        self.compile_seconds += event.seconds or 0
        if self._add_scalar is not None:
            for name, value in scalars(self).items():
                self._add_scalar(name, value, event.step)
        elif self._log is not None:
            options = signature(self._log).parameters
            # To the row that a run logs next: it would drop a step that is past.
            known = {"commit": False} if "commit" in options else {"step": event.step}
            self._log(scalars(self), **{name: known[name] for name in known if name in options})

    def close(self) -> None:
        """Nothing: the writer is the program's."""


def scalars(counts: Counts) -> dict[str, float]:
    """Return totals by the names that they are logged under."""
    return {
        "compile/recompiles": counts.recompiles,
        "compile/seconds": counts.compile_seconds,
        "compile/limit_hits": counts.limit_hits,
    }

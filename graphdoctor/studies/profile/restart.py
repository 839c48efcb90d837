"""What a second start of a program costs, which finds on disk what the first left there.

Comes in: recordings. Goes out: seconds of compiling, and what the caches did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphdoctor.facts.recording import Recording


@dataclass(frozen=True)
class Compiling:
    """Seconds of compiling in a run, as torch measured them.

    Args:
        all_s: All of it; None if torch didn't say.
        dynamo_s: Of this, what isn't in the backend: Dynamo's tracing and guards; None if unknown.
    """

    all_s: float | None
    dynamo_s: float | None


def compiling(recording: Recording) -> Compiling:
    """What compiling took in the calls of a run.

    Args:
        recording: The run.
    """
    has_graph = {graph.compile_id for graph in recording.graphs}
    # Without a graph, there is nothing for a backend to do.
    backends = [
        compile_.backend_s if compile_.compile_id in has_graph else compile_.backend_s or 0.0
        for compile_ in recording.compiles
    ]
    all_s = _sum([compile_.duration_s for compile_ in recording.compiles])
    backend_s = _sum(backends)
    return Compiling(all_s, None if all_s is None or backend_s is None else all_s - backend_s)


def _sum(values: Sequence[float | None]) -> float | None:
    """None if there are none, or one is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def restarted(again: Recording) -> dict[str, object]:
    """The fields of a report that a second start gives.

    Args:
        again: The second start.
    """
    warm = compiling(again)
    return {"restart_caches": again.caches, "compile_warm_s": warm.all_s, "dynamo_warm_s": warm.dynamo_s}

"""What a second start of a program costs, which finds on disk what the first left there.

Comes in: recordings. Goes out: seconds of compiling, and what the caches did.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphdoctor.model.recording import Recording


@dataclass(frozen=True)
class Compiling:
    """Seconds of compiling in a run, as torch measured them.

    Args:
        all_s: All of it; None if torch didn't say.
        dynamo_s: Of this, what isn't in the backend: Dynamo's tracing and guards.
    """

    all_s: float | None
    dynamo_s: float | None


def compiling(recording: Recording) -> Compiling:
    """What compiling took in the calls of a run.

    Args:
        recording: The run.
    """
    known = [
        (compile_.duration_s, compile_.backend_s or 0.0)
        for compile_ in recording.compiles
        if compile_.duration_s is not None
    ]
    if not known or len(known) < len(recording.compiles):
        return Compiling(None, None)
    return Compiling(sum(all_s for all_s, _ in known), sum(all_s - backend_s for all_s, backend_s in known))


def restarted(again: Recording) -> dict[str, object]:
    """The fields of a report that a second start gives.

    Args:
        again: The second start.
    """
    warm = compiling(again)
    return {"restart_caches": again.caches, "compile_warm_s": warm.all_s, "dynamo_warm_s": warm.dynamo_s}

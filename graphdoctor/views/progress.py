"""Trials of fixes while they run, in words. Comes in: their events. Goes out: one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphdoctor.facts.wording import duration, factor_text
from graphdoctor.views.words import measured_speed

if TYPE_CHECKING:
    from graphdoctor.facts.progress import DecidedStep, DecidedTrial, TimedPrograms, TrialCounts

_MINUTES_FROM_S = 90
_HOURS_FROM_S = 5400


def counts_text(counts: TrialCounts, left_s: float | None = None) -> str:
    """How far the trials are: ``trial 3 of 8 · timing 2 of 3 · about 20 s left``.

    Args:
        counts: The counts.
        left_s: Seconds that are left now; None if unknown.
    """
    parts = [f"trial {counts.trial} of {counts.trials}"] if counts.trials else []
    parts += [f"timing {counts.timing} of {counts.timings}"] if counts.timing else []
    left = left_text(left_s, is_open=counts.is_open)
    return " · ".join([*parts, *([left] if left else [])])


def left_text(left_s: float | None, *, is_open: bool) -> str:
    """How long the rest takes, in figures no finer than an estimate is; empty if unknown or as good as over.

    Args:
        left_s: Seconds; None if unknown.
        is_open: Whether more can come that isn't counted in.
    """
    if left_s is None or left_s < 1:
        return ""
    if left_s >= _HOURS_FROM_S:
        amount = f"{left_s / 3600:.1f} h"
    elif left_s >= _MINUTES_FROM_S:
        amount = f"{left_s / 60:.0f} min"
    else:
        amount = f"{left_s:.0f} s" if left_s < 10 else f"{round(left_s / 5) * 5} s"
    return f"{'at least' if is_open else 'about'} {amount} left"


def decided_text(trial: DecidedTrial, counts: TrialCounts) -> str:
    """What a trial showed: ``trial 3 of 8 · verified · model.py:28 · Skip `print(…)` while compiling``.

    Args:
        trial: The trial.
        counts: How far the trials are.
    """
    by_verdict: dict[str, list[str]] = {}
    for place, verdict in trial.verdicts:
        by_verdict.setdefault(verdict, []).append(place)
    under = f" under {trial.backend}" if trial.backend else ""
    shown = ", ".join(f"{verdict}{under} · {_places(places)}" for verdict, places in by_verdict.items())
    return f"trial {trial.number} of {counts.trials} · {shown} · {trial.title}"


def _places(places: list[str]) -> str:
    return places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"


def timed_text(timed: TimedPrograms, counts: TrialCounts) -> str:
    """What a timing showed: ``timing 2 of 3 · inductor · 1.7x faster``, with a multiplication sign.

    Args:
        timed: The timing.
        counts: How far the trials are.
    """
    shown = f"not timed: {timed.reason}" if timed.times is None else measured_speed(timed.times)
    return f"timing {timed.number} of {counts.timings} · {timed.backend} · {shown}"


def step_text(decided: DecidedStep) -> str:
    """What a step of a search showed: ``kept · fixes · 1.60x beside the best before · best so far 1.90 ms``.

    Args:
        decided: The step.
    """
    step = decided.step
    parts = [step.outcome, step.name]
    if step.speedup is not None:
        parts.append(f"{factor_text(step.speedup.ratio)} beside the best before")
    if step.reason:
        parts.append(step.reason)
    if decided.best_us is not None and decided.eager_us is not None:
        parts.append(f"best so far {duration(decided.best_us)}, eager {duration(decided.eager_us)}")
    return " · ".join(parts)

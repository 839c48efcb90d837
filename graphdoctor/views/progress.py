"""Lines about what is going on: phases, and trials of fixes while they run."""

from __future__ import annotations

from graphdoctor.facts.base import grouped
from graphdoctor.facts.progress import DecidedStep, DecidedTrial, TimedPrograms
from graphdoctor.views.measures import speedup_text
from graphdoctor.views.printable import printable
from graphdoctor.views.reasons import reason_text
from graphdoctor.views.words import about_time, measured_speed
from graphdoctor.wording import duration, join_texts, shortened

_NARROW = 50
"""Below this width, what is left is said without the time so far."""


def phase_text(
    phase: str, elapsed_s: float, left_s: float | None, overdue_s: float | None, width: int
) -> str:
    """What a command does and for how long: ``running without fixes · 0:05 · about 7 seconds
    left``.

    Args:
        phase: In words, cut where the width has no room for it.
        elapsed_s: Since the command began.
        left_s: From the last run; None if it has nothing to say.
        overdue_s: What the phase took in the last run, in seconds, if it takes longer now; None if
            it doesn't.
        width: In characters.
    """
    late = None if overdue_s is None else f"longer than last time ({overdue_s:.0f} s)"
    note = late or left_text(left_s)
    rest = note if note and width < _NARROW else join_texts(" · ", clock_text(elapsed_s), note)
    return f"{shortened(printable(phase), max(width - len(rest) - 3, 6))} · {rest}"


def clock_text(seconds: float) -> str:
    """A time that runs: ``0:42``, ``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def left_text(left_s: float | None) -> str:
    """How long the rest takes, in figures no finer than an estimate is; empty if unknown or as good
    as over.
    """
    if left_s is None or left_s < 1:
        return ""
    return f"about {about_time(left_s if left_s < 10 else 5 * round(left_s / 5))} left"


def decided_text(trial: DecidedTrial) -> str:
    """What a trial showed: ``trial 3 · verified · model.py:28 · Skip `print(…)` while
    compiling``.
    """
    by_verdict = grouped((verdict, place) for place, verdict in trial.verdicts)
    under = f" under {trial.backend}" if trial.backend else ""
    shown = ", ".join(
        f"{verdict}{under} · {places[0]}{f' and {len(places) - 1} more' if places[1:] else ''}"
        for verdict, places in by_verdict.items()
    )
    return f"trial {trial.number} · {shown} · {trial.title}"


def timed_text(timed: TimedPrograms) -> str:
    """What a timing showed: ``timing 2 · inductor · 1.7x faster``, with a multiplication sign."""
    shown = (
        measured_speed(timed.times)
        if timed.times is not None
        else f"not timed: {reason_text(timed.reason) if timed.reason else ''}"
    )
    return f"timing {timed.number} · {timed.backend} · {shown}"


def step_text(decided: DecidedStep) -> str:
    """What a step of a search showed: ``kept · fixes · 1.60x beside the best before · best so far
    1.90 ms``.
    """
    step, best = decided.step, None
    beside = (
        None if step.speedup is None else f"{speedup_text(step.speedup)} beside the best before"
    )
    if decided.best_us is not None and decided.eager_us is not None:
        best = f"best so far {duration(decided.best_us)}, eager {duration(decided.eager_us)}"
    return join_texts(" · ", step.outcome, step.name, beside, step.reason, best)

"""Lines about what is going on: phases, and trials of fixes while they run."""

from __future__ import annotations

from graphdoctor.facts.base import grouped
from graphdoctor.facts.progress import (
    DecidedStep,
    DecidedTrial,
    OpenFinding,
    TimedPrograms,
    TrialEvent,
)
from graphdoctor.views.measures import speedup_text
from graphdoctor.views.printable import printable
from graphdoctor.views.reasons import reason_text
from graphdoctor.views.verdicts import by_words, verdict_words
from graphdoctor.views.words import about_time, measured_speed
from graphdoctor.wording import duration, join_texts, shortened


def phase_text(phase: str, elapsed_s: float, width: int) -> str:
    """Say what a command does and for how long: ``running without fixes · 0:05``."""
    clock = clock_text(elapsed_s)
    return f"{shortened(printable(phase), max(width - len(clock) - 3, 6))} · {clock}"


def clock_text(seconds: float) -> str:
    """Return a running time: ``0:42``, ``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def left_text(left_s: float | None) -> str:
    """Say how long the rest takes, no finer than an estimate is; empty if unknown or almost
    over.
    """
    if left_s is None or left_s < 1:
        return ""
    return f"about {about_time(left_s if left_s < 10 else 5 * round(left_s / 5))} left"


def event_text(event: TrialEvent) -> str:
    """Describe a finding, a trial, a timing or a step of a search on one line."""
    match event:
        case OpenFinding(code, message, place):
            return f"found · {place} · {code} {message}"
        case DecidedTrial():
            verdicts = grouped((verdict, place) for place, verdict in event.verdicts)
            under = f" under {event.backend}" if event.backend else ""
            shown = ", ".join(
                f"{verdict_words(verdict, event.grade, by=by_words(event.kind))}{under} ·"
                f" {places[0]}{f' and {len(places) - 1} more' if places[1:] else ''}"
                for verdict, places in verdicts.items()
            )
            return f"trial {event.number} · {shown} · {event.title}"
        case TimedPrograms():
            shown = f"not timed: {reason_text(event.reason) if event.reason else ''}"
            if event.times is not None:
                shown = measured_speed(event.times)
            return f"timing {event.number} · {event.backend} · {shown}"
        case DecidedStep(step):
            beside = best = None
            if step.speedup is not None:
                beside = f"{speedup_text(step.speedup)} beside the best before"
            if event.best_us is not None and event.eager_us is not None:
                best = f"best so far {duration(event.best_us)}, eager {duration(event.eager_us)}"
            return join_texts(" · ", step.outcome, step.name, beside, step.reason, best)

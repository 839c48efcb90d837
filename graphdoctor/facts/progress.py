"""What is reported while fixes are tried. Standard library only, so that watching costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cure import CureStep
    from .fixes import PairedTime, Verdict


@dataclass(frozen=True)
class TrialCounts:
    """How far the trials are.

    Args:
        trial: Number of the trial that began last; 0 before the first.
        trials: Trials that are certain to be made, those that were made among them.
        timing: Number of the timing that began last; 0 before the first.
        timings: Timings that are certain to be made, likewise.
        left_s: Seconds that the rest of these takes, from what this run's own took; None until that is known.
        is_open: Whether more can come: a fix can uncover the next break, and timing comes last.
    """

    trial: int
    trials: int
    timing: int = 0
    timings: int = 0
    left_s: float | None = None
    is_open: bool = True


@dataclass(frozen=True)
class DecidedTrial:
    """What one trial of a fix showed: the verdict by ``file:line`` of each finding that it is for.

    Its backend is None if that is the user's.
    """

    number: int
    title: str
    verdicts: tuple[tuple[str, Verdict], ...]
    backend: str | None = None


@dataclass(frozen=True)
class TimedPrograms:
    """What timing two programs with one backend showed: the times, or why there are none, as a clause."""

    number: int
    backend: str
    times: PairedTime | None
    reason: str | None = None


@dataclass(frozen=True)
class DecidedStep:
    """What one step of a search showed, and what a call takes in the best way so far and in eager mode."""

    step: CureStep
    best_us: float | None
    eager_us: float | None


TrialEvent = TrialCounts | DecidedTrial | TimedPrograms | DecidedStep

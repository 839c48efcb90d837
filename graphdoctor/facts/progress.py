"""Reports while fixes are tried. Standard library only, so that watching costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .bench import CureStep
    from .fixes import FixKind, Grade, PairedTime, Reason, Verdict


PHASES_VARIABLE = "_GRAPHDOCTOR_PHASES"
"""Names a descriptor to a command, which writes what it does now to it, a line for each phase."""


@dataclass(frozen=True)
class OpenFinding:
    """A finding for which fixes are about to be tried."""

    code: str
    message: str
    place: str


@dataclass(frozen=True)
class DecidedTrial:
    """Result of one trial of a fix: the verdict by ``file:line`` of each finding that it is for.

    Its backend is None if that is the user's.
    """

    number: int
    title: str
    verdicts: tuple[tuple[str, Verdict], ...]
    backend: str | None = None
    grade: Grade | None = None
    kind: FixKind | None = None


@dataclass(frozen=True)
class TimedPrograms:
    """Times of two programs with one backend, or the reason why there are none."""

    number: int
    backend: str
    times: PairedTime | None
    reason: Reason | None = None


@dataclass(frozen=True)
class DecidedStep:
    """Result of one step of a search, and the time of a call in the best way so far and in eager
    mode.
    """

    step: CureStep
    best_us: float | None
    eager_us: float | None


TrialEvent = OpenFinding | DecidedTrial | TimedPrograms | DecidedStep

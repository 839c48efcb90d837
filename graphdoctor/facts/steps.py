"""Steps of a training loop, in a script that is run again under a change."""

from __future__ import annotations

from statistics import median

from .base import Fact


class Steps(Fact):
    """What one process saw of its training loop."""

    count: int
    """Backward passes."""
    intervals_us: tuple[float, ...] = ()
    """Microseconds from one to the next, of the last ones in which nothing was compiled."""
    losses: tuple[float, ...] = ()
    """What the first ones were called on, where it was a single number."""

    @property
    def step_us(self) -> float | None:
        """The median of the second half, by when caches are warm; None if there are fewer than four."""
        late = self.intervals_us[len(self.intervals_us) // 2 :]
        return median(late) if len(self.intervals_us) >= 4 else None

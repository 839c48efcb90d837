"""Says how sure the ratio of two programs' times is, and when enough of them are known.

Comes in: the ratios of turns. Goes out: an interval that holds the true ratio with 95% confidence,
however early timing stopped.

Whoever looks at a 95% interval after each turn, and stops once it excludes 1, finds a difference
between equal programs sooner or later (Armitage, McPherson and Rowe, "Repeated significance tests
on accumulating data", Journal of the Royal Statistical Society A 132, 1969). So there are few
looks, each after twice as many turns as the one before, and they divide the 5% of false intervals
equally among them (Bonferroni), whatever one look has to do with another.

The interval of a look is that of the median from the sign test: it reaches from one of the sorted
ratios to another, and assumes nothing about how times are distributed (Hollander, Wolfe and
Chicken, "Nonparametric statistical methods", 3rd edition, 2014, section 3.6). Long calls get fewer
turns than the first look needs, which have no such interval; there it is Student's, of the
logarithms.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

from graphdoctor.facts.bench import PROCESSES_DIFFER

LOOKS = (8, 16, 32, 64)
"""Numbers of turns after which to look; the end of the time is one more look."""

MIN_TURNS = 2

SAME = PROCESSES_DIFFER
"""A ratio this close to 1 is no difference worth more turns."""

PLAIN = 1.5
"""A ratio that two pairs of processes don't disagree about. Of 20 pairs that ran the same program,
12 of them beside four busy processes on two cores, the ratios lay between 0.94 and 1.02."""

_ERROR = 0.05
_ERROR_OF_LOOK = _ERROR / (len(LOOKS) + 1)
_STUDENT = (63.657, 9.925, 5.841, 4.604, 4.032, 3.707)
"""Quantiles of Student's distribution that 1% lie beyond on both sides, for 1 to 6 degrees of
freedom."""


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the interval at a look."""
    count = len(ratios)
    if count < LOOKS[0]:
        logs = [math.log(ratio) for ratio in ratios]
        middle, reach = (
            statistics.fmean(logs),
            _STUDENT[count - 2] * statistics.stdev(logs) / math.sqrt(count),
        )
        return _exp(middle - reach), _exp(middle + reach)
    ordered = sorted(ratios)
    rank = _rank(count)
    return ordered[rank], ordered[-1 - rank]


def is_decided(ratios: Sequence[float]) -> bool:
    """Tell if these are the turns of a look that need no more: one program is faster, or it hardly
    matters.
    """
    if len(ratios) not in LOOKS:
        return False
    low, high = interval(ratios)
    return not low <= 1 <= high or (low >= 1 - SAME and high <= 1 + SAME)


def change_of(
    ratio: float, low: float, high: float, *, noise: float = PROCESSES_DIFFER
) -> Literal["faster", "slower", "same"]:
    """Tell what the ratio of a changed program's time says; "same" also where it isn't certain."""
    if high < 1 and ratio < 1 - noise:
        return "faster"
    return "slower" if low > 1 and ratio > 1 + noise else "same"


def _rank(count: int) -> int:
    """Count the sorted ratios that the interval leaves out at each end, for the error of a look."""
    outside = 1 / 2**count
    rank = 0
    while 2 * (outside + math.comb(count, rank + 1) / 2**count) <= _ERROR_OF_LOOK:
        rank += 1
        outside += math.comb(count, rank) / 2**count
    return rank


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))

"""The geometric mean of speed-ups, and how well it is known."""

from __future__ import annotations

import math
from collections.abc import Iterable

from graphdoctor.facts.survey import GeometricMean, SurveyRow


def mean_speedup(rows: Iterable[SurveyRow]) -> GeometricMean | None:
    """The geometric mean over the rows that passed and were timed.

    Each speed-up has an interval of its own. Their errors are independent, since each target ran in processes of its
    own, so on a scale of logarithms the squares of the distances to the ends add up. What that gives is how well the
    mean of these targets is known, not what other targets would give.

    Args:
        rows: Of one variant, or of several.

    Returns:
        None if there is no speed-up.
    """
    logs: list[float] = []
    below = above = 0.0
    for row in rows:
        if not row.is_passed or row.speedup is None or row.speedup_low is None or row.speedup_high is None:
            continue
        if min(row.speedup, row.speedup_low) <= 0:
            continue
        middle = math.log(row.speedup)
        logs.append(middle)
        below += (middle - math.log(row.speedup_low)) ** 2
        above += (math.log(row.speedup_high) - middle) ** 2
    if not logs:
        return None
    count = len(logs)
    mean = math.fsum(logs) / count
    return GeometricMean(
        ratio=math.exp(mean),
        low=math.exp(mean - math.sqrt(below) / count),
        high=math.exp(mean + math.sqrt(above) / count),
        count=count,
    )

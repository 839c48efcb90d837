"""Times the steady call of two programs in turns, in two probes that run in parallel: both see the same noise.

Timing stops as soon as ``confidence.py`` is sure, or after ten seconds. Compiling and the repetitions until the call is
steady come before that and aren't counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from graphdoctor.facts.fixes import PairedTime, deciding
from graphdoctor.facts.wording import speed_text
from graphdoctor.trials.confidence import MIN_TURNS, PROCESSES_DIFFER, interval, is_decided
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from graphdoctor.trials.turns import TURN_S, TimedProbe

_MAX_S = 10.0


def time_pair(replays: Replays, before: Program, after: Program, name: str, *, backend: str) -> PairedTime | str:
    """Time two programs in turns.

    Args:
        replays: Starts the probes.
        before: The program without the fix.
        after: The program with it.
        name: What the names of the recordings begin with.
        backend: The backend to compile with.

    Returns:
        The times, or why there are none, as a clause.
    """
    with ThreadPoolExecutor(max_workers=2) as pool:
        pair: list[TimedProbe] = []
        try:
            for program, which in ((before, "before"), (after, "after")):
                pair.append(TimedProbe(replays, program, f"{name}-{backend}-{which}", backend, pool))
            steady = [timed.is_steady() for timed in pair]
            turns = _turns(*pair) if all(steady) else []
        except BaseException:
            replays.cancel()
            raise
        finally:
            for timed in pair:
                timed.close()
        errors = [error for timed in pair if (error := timed.end()) is not None]
    if errors:
        return errors[0].rstrip(".")
    if not all(steady):
        return "the last call never stops compiling"
    if not all(plain and fixed for plain, fixed in turns):
        return "the call is too short to time"
    if len(turns) < MIN_TURNS:
        return "the probe ended during timing"
    ratios = [fixed / plain for plain, fixed in turns]
    low, high = interval(ratios)
    return PairedTime(
        backend=backend,
        before_us=statistics.median(plain for plain, _ in turns),
        after_us=statistics.median(fixed for _, fixed in turns),
        ratio=statistics.median(ratios),
        ratio_low=low,
        ratio_high=high,
        turns=len(turns),
    )


def slower(times: Sequence[PairedTime]) -> str | None:
    """How much longer the call takes with a fix, in words; None if it isn't certain that it does."""
    pair = deciding(times)
    if pair is None or pair.ratio_low <= 1 or pair.ratio <= 1 + PROCESSES_DIFFER:
        return None
    return f"{speed_text(pair.ratio, pair.ratio_low, pair.ratio_high)} under {pair.backend}"


def faster(times: Sequence[PairedTime]) -> str | None:
    """How much shorter the call is with a fix, in words; None if it isn't certain that it is."""
    pair = deciding(times)
    if pair is None or pair.ratio_high >= 1 or pair.ratio >= 1 - PROCESSES_DIFFER:
        return None
    return f"{speed_text(pair.ratio, pair.ratio_low, pair.ratio_high)} under {pair.backend}"


def _turns(before: TimedProbe, after: TimedProbe) -> list[tuple[float, float]]:
    """The times of both in each turn; they take turns going first."""
    found: list[tuple[float, float]] = []
    spent_s = 0.0
    while True:
        is_swapped = len(found) % 2 == 1
        first, second = (after, before) if is_swapped else (before, after)
        one, other = first.median_us(), second.median_us()
        if one is None or other is None:
            return found
        found.append((other, one) if is_swapped else (one, other))
        if not one or not other or is_decided([fixed / plain for plain, fixed in found]):
            return found
        turn_s = max(TURN_S, one / 1e6) + max(TURN_S, other / 1e6)
        spent_s += turn_s
        if spent_s + turn_s > _MAX_S and len(found) >= MIN_TURNS:
            return found

"""What a variant's times say: whether it is faster, and after how many calls it has paid."""

from __future__ import annotations

import math

from graphdoctor.facts.bench import BreakEven, CallTimes, Judgement, Noise, Speedup
from graphdoctor.trials.confidence import PROCESSES_DIFFER, change_of

_NOISY_RATIO = 0.05
_NOISY_SPREAD = 0.2


def noise_of(times: CallTimes | None, beside: Speedup | None) -> Noise | None:
    """How steady the machine was while eager mode was timed.

    Args:
        times: Of eager mode.
        beside: Eager mode beside a second process that runs the same.
    """
    if times is None or beside is None:
        return None
    spread = (times.q3 - times.q1) / times.median if times.median else 0.0
    is_noisy = abs(math.log(beside.ratio)) > _NOISY_RATIO or spread > _NOISY_SPREAD
    return Noise(ratio=beside.ratio, spread=spread, is_noisy=is_noisy)


def judged(speedup: Speedup | None, noise: Noise | None) -> Judgement:
    """What a speed-up says: it counts only beyond what two processes of the same program differ by.

    Args:
        speedup: The variant beside eager mode.
        noise: How steady the machine was.
    """
    if speedup is None:
        return "unknown"
    least = PROCESSES_DIFFER if noise is None else max(PROCESSES_DIFFER, abs(math.log(noise.ratio)))
    return change_of(1 / speedup.ratio, 1 / speedup.high, 1 / speedup.low, noise=least)


def break_even(compile_s: float | None, eager: CallTimes | None, speedup: Speedup | None) -> BreakEven | None:
    """After how many calls compiling has paid; None if it never does, or something is unknown.

    Args:
        compile_s: Seconds that compiling adds.
        eager: Times of eager mode.
        speedup: The variant beside it.
    """
    if compile_s is None or eager is None or speedup is None:
        return None
    calls = _calls(compile_s, eager, speedup.ratio)
    soonest = _calls(compile_s, eager, speedup.high)
    if calls is None or soonest is None:
        return None
    return BreakEven(calls=calls, low=soonest, high=_calls(compile_s, eager, speedup.low))


def _calls(compile_s: float, eager: CallTimes, ratio: float) -> int | None:
    saved_s = eager.median / 1e6 * (1 - 1 / ratio)
    if saved_s <= 0:
        return None
    # Rounded first: 50,000.000000000001 calls are 50,000.
    return math.ceil(round(max(compile_s, 0.0) / saved_s, 6))

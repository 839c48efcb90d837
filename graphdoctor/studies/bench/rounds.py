"""Times the steady calls of several processes in rounds, in which each has its turn: drift of the
machine hits all.

Then says what the times say: whether one is faster, and after how many calls it has paid.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from graphdoctor.facts.bench import (
    PROCESSES_DIFFER,
    BreakEven,
    CallTimes,
    Judgement,
    Noise,
    Speedup,
)
from graphdoctor.probe.wire import BenchTurn
from graphdoctor.trials.timing import LOOKS, MIN_TURNS, ServedProbe, change_of, interval, is_decided

TURN_S = 0.04
"""Seconds for which each variant repeats its call in a round, or makes one longer call."""

_MAX_S = 1.5
_MAX_PRECISE_S = 6.0
"""Most seconds for each process, but for two turns."""

BEST = 3
"""The shortest rounds of a call that waits for its host, which held it up least. They agree as two
processes do."""

_NOISY_RATIO = 0.05
_NOISY_SPREAD = 0.2
NEAR = 0.1
"""More than two processes that run the same differ by, as a difference of logarithms."""

_PRECISE = 0.01
"""Ends of an interval this close to the ratio are close enough."""


@dataclass
class Turns:
    """Times of one process. ``peak_memory_bytes``: the most memory; None if unknown."""

    medians_us: list[float] = field(default_factory=list)
    times_us: list[float] = field(default_factory=list)
    alone_us: list[float] = field(default_factory=list)
    call_count: int = 0
    peak_memory_bytes: int | None = None

    @property
    def best_us(self) -> list[float]:
        """Its shortest rounds."""
        return sorted(self.medians_us)[:BEST]

    @property
    def is_best_known(self) -> bool:
        """Return whether these agree."""
        return self.best_us[-1] <= (1 + PROCESSES_DIFFER) * self.best_us[0]


def time_rounds(
    probes: Mapping[str, ServedProbe],
    reference: str,
    on_round: Callable[[int, Mapping[str, Turns]], None],
    *,
    is_precise: bool,
    is_on_gpu: bool = False,
) -> dict[str, Turns]:
    """Time all of them until it is known which are faster than the reference, or by how much
    precisely; or a while.

    ``is_on_gpu``: calls may wait for their host, whose speed changes, so the shortest rounds of
    each must agree, too.
    """
    timed = {name: Turns() for name in probes}
    running = list(probes)
    spent_s = 0.0
    most_s = (_MAX_PRECISE_S if is_precise else _MAX_S) * len(probes)
    count = 0
    while reference in running:
        on_round(count + 1, timed)
        # Each begins as often as any other, and follows another one each time.
        first = count % len(running)
        order = [*running[first:], *running[:first]]
        round_s = 0.0
        for name in order if count % 2 == 0 else reversed(order):
            turn = cast("BenchTurn | None", probes[name].ask({"seconds": TURN_S}))
            if turn is None:
                running.remove(name)
                continue
            turns = timed[name]
            turns.medians_us.append(statistics.median(turn["times_us"]))
            turns.times_us += turn["times_us"]
            turns.alone_us += turn["alone_us"]
            turns.call_count += len(turn["times_us"]) * turn["calls"]
            turns.peak_memory_bytes = turn["peak_memory_bytes"]
            round_s += (sum(turn["times_us"]) * turn["calls"] + sum(turn["alone_us"])) / 1e6
        count += 1
        spent_s += round_s
        if count >= MIN_TURNS and spent_s + round_s > most_s:
            break
        is_known = not is_on_gpu or all(timed[name].is_best_known for name in running)
        is_enough = (
            count in LOOKS
            and is_known
            and _is_enough(timed, running, reference, is_precise=is_precise)
        )
        if count >= LOOKS[-1] or is_enough:
            break
    return timed


def _ratios(turns: Turns, reference: Turns) -> list[float]:
    pairs = zip(reference.medians_us, turns.medians_us, strict=False)
    return [other / mine for other, mine in pairs if mine > 0 and other > 0]


def speedup(turns: Turns, reference: Turns, *, is_of_best: bool = False) -> Speedup | None:
    """Return the speed-up over the reference; None with too few rounds. ``is_of_best``: in the best
    rounds of each.
    """
    ratios = _ratios(turns, reference)
    if len(ratios) < MIN_TURNS:
        return None
    if is_of_best and len(ratios) >= BEST:
        (least, mine, most), (other_least, other, other_most) = turns.best_us, reference.best_us
        low, high = other_least / most, other_most / least
        return Speedup(ratio=other / mine, low=low, high=high, rounds=len(ratios), is_of_best=True)
    low, high = interval(ratios)
    return Speedup(ratio=statistics.median(ratios), low=low, high=high, rounds=len(ratios))


def _is_enough(
    timed: Mapping[str, Turns], running: list[str], reference: str, *, is_precise: bool
) -> bool:
    others = [timed[name] for name in running if name != reference]
    if not is_precise:
        return all(is_decided(_ratios(turns, timed[reference])) for turns in others)
    ratios = [speedup(turns, timed[reference]) for turns in others]
    return all(
        ratio is not None
        and ratio.high - ratio.ratio <= _PRECISE * ratio.ratio >= ratio.ratio - ratio.low
        for ratio in ratios
    )


# What times say.


def noise_of(times: CallTimes | None, beside: Speedup | None) -> Noise | None:
    """Judge how steady the machine was while eager mode was timed.

    ``beside``: eager mode beside a second process that runs the same, if there was one.
    """
    if times is None:
        return None
    spread = (times.q3 - times.q1) / times.median if times.median else 0.0
    ratio = None if beside is None else beside.ratio
    is_noisy = spread > _NOISY_SPREAD or (ratio is not None and abs(math.log(ratio)) > _NOISY_RATIO)
    return Noise(ratio=ratio, spread=spread, is_noisy=is_noisy)


def judged(speedup: Speedup | None, noise: Noise | None) -> Judgement:
    """Judge a speed-up: it counts only beyond what two processes of the same program differ by.

    Where single calls scatter much, a process may have been disturbed more than another in all of
    its turns, and a speed-up counts beyond that.
    """
    if speedup is None:
        return "unknown"
    least = PROCESSES_DIFFER
    if noise is not None:
        is_scattered = noise.spread > _NOISY_SPREAD and not speedup.is_of_best
        scattered = noise.spread / 2 if is_scattered else 0.0
        least = max(least, scattered, 0.0 if noise.ratio is None else abs(math.log(noise.ratio)))
    return change_of(1 / speedup.ratio, 1 / speedup.high, 1 / speedup.low, noise=least)


def break_even(
    compile_s: float | None, eager_us: float | None, speedup: Speedup | None
) -> BreakEven | None:
    """Return after how many calls compiling has paid; None if it never does, or something is
    unknown.
    """
    if compile_s is None or eager_us is None or speedup is None:
        return None

    def calls(ratio: float) -> int | None:
        saved_s = eager_us / 1e6 * (1 - 1 / ratio)
        # Rounded first: 50,000.000000000001 calls are 50,000.
        return math.ceil(round(max(compile_s, 0.0) / saved_s, 6)) if saved_s > 0 else None

    count, soonest = calls(speedup.ratio), calls(speedup.high)
    if count is None or soonest is None:
        return None
    return BreakEven(calls=count, low=soonest, high=calls(speedup.low))

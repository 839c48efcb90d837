"""Times the steady calls of several processes in rounds, in which each has its turn: drift of the machine hits all."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from graphdoctor.facts.bench import CallTimes, Speedup
from graphdoctor.studies.bench.probes import BenchProbe
from graphdoctor.trials.confidence import LOOKS, MIN_TURNS, interval

_MAX_S = 6.0
"""Most seconds for each process, but for two turns."""

_PRECISE = 0.01
"""Ends of an interval this close to the ratio are close enough."""


@dataclass
class Turns:
    """What one process was timed at.

    Args:
        medians_us: The median of each turn.
        times_us: Of each block of calls, the time of a call.
        call_count: How many calls that were.
        peak_memory_bytes: The most memory; None if unknown.
    """

    medians_us: list[float] = field(default_factory=list)
    times_us: list[float] = field(default_factory=list)
    call_count: int = 0
    peak_memory_bytes: int | None = None

    def call_times(self) -> CallTimes | None:
        """All its calls; None if there was no turn."""
        return CallTimes.of(self.times_us, self.call_count)


def time_rounds(probes: Mapping[str, BenchProbe], reference: str, on_round: Callable[[int], None]) -> dict[str, Turns]:
    """Time all of them until their ratios are known precisely, or for a while.

    Args:
        probes: The processes by name, each steady; one that ends meanwhile is left out from then on.
        reference: The name of the one that the others are compared with.
        on_round: Called with the number of each round.
    """
    found = {name: Turns() for name in probes}
    running = list(probes)
    spent_s = 0.0
    most_s = _MAX_S * len(probes)
    count = 0
    while reference in running:
        on_round(count + 1)
        # Each begins as often as any other, and follows another one each time.
        first = count % len(running)
        order = [*running[first:], *running[:first]]
        round_s = 0.0
        for name in order if count % 2 == 0 else reversed(order):
            turn = probes[name].turn()
            if turn is None:
                running.remove(name)
                continue
            turns = found[name]
            turns.medians_us.append(statistics.median(turn["times_us"]))
            turns.times_us += turn["times_us"]
            turns.call_count += len(turn["times_us"]) * turn["calls"]
            turns.peak_memory_bytes = turn["peak_memory_bytes"]
            round_s += sum(turn["times_us"]) * turn["calls"] / 1e6
        count += 1
        spent_s += round_s
        if count >= MIN_TURNS and spent_s + round_s > most_s:
            break
        if count >= LOOKS[-1] or (count in LOOKS and _are_precise(found, running, reference)):
            break
    return found


def speedup(turns: Turns, reference: Turns) -> Speedup | None:
    """How many times as fast as the reference; None with too few rounds.

    Args:
        turns: The variant's.
        reference: Eager mode's, in the same rounds.
    """
    pairs = zip(reference.medians_us, turns.medians_us, strict=False)
    ratios = [other / mine for other, mine in pairs if mine > 0 and other > 0]
    if len(ratios) < MIN_TURNS:
        return None
    low, high = interval(ratios)
    return Speedup(ratio=statistics.median(ratios), low=low, high=high, rounds=len(ratios))


def _are_precise(found: Mapping[str, Turns], running: list[str], reference: str) -> bool:
    ratios = [speedup(found[name], found[reference]) for name in running if name != reference]
    return all(
        ratio is not None and ratio.high - ratio.ratio <= _PRECISE * ratio.ratio >= ratio.ratio - ratio.low
        for ratio in ratios
    )

"""Rounds, in which each process has its turn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from graphdoctor.facts.bench import CallTimes
from graphdoctor.probe.wire import BenchTurn
from graphdoctor.studies.bench.rounds import Turns, speedup, time_rounds
from tests.each import for_each


class Process:
    """Stands for a process whose call takes so long; it ends after some turns, if asked to.

    ``held_up``: how many times as long it takes in its first turns.
    """

    def __init__(
        self,
        name: str,
        log: list[str],
        us: float,
        *,
        noise: float = 0.0,
        turns: int = 1000,
        held_up: Sequence[float] = (),
    ) -> None:
        self.name, self.log, self.us, self.noise, self.left = name, log, us, noise, turns
        self.random, self.held_up = random.Random(name), [*held_up]

    def ask(self, _question: object) -> BenchTurn | None:
        if not self.left:
            return None
        self.left -= 1
        self.log.append(self.name)
        us = self.us * (self.held_up.pop(0) if self.held_up else 1.0)
        times = [us * self.random.uniform(1 - self.noise, 1 + self.noise) for _ in range(3)]
        return BenchTurn(times_us=times, calls=2, alone_us=times[:1], peak_memory_bytes=7)


def timed(
    *processes: Process,
    is_precise: bool = True,
    told: list[int] | None = None,
    is_on_gpu: bool = False,
) -> dict[str, Turns]:
    probes: Any = {process.name: process for process in processes}
    rounds = [] if told is None else told
    return time_rounds(
        probes,
        processes[0].name,
        lambda number, _found: rounds.append(number),
        is_precise=is_precise,
        is_on_gpu=is_on_gpu,
    )


def test_each_process_has_one_turn_per_round_in_changing_order():
    log: list[str] = []
    found = timed(Process("a", log, 1000.0), Process("b", log, 500.0), Process("c", log, 2000.0))
    rounds = [log[start : start + 3] for start in range(0, len(log), 3)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert {one[0] for one in rounds} == {"a", "b", "c"}
    assert found["a"].call_count == len(rounds) * 3 * 2
    assert found["b"].peak_memory_bytes == 7


def test_timing_ends_early_once_all_ratios_are_precise():
    log: list[str] = []
    timed(Process("a", log, 1000.0), Process("b", log, 500.0))
    assert len(log) == 2 * 8
    log.clear()
    timed(Process("a", log, 1000.0, noise=0.3), Process("b", log, 500.0, noise=0.3))
    assert len(log) == 2 * 64


@for_each(
    "us, noise, count",
    # One that is as fast, for certain, needs no more either.
    [(400.0, 0.3, 8), (1001.0, 0.001, 8), (1000.0, 0.3, None)],
)
def test_timing_ends_once_it_is_known_which_is_faster(us, noise, count):
    log: list[str] = []
    told: list[int] = []
    processes = [Process("a", log, 1000.0, noise=noise), Process("b", log, us, noise=noise)]
    found = timed(*processes, is_precise=False, told=told)
    assert told == list(range(1, len(found["b"].medians_us) + 1))
    assert len(told) == count if count else len(told) > 8


@for_each("is_on_gpu, rounds", [(False, 8), (True, 16)])
def test_on_a_gpu_the_shortest_rounds_must_agree(is_on_gpu, rounds):
    log: list[str] = []
    held_up = [2.0, 1.8, 1.6, 1.9, 1.4, 1.3, 1.2, 1.1]
    eager, compiled = Process("a", log, 1000.0, held_up=held_up), Process("b", log, 500.0)
    found = timed(eager, compiled, is_precise=False, is_on_gpu=is_on_gpu)
    assert len(found["a"].medians_us) == rounds
    assert found["a"].is_best_known is is_on_gpu
    if is_on_gpu:
        assert speedup(found["b"], found["a"], is_of_best=True).ratio == pytest.approx(2.0)


def test_best_rounds_are_of_undisturbed_calls():
    eager = Turns(medians_us=[4700.0, 7700.0, 4800.0, 7500.0, 4750.0, 7600.0, 7700.0])
    compiled = Turns(medians_us=[4600.0, 3100.0, 4900.0, 3150.0, 4800.0, 5000.0, 3200.0])
    best = speedup(compiled, eager, is_of_best=True)
    assert (best.ratio, best.rounds, best.is_of_best) == (4750 / 3150, 7, True)
    assert (best.low, best.high) == (4700 / 3200, 4800 / 3100)
    assert speedup(compiled, eager).low < 1.0
    # Two rounds have no best ones.
    few = [Turns(medians_us=each.medians_us[:2]) for each in (compiled, eager)]
    assert speedup(*few, is_of_best=True).is_of_best is False


def test_timing_ends_when_the_reference_process_does():
    log: list[str] = []
    found = timed(
        Process("a", log, 1000.0), Process("b", log, 500.0, turns=3), Process("c", log, 700.0)
    )
    assert len(found["b"].medians_us) == 3
    assert len(found["c"].medians_us) == 8
    found = timed(Process("a", log, 1000.0, turns=1), Process("b", log, 500.0))
    assert len(found["a"].medians_us) == 1
    assert speedup(found["b"], found["a"]) is None


def test_call_times_are_those_of_all_blocks():
    found = CallTimes.of([1.0, 2.0, 3.0, 4.0, 5.0], 50)
    assert (found.min, found.q1, found.median, found.q3, found.max) == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert (found.mean, found.count) == (pytest.approx(3.0), 50)
    alone = CallTimes.of([4.0], 1)
    assert (alone.q1, alone.median, alone.q3) == (4.0, 4.0, 4.0)
    assert CallTimes.of([]) is None

"""Rounds, in which each process has its turn."""

from __future__ import annotations

import random
from typing import Any

import pytest

from graphdoctor.probe.wire import BenchTurn
from graphdoctor.studies.bench.rounds import Turns, speedup, time_rounds


class Process:
    """Stands for a process whose call takes so long; it ends after some turns, if asked to."""

    def __init__(self, name: str, log: list[str], us: float, *, noise: float = 0.0, turns: int = 1000) -> None:
        self.name, self.log, self.us, self.noise, self.left = name, log, us, noise, turns
        self.random = random.Random(name)

    def ask(self, _question: object) -> BenchTurn | None:
        if not self.left:
            return None
        self.left -= 1
        self.log.append(self.name)
        times = [self.us * self.random.uniform(1 - self.noise, 1 + self.noise) for _ in range(3)]
        return BenchTurn(times_us=times, calls=2, alone_us=times[:1], peak_memory_bytes=7)


def timed(*processes: Process, is_precise: bool = True, told: list[int] | None = None) -> dict[str, Turns]:
    probes: Any = {process.name: process for process in processes}
    rounds = [] if told is None else told
    return time_rounds(probes, processes[0].name, lambda number, _found: rounds.append(number), is_precise=is_precise)


def test_each_is_timed_once_in_a_round_and_none_always_comes_first():
    log: list[str] = []
    found = timed(Process("a", log, 1000.0), Process("b", log, 500.0), Process("c", log, 2000.0))
    rounds = [log[start : start + 3] for start in range(0, len(log), 3)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert {one[0] for one in rounds} == {"a", "b", "c"}
    assert found["a"].call_count == len(rounds) * 3 * 2
    assert found["b"].peak_memory_bytes == 7


def test_the_speed_up_is_the_ratio_of_each_round_with_an_interval_that_holds_it():
    log: list[str] = []
    found = timed(Process("a", log, 1000.0, noise=0.05), Process("b", log, 500.0, noise=0.05))
    ratio = speedup(found["b"], found["a"])
    assert ratio.low < 2.0 < ratio.high
    assert ratio.rounds == len(log) // 2


def test_timing_ends_early_once_all_ratios_are_precise():
    log: list[str] = []
    timed(Process("a", log, 1000.0), Process("b", log, 500.0))
    assert len(log) == 2 * 8
    log.clear()
    timed(Process("a", log, 1000.0, noise=0.3), Process("b", log, 500.0, noise=0.3))
    assert len(log) == 2 * 64


def test_timing_ends_where_it_is_known_which_is_faster_unless_precision_is_asked_for():
    log: list[str] = []
    told: list[int] = []
    timed(Process("a", log, 1000.0, noise=0.3), Process("b", log, 400.0, noise=0.3), is_precise=False, told=told)
    assert told == list(range(1, 9))
    log.clear()
    found = timed(Process("a", log, 1000.0, noise=0.3), Process("b", log, 1000.0, noise=0.3), is_precise=False)
    assert len(found["b"].medians_us) > 8
    log.clear()
    # One that is as fast, for certain, needs no more either.
    found = timed(Process("a", log, 1000.0, noise=0.001), Process("b", log, 1001.0, noise=0.001), is_precise=False)
    assert len(found["b"].medians_us) == 8


def test_long_calls_get_two_rounds_at_least():
    log: list[str] = []
    found = timed(Process("a", log, 60e6), Process("b", log, 30e6))
    assert log == ["a", "b", "a", "b"] or len(log) == 4
    assert speedup(found["b"], found["a"]) is not None


def test_a_process_that_ends_leaves_the_others_to_go_on_and_without_the_reference_timing_ends():
    log: list[str] = []
    found = timed(Process("a", log, 1000.0), Process("b", log, 500.0, turns=3), Process("c", log, 700.0))
    assert len(found["b"].medians_us) == 3
    assert len(found["c"].medians_us) == 8
    found = timed(Process("a", log, 1000.0, turns=1), Process("b", log, 500.0))
    assert len(found["a"].medians_us) == 1
    assert speedup(found["b"], found["a"]) is None


def test_call_times_are_those_of_all_blocks():
    turns = Turns(medians_us=[2.0], times_us=[1.0, 2.0, 3.0, 4.0, 5.0], call_count=50)
    found = turns.call_times()
    assert (found.min, found.q1, found.median, found.q3, found.max) == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert found.mean == pytest.approx(3.0)
    assert found.count == 50
    assert Turns().call_times() is None
    assert Turns().alone_times() is None
    assert Turns(alone_us=[3.0, 1.0]).alone_times().median == 2.0
    alone = Turns(times_us=[4.0], call_count=1).call_times()
    assert (alone.q1, alone.median, alone.q3) == (4.0, 4.0, 4.0)

"""Rounds, in which each process has its turn."""

import math
import random
from pathlib import Path

import pytest

from graphdoctor.facts.bench import CallTimes, Noise, Speedup
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.spec import RunSpec
from graphdoctor.probe.wire import BenchStart, BenchTurn
from graphdoctor.studies.bench.rounds import (
    Turns,
    break_even,
    judged,
    noise_of,
    speedup,
    time_rounds,
)
from graphdoctor.studies.bench.side_by_side import NEEDS_CUDA, SideBySide, Way
from graphdoctor.studies.bench.variants import VariantSpec
from graphdoctor.trials.program import Program
from tests.each import for_each


class Process:
    """Stands for a process whose call takes so long; it ends after some turns, if asked to.

    ``held_up``: how many times as long it takes in its first turns.
    """

    def __init__(self, name, log, us, *, noise=0.0, turns=1000, held_up=()):
        self.name, self.log, self.us, self.noise, self.left = name, log, us, noise, turns
        self.random, self.held_up = random.Random(name), [*held_up]

    def ask(self, _question):
        if not self.left:
            return None
        self.left -= 1
        self.log.append(self.name)
        us = self.us * (self.held_up.pop(0) if self.held_up else 1.0)
        times = [us * self.random.uniform(1 - self.noise, 1 + self.noise) for _ in range(3)]
        return BenchTurn(times_us=times, calls=2, alone_us=times[:1], peak_memory_bytes=7)


def timed(*processes, is_precise=True, told=None, is_on_gpu=False):
    probes = {process.name: process for process in processes}
    rounds = [] if told is None else told
    return time_rounds(
        probes,
        processes[0].name,
        lambda number, _found: rounds.append(number),
        is_precise=is_precise,
        is_on_gpu=is_on_gpu,
    )


def test_each_process_has_one_turn_per_round_in_changing_order():
    log = []
    found = timed(Process("a", log, 1000.0), Process("b", log, 500.0), Process("c", log, 2000.0))
    rounds = [log[start : start + 3] for start in range(0, len(log), 3)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert {one[0] for one in rounds} == {"a", "b", "c"}
    assert found["a"].call_count == len(rounds) * 3 * 2
    assert found["b"].peak_memory_bytes == 7


@for_each(
    "us, noise, count",
    # One that is as fast, for certain, needs no more either.
    [(400.0, 0.3, 8), (1001.0, 0.001, 8), (1000.0, 0.3, None)],
)
def test_timing_ends_once_it_is_known_which_is_faster(us, noise, count):
    log = []
    told = []
    processes = [Process("a", log, 1000.0, noise=noise), Process("b", log, us, noise=noise)]
    found = timed(*processes, is_precise=False, told=told)
    assert told == list(range(1, len(found["b"].medians_us) + 1))
    assert len(told) == count if count else len(told) > 8


@for_each("is_on_gpu, rounds", [(False, 8), (True, 16)])
def test_on_a_gpu_the_shortest_rounds_must_agree(is_on_gpu, rounds):
    log = []
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
    log = []
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


# What times say.


QUIET = Noise(ratio=1.0, spread=0.02, is_noisy=False)


def times(median=1000.0, *, q1=None, q3=None):
    return CallTimes(
        median=median,
        q1=q1 or median,
        q3=q3 or median,
        min=median,
        max=median,
        mean=median,
        count=100,
    )


def ratio(middle, low, high, *, is_of_best=False):
    return Speedup(ratio=middle, low=low, high=high, rounds=16, is_of_best=is_of_best)


@for_each(
    "speedup, noise, expected",
    [
        (ratio(1.5, 1.4, 1.6), QUIET, "faster"),
        (ratio(0.7, 0.6, 0.8), QUIET, "slower"),
        (ratio(1.5, 0.9, 2.5), QUIET, "same"),
        (ratio(1.02, 1.01, 1.03), QUIET, "same"),
        (ratio(0.98, 0.97, 0.99), QUIET, "same"),
        (ratio(1.10, 1.08, 1.12), Noise(ratio=0.88, spread=0.02, is_noisy=True), "same"),
        (ratio(1.10, 1.08, 1.12), None, "faster"),
        (ratio(1.10, 1.08, 1.12), Noise(ratio=None, spread=0.02, is_noisy=False), "faster"),
        (ratio(1.32, 1.18, 1.51), Noise(ratio=1.01, spread=0.9, is_noisy=True), "same"),
        (
            ratio(1.32, 1.31, 1.35, is_of_best=True),
            Noise(ratio=1.01, spread=0.9, is_noisy=True),
            "faster",
        ),
        (
            ratio(1.32, 1.31, 1.35, is_of_best=True),
            Noise(ratio=1.4, spread=0.9, is_noisy=True),
            "same",
        ),
        (ratio(2.5, 2.4, 2.6), Noise(ratio=1.01, spread=0.9, is_noisy=True), "faster"),
        (ratio(0.4, 0.3, 0.5), Noise(ratio=None, spread=8.8, is_noisy=True), "same"),
        (ratio(1.10, 1.08, 1.12), Noise(ratio=1.0, spread=0.15, is_noisy=False), "faster"),
        (None, QUIET, "unknown"),
    ],
)
def test_only_certain_differences_beyond_noise_count(speedup, noise, expected):
    assert judged(speedup, noise) == expected


def test_equal_processes_that_differ_make_a_machine_noisy():
    assert noise_of(times(), ratio(1.01, 1.0, 1.02)) == Noise(
        ratio=1.01, spread=0.0, is_noisy=False
    )
    apart = noise_of(times(), ratio(1.2, 1.1, 1.3))
    scattered = noise_of(times(q1=800.0, q3=1200.0), ratio(1.0, 0.9, 1.1))
    assert apart.is_noisy
    assert scattered.is_noisy
    assert noise_of(None, None) is None
    assert noise_of(times(), None) == Noise(ratio=None, spread=0.0, is_noisy=False)
    assert noise_of(times(q1=800.0, q3=1200.0), None).is_noisy


def test_compiling_pays_when_so_many_calls_have_saved_its_time():
    found = break_even(10.0, 1000.0, ratio(2.0, 1.25, 4.0))
    # 500 µs saved in each call, and 200 or 750 at the ends of the interval.
    assert (found.calls, found.low, found.high) == (20_000, math.ceil(10 / 750e-6), 50_000)


def test_an_interval_that_holds_1_has_no_end():
    assert break_even(1.0, 1000.0, ratio(1.5, 0.99, 2.0)).high is None
    assert break_even(1.0, 1000.0, ratio(0.9, 0.8, 1.1)) is None
    assert break_even(None, 1000.0, ratio(2.0, 1.9, 2.1)) is None
    assert break_even(0.0, 1000.0, ratio(2.0, 1.9, 2.1)).calls == 0


# What the times of a variant become.


BASE = RunSpec(target="model.py", backend="inductor")


def on_phase(_phase):
    pass


def start(excess_s=0.5, **more):
    given = {
        "is_steady": True,
        "excess_s": excess_s,
        "passes": 4,
        "call_count": 1,
        "inputs": "f32[8, 16]",
        "items": {"count": 8, "unit": "samples"},
        "cache": None,
        "uses_cuda": False,
        "peak_memory_bytes": 100,
    }
    return BenchStart(**given | more)


def turns(us):
    return Turns(medians_us=[us] * 8, times_us=[us] * 24, call_count=24, peak_memory_bytes=100)


def eager(**more):
    spec = VariantSpec("eager", is_eager=True)
    return Way(spec, cold=start(), warm=start(), turns=turns(1000.0), beside=turns(1000.0), **more)


def default(us, cold_s, **warm):
    """``default``, whose call takes so long; it was timed beside eager mode's of 1 ms."""
    started = {"excess_s": cold_s, **warm}
    return Way(
        VariantSpec("default"),
        cold=None if cold_s is None else start(cold_s),
        warm=start(**{name: value for name, value in started.items() if value is not None}),
        turns=turns(us),
        beside=turns(1000.0),
    )


def shown(way, reference=None):
    ways = SideBySide(None, BASE, Program(), Path(), on_phase)
    ways.eager = reference or eager()
    return ways.variant(way)


def test_compile_time_is_the_excess_over_eager_modes_first_calls():
    found = shown(default(500.0, 10.5, excess_s=3.5))
    assert (found.compile_cold_s, found.compile_warm_s) == (10.0, 3.0)
    assert (found.break_even_calls, found.break_even_warm.calls) == (20_000, 6_000)
    assert (found.judgement, found.speedup.ratio, found.throughput) == ("faster", 2.0, 16_000.0)


def test_without_a_cold_start_the_warm_one_counts():
    cache = {"hits": 2, "misses": 1, "bypasses": 0}
    found = shown(default(500.0, None, excess_s=3.5, cache=cache))
    assert (found.compile_cold_s, found.compile_warm_s, found.compile_s) == (None, 3.0, 3.0)
    assert (found.break_even_cold, found.break_even_calls) == (None, 6_000)
    assert (found.cache.hits, found.cache.misses) == (2, 1)


@for_each(
    "one, status, reason",
    [
        (
            Way(VariantSpec("default"), cold=start(is_steady=False, passes=12)),
            "failed",
            "it never stops compiling: not in 12 rounds of the calls",
        ),
        (
            Way(
                VariantSpec("default"),
                ended=ProbeExit(status=None, reason="timeout", message="Stopped after 600 s."),
            ),
            "failed",
            "Stopped after 600 s",
        ),
        (
            Way(VariantSpec("default"), ended=ProbeExit(status=None, reason="error")),
            "failed",
            "its process ended early",
        ),
        (Way(VariantSpec("x", {"mode": "reduce-overhead"})), "skipped", NEEDS_CUDA),
    ],
)
def test_a_variant_without_times_says_why(one, status, reason):
    found = shown(one)
    assert (found.status, found.reason, found.call_us, found.judgement) == (
        status,
        reason,
        None,
        "unknown",
    )


def test_without_eager_mode_nothing_can_be_compared():
    failed = Way(
        VariantSpec("eager", is_eager=True),
        ended=ProbeExit(status=None, reason="error", message="It raised."),
    )
    one = Way(VariantSpec("default"))
    assert shown(failed, failed).status == "failed"
    assert shown(failed, failed).reason == "It raised"
    assert (shown(one, failed).status, shown(one, failed).reason) == (
        "skipped",
        "the program fails without torch.compile",
    )


class Devices(SideBySide):
    """Stands for processes on a GPU, which works so long for a call of each."""

    def __init__(self, **device_us):
        super().__init__(None, BASE, Program(), Path(), on_phase)
        self.device_us = device_us
        self.eager.warm = start(uses_cuda=True)

    def start(self, ways):
        for way in ways:
            way.warm = start(3.5, uses_cuda=True)

    def time(self, ways, *, is_precise=False):
        assert not is_precise
        medians_us = [4700.0, 4750.0, 4800.0, *[7000.0] * 5]
        self.eager.turns = Turns(medians_us=medians_us, times_us=[7000.0] * 8, call_count=8)
        for way in ways:
            way.turns, way.beside = turns(3100.0), self.eager.turns

    def _profile_devices(self, ways):
        for way in ways:
            way.device_us = self.device_us[way.name]


@for_each(
    "eager_us, compiled_us, is_of_best, waiting",
    [
        (2100.0, 1620.0, True, [True, True]),
        (2100.0, 3000.0, True, [True, False]),
        (6900.0, 3000.0, False, [False, False]),
        (None, None, False, [False, False]),
    ],
)
def test_best_rounds_count_when_a_call_waits_for_its_host(
    eager_us, compiled_us, is_of_best, waiting
):
    ways, default = Devices(eager=eager_us, default=compiled_us), Way(VariantSpec("default"))
    ways.time_all([default], 12, is_precise=False)
    variants = [ways.variant(way) for way in (ways.eager, default)]
    assert [variant.waits_for_host for variant in variants] == waiting
    assert [variant.device_us for variant in variants] == [eager_us, compiled_us]
    assert [variant.time_us for variant in variants] == (
        [4750.0, 3100.0] if is_of_best else [7000.0, 3100.0]
    )
    assert variants[1].speedup.is_of_best is is_of_best
    assert variants[1].speedup.ratio == (4750 / 3100 if is_of_best else 7000 / 3100)
    # What is won back is counted in the same times.
    assert variants[1].break_even_warm.calls == (1819 if is_of_best else 770)

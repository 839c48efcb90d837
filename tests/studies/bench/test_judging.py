"""What times say: faster, slower or the same, and after how many calls it pays."""

from __future__ import annotations

import math

from graphdoctor.facts.bench import CallTimes, Noise, Speedup
from graphdoctor.studies.bench.rounds import break_even, judged, noise_of
from tests.each import for_each

QUIET = Noise(ratio=1.0, spread=0.02, is_noisy=False)


def times(median: float = 1000.0, *, q1: float | None = None, q3: float | None = None) -> CallTimes:
    return CallTimes(
        median=median,
        q1=q1 or median,
        q3=q3 or median,
        min=median,
        max=median,
        mean=median,
        count=100,
    )


def ratio(middle: float, low: float, high: float, *, is_of_best: bool = False) -> Speedup:
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

"""Intervals of ratios: how often equal programs seem to differ, though the turns are looked at
several times."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable

import pytest

from graphdoctor.trials.timing import LOOKS, SAME, interval, is_decided
from tests.each import for_each

Noise = Callable[[random.Random], float]


def quiet(rng: random.Random) -> float:
    return rng.lognormvariate(0, 0.03)


def interrupted(rng: random.Random) -> float:
    """One turn in five falls on a busy machine."""
    return rng.lognormvariate(0, 0.02 if rng.random() < 0.8 else 0.5)


def delayed(rng: random.Random) -> float:
    """Times have a long tail on one side."""
    return (1 + rng.expovariate(10)) / (1 + rng.expovariate(10))


NOISES = [quiet, interrupted, delayed]


def timed(noise: Noise, rng: random.Random, *, ratio: float = 1.0, most: int = 120) -> list[float]:
    """Turns until they decide, or until there is no more time."""
    ratios: list[float] = []
    while len(ratios) < most and not is_decided(ratios):
        ratios.append(ratio * noise(rng))
    return ratios


def is_different(ratios: list[float]) -> bool:
    low, high = interval(ratios)
    return not low <= 1 <= high


@pytest.mark.slow
@pytest.mark.parametrize("most", [2, 3, 5, 7, 120])
@pytest.mark.parametrize("noise", NOISES)
def test_equal_programs_rarely_seem_to_differ_however_often_one_looks(noise, most):
    rng = random.Random(5)
    assert (
        statistics.fmean([is_different(timed(noise, rng, most=most)) for _ in range(1000)]) <= 0.05
    )


@for_each("ratio", [0.7, 0.9, 1.1, 2.0])
@for_each("noise", [quiet, interrupted])
def test_a_difference_is_found_and_soon(noise, ratio):
    rng = random.Random(5)
    samples = [timed(noise, rng, ratio=ratio) for _ in range(200)]
    assert statistics.fmean(map(is_different, samples)) > 0.99
    assert all(
        (statistics.median(sample) > 1) == (ratio > 1) for sample in samples if is_different(sample)
    )
    assert statistics.median(map(len, samples)) <= LOOKS[1]


@for_each("noise", NOISES)
def test_the_interval_holds_the_true_ratio(noise):
    rng = random.Random(5)
    intervals = [interval(timed(noise, rng, ratio=1.03)) for _ in range(1000)]
    assert statistics.fmean(low <= 1.03 <= high for low, high in intervals) >= 0.95


def test_equal_within_the_margin_is_decided_too():
    assert is_decided([1 - SAME / 2, 1 + SAME / 2] * 4)
    assert not is_decided([1 - 2 * SAME, 1 + 2 * SAME] * 4)

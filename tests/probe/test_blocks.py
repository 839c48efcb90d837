"""Calls that are timed in blocks."""

from __future__ import annotations

import pytest

from graphdoctor.probe.measure.timing import Block, time_block


def test_short_calls_are_timed_together_and_long_ones_alone():
    assert Block(seconds=0.0001).number == 10
    assert Block(seconds=0.5).number == 1
    assert Block(seconds=0.0).number == 10_000
    made: list[int] = []
    times = time_block(lambda: made.append(1), Block(seconds=0.0001), seconds=0.0)
    assert len(times) == 1
    # One more call warms the caches.
    assert len(made) == 10 + 1


def test_each_call_starts_from_the_arguments_as_they_were():
    values = [1.0]
    seen: list[float] = []

    def call() -> None:
        seen.append(values[0])
        values[0] *= 0.5

    def restore() -> None:
        values[0] = 1.0

    block = Block(seconds=0.0001, restore=restore)
    times = time_block(call, block, seconds=0.01)
    assert block.number == 1
    assert len(times) > 1
    assert set(seen) == {1.0}


def test_restoring_is_not_in_the_time(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr("time.sleep", lambda _seconds: None)

    def spend(seconds: float) -> None:
        now[0] += seconds

    block = Block(seconds=1.0, restore=lambda: spend(5.0))
    assert time_block(lambda: spend(1.0), block, seconds=10.0) == [1e6, 1e6]

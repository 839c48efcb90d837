"""How far trials are, by a clock that the test turns."""

from __future__ import annotations

from graphdoctor.facts.progress import TrialCounts, TrialEvent
from graphdoctor.fixes.trials import Eta


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def eta(jobs: int = 1) -> tuple[Eta, Clock, list[TrialEvent]]:
    clock, events = Clock(), list[TrialEvent]()
    return Eta(jobs, events.append, clock=clock), clock, events


def last(events: list[TrialEvent]) -> TrialCounts:
    counts = events[-1]
    assert isinstance(counts, TrialCounts)
    return counts


def test_the_time_that_is_left_is_known_after_the_first_trial() -> None:
    found, clock, events = eta()
    assert found.plan_trials(3) == 1
    with found.running():
        assert last(events) == TrialCounts(1, 3, left_s=None)
        clock.now = 4.0
    assert last(events) == TrialCounts(1, 3, left_s=8.0)
    with found.running():
        clock.now = 5.0
    # 4 s and 1 s, so 2.5 s for the last.
    assert last(events) == TrialCounts(2, 3, left_s=2.5)


def test_trials_that_run_side_by_side_share_the_time() -> None:
    found, clock, events = eta(jobs=2)
    found.plan_trials(5)
    with found.running():
        clock.now = 4.0
    with found.running(), found.running():
        clock.now = 5.0
        with found.running():
            # Three run and one waits, in two jobs.
            assert last(events).left_s == 4 * 4.0 / 2


def test_later_rounds_add_trials() -> None:
    found, _, events = eta()
    found.plan_trials(1)
    with found.running():
        pass
    assert (last(events).trials, last(events).is_open) == (1, True)
    assert found.plan_trials(2) == 2
    with found.running():
        assert (last(events).trial, last(events).trials) == (2, 3)


def test_timings_have_a_time_of_their_own() -> None:
    found, clock, events = eta(jobs=4)
    found.plan_trials(1)
    with found.running():
        clock.now = 100.0
    found.is_open = False
    found.plan_timings(["eager"] * 3)
    with found.running("eager"):
        assert last(events) == TrialCounts(1, 1, timing=1, timings=3, left_s=None, is_open=False)
        clock.now = 110.0
    # One after the other, however many jobs there are.
    assert last(events) == TrialCounts(1, 1, timing=1, timings=3, left_s=20.0, is_open=False)


def test_one_backend_says_nothing_of_how_long_another_takes() -> None:
    found, clock, events = eta()
    found.plan_timings(["eager", "inductor"])
    with found.running("eager") as number:
        assert number == 1
        clock.now = 3.0
    assert last(events) == TrialCounts(0, 0, timing=1, timings=2, left_s=None)
    found.plan_timings(["eager"])
    with found.running("inductor") as number:
        assert number == 2
        clock.now = 18.0
    assert last(events) == TrialCounts(0, 0, timing=2, timings=3, left_s=3.0)


def test_a_trial_that_raises_counts_as_over() -> None:
    found, _, events = eta()
    found.plan_trials(1)
    try:
        with found.running():
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert last(events).left_s == 0.0

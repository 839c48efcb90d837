"""How trials and timings are numbered while they run."""

from __future__ import annotations

from graphdoctor.fixes.trials import Numbers


def test_progress_has_a_number_and_no_growing_total() -> None:
    said: list[str] = []
    numbers = Numbers(said.append, lambda _event: None)
    assert numbers.plan_trials(2) == 1
    numbers.begin_trial()
    numbers.begin_trial()
    assert numbers.plan_trials(1) == 3, "later rounds add trials"
    numbers.begin_trial()
    assert numbers.begin_timing("eager") == 1
    assert numbers.begin_timing("inductor") == 2
    assert said == [
        "trial 1",
        "trial 2",
        "trial 3",
        "timing 1 under eager",
        "timing 2 under inductor",
    ]

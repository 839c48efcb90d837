"""Trials while they run, in words."""

from __future__ import annotations

from dataclasses import replace

from graphdoctor.facts.fixes import PairedTime
from graphdoctor.facts.progress import DecidedTrial, TimedPrograms, TrialCounts
from graphdoctor.views.progress import counts_text, decided_text, left_text, timed_text
from tests.each import for_each


@for_each("left_s, is_open, says", [
        (None, True, ""), (0.0, True, ""), (-3.0, False, ""), (0.4, False, ""),
        (1.0, False, "about 1 second left"), (9.4, True, "at least 9 seconds left"),
        (18.0, False, "about 20 seconds left"), (88.0, False, "about 2 minutes left"),
        (150.0, True, "at least 2 minutes left"),
    ])  # fmt: skip
def test_the_rest_is_an_estimate_and_never_negative(left_s: float | None, is_open: bool, says: str) -> None:
    assert left_text(left_s, is_open=is_open) == says


NEST = DecidedTrial(2, "Nest", (("model.py:3", "verified"),))
SEVERAL = DecidedTrial(2, "Nest", (*NEST.verdicts, ("model.py:5", "no effect"), ("model.py:7", "verified")))


def test_a_line_says_what_has_begun_and_each_verdict_once() -> None:
    timing = TrialCounts(8, 8, timing=2, timings=3, is_open=False)
    said = {
        "trial 3 of 8 · at least 20 seconds left": counts_text(TrialCounts(3, 8), 21.0),
        "trial 8 of 8 · timing 2 of 3 · about 20 seconds left": counts_text(timing, 21.0),
        "trial 8 of 8 · timing 2 of 3": counts_text(timing),
        "trial 2 of 8 · verified · model.py:3 · Nest": decided_text(NEST, TrialCounts(2, 8)),
        "trial 2 of 5 · verified under eager · model.py:3 · Nest": decided_text(
            replace(NEST, backend="eager"), TrialCounts(2, 5)
        ),
        "trial 2 of 8 · verified · model.py:3 and 1 more, no effect · model.py:5 · Nest": decided_text(
            SEVERAL, TrialCounts(2, 8)
        ),
        "timing 1 of 1 · eager · not timed: the call is too short to time": timed_text(
            TimedPrograms(1, "eager", None, "the call is too short to time"), TrialCounts(1, 1, 1, 1)
        ),
    }
    assert list(said) == list(said.values())


@for_each(
    "ratio, low, high, says",
    [
        (0.59, 0.58, 0.6, "1.7x faster (1.7x to 1.7x)"),
        (1.2, 1.1, 1.3, "1.2x slower (1.1x to 1.3x)"),
        (0.9, 0.8, 1.01, "no measurable difference"),
        (1.02, 1.0, 1.04, "no measurable difference"),
    ],
)
def test_a_timing_claims_no_speed_that_was_not_measured(ratio: float, low: float, high: float, says: str) -> None:
    ends = {"ratio": ratio, "ratio_low": low, "ratio_high": high}
    times = PairedTime(backend="inductor", before_us=100.0, after_us=100.0 * ratio, turns=21, **ends)
    counts = TrialCounts(8, 8, timing=2, timings=3)
    said = timed_text(TimedPrograms(2, "inductor", times), counts)
    assert said.replace("\N{MULTIPLICATION SIGN}", "x") == f"timing 2 of 3 · inductor · {says}"

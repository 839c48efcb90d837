"""Trials while they run, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphdoctor.facts.fixes import PairedTime, Reason
from graphdoctor.facts.progress import DecidedTrial, OpenFinding, TimedPrograms
from graphdoctor.views.progress import event_text, left_text, phase_text
from tests.each import for_each


@for_each("left_s, says", [
        (None, ""), (0.0, ""), (-3.0, ""), (0.4, ""), (1.0, "about 1 second left"), (9.4, "about 9 seconds left"),
        (18.0, "about 20 seconds left"), (88.0, "about 2 minutes left"),
    ])  # fmt: skip
def test_the_rest_is_an_estimate_and_never_negative(left_s: float | None, says: str) -> None:
    assert left_text(left_s) == says


@pytest.mark.parametrize(
    "width, says", [(80, "timing calls in turns · 1:05"), (20, "timing calls… · 1:05")]
)
def test_status_keeps_its_time_where_phase_has_no_room(width: int, says: str) -> None:
    assert phase_text("timing calls in turns", 65.9, width) == says


NEST = DecidedTrial(2, "Nest", (("model.py:3", "verified"),))
SEVERAL = DecidedTrial(
    2, "Nest", (*NEST.verdicts, ("model.py:5", "no effect"), ("model.py:7", "verified"))
)


def test_a_line_says_each_verdict_once() -> None:
    said = {
        "found · model.py:3 · GD101 `print` breaks": event_text(
            OpenFinding("GD101", "`print` breaks", "model.py:3")
        ),
        "trial 2 · gone · model.py:3 · Nest": event_text(NEST),
        "trial 2 · gone, with another call · model.py:3 · Nest": event_text(
            replace(NEST, grade="guarded", kind="call")
        ),
        "trial 2 · gone, with a setting · model.py:3 · Nest": event_text(
            replace(NEST, grade="guarded", kind="config")
        ),
        "trial 2 · gone under eager · model.py:3 · Nest": event_text(
            replace(NEST, backend="eager")
        ),
        "trial 2 · gone · model.py:3 and 1 more, no effect · model.py:5 · Nest": event_text(
            SEVERAL
        ),
        "timing 1 · eager · not timed: the call is too short to time": event_text(
            TimedPrograms(1, "eager", None, Reason(kind="too_short"))
        ),
    }
    assert list(said) == list(said.values())


@for_each(
    "ratio, low, high, says",
    [
        (0.59, 0.58, 0.6, "1.7x faster (1.7x to 1.7x)"),
        (1.2, 1.1, 1.3, "1.2x slower (1.1x to 1.3x)"),
        (0.9, 0.8, 1.01, "no measurable difference (0.80x to 1.01x the time)"),
        (1.02, 1.0, 1.04, "no measurable difference (1.00x to 1.04x the time)"),
    ],
)
def test_a_timing_claims_no_speed_that_was_not_measured(
    ratio: float, low: float, high: float, says: str
) -> None:
    ends = {"ratio": ratio, "ratio_low": low, "ratio_high": high}
    times = PairedTime(
        backend="inductor", before_us=100.0, after_us=100.0 * ratio, turns=21, **ends
    )
    said = event_text(TimedPrograms(2, "inductor", times))
    assert said.replace("\N{MULTIPLICATION SIGN}", "x") == f"timing 2 · inductor · {says}"

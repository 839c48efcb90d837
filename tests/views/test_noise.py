"""No ratio that noise could make, none that contradicts the times beside it, and no part larger
than its whole."""

from __future__ import annotations

from graphdoctor.facts.bench import Noise
from graphdoctor.facts.diagnosis import Cost
from graphdoctor.facts.fixes import PairedTime
from graphdoctor.facts.recording import SteadyCall
from graphdoctor.rules.diagnosis.comparison import compare
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.views.comparison import comparison_view
from graphdoctor.views.measures import noise_text, parts_of_call
from graphdoctor.views.words import SAME_SPEED, TOO_NOISY, cost_text, measured_speed
from tests.each import for_each
from tests.factories import diagnosed, recording
from tests.views.outputs import on_terminal


def paired(before_us: float, after_us: float, low: float, high: float) -> PairedTime:
    return PairedTime(
        backend="inductor", before_us=before_us, after_us=after_us, ratio=(low + high) / 2, ratio_low=low,
        ratio_high=high, turns=16,
    )  # fmt: skip


@for_each(
    "times, said",
    [
        (paired(116, 131, 0.92, 0.97), SAME_SPEED),
        (paired(116, 131, 0.9, 1.15), f"{SAME_SPEED} (0.90× to 1.15× the time)"),
        (paired(116, 131, 0.9, 1.2), f"{TOO_NOISY} (0.90× to 1.20× the time)"),
        (paired(100, 70, 0.92, 0.97), TOO_NOISY),
        (paired(100, 170, 1.1, 1.3), TOO_NOISY),
        # The ratio is that of 100 and 93, not the middle of the interval.
        (paired(100, 93, 0.6, 0.96), "1.08× faster (1.04× to 1.7×)"),
        (paired(100, 120, 1.05, 1.5), "1.2× slower (1.05× to 1.5×)"),
    ],
)  # fmt: skip
def test_a_ratio_follows_from_the_two_times_beside_it(times: PairedTime, said: str) -> None:
    assert measured_speed(times) == said


@for_each("before, after", [(572.0, 1000.0), (1000.0, 572.0), (67.0, 24_000.0), (100.0, 101.0)])
def test_diff_never_calls_a_single_call_faster_or_slower(before: float, after: float) -> None:
    sides = (
        diagnosed(recording().replace(steady_call=SteadyCall(call_us=us, runs=())))
        for us in (before, after)
    )
    shown = on_terminal(
        comparison_view(compare(*sides, names=("a", "b"), selection=Selection())), width=140
    )
    assert "one run each: not compared" in next(
        line for line in shown.splitlines() if "steady call" in line
    )
    assert not {"faster", "slower"} & set(shown.split())


@for_each("parts", [(9000.0, 400.0), (9000.0, 8000.0), (100.0, 200.0), (None, 0.0)])
def test_shares_of_a_call_never_exceed_all_of_it(parts: tuple[float | None, float]) -> None:
    found = parts_of_call(8000.0, [("kernels", "library", parts[0]), ("rest", "outside", parts[1])])
    assert sum(part.share for part in found) <= 1 + 1e-9


@for_each(
    "cost, said",
    [
        (Cost(call_us=50.0, call_from="gap", share=0.5), "50 µs per call outside the graphs (50%)"),
        (Cost(call_us=9.0, call_from="profile", share=1.5), "9 µs per call"),
    ],
)  # fmt: skip
def test_a_cost_has_no_share_above_the_whole(cost: Cost, said: str) -> None:
    assert cost_text(cost) == said


@for_each(
    "ratio, spread, said",
    [
        (0.95, 9.5, "noise: 5% between runs, 9.5× between calls"),
        (1.08, 0.31, "noise: 8% between runs, 31% between calls"),
        (None, 0.31, "noise: 31% between calls"),
    ],
)
def test_noise_is_said_in_one_line(ratio: float | None, spread: float, said: str) -> None:
    assert noise_text(Noise(ratio=ratio, spread=spread, is_noisy=True)) == said

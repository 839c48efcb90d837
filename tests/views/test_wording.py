"""Numbers in words: rounded for reading, never across 0, 100 or a limit."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor import wording
from graphdoctor.facts.recording import TargetInfo
from graphdoctor.views import words
from graphdoctor.views.words import percent_of_limit, percents, settings
from graphdoctor.wording import speed_text
from tests.each import for_each

SHOWN: dict[Callable[..., Any], dict[Any, Any]] = {
    wording.percent: {
        0: "0%",
        0.004: "<1%",
        0.0099: "<1%",
        0.01: "1%",
        0.5: "50%",
        0.994: ">99%",
        0.99: "99%",
        1: "100%",
    },
    percent_of_limit: {
        (0.8996, 0.9): "89.96%",
        (0.9004, 0.9): "90%",
        (0.5, 0.9): "50%",
        (0.895, 0.9): "89.5%",
        (0.95, 0.955): "95%",
        (0.955, 0.955): "95.5%",
        (0.9, 0.9): "90%",
        (0.07, 0.07): "7%",
        (0.8999999999999999, 0.9): "89.99999999999999%",
        (1.0, 0.999): "100%",
        (0.0, 0.001): "0%",
    },
    percents: {
        (0.18, 1.0): ("18%", "100%"),
        (0.9, 0.9): ("90%", "90%"),
        (0.904, 0.896): ("90.4%", "89.6%"),
        (0.999, 0.998): ("99.9%", "99.8%"),
        (0.0, 0.001): ("0%", "<1%"),
        (0.5, 0.50001): ("50.000%", "50.001%"),
    },
    wording.factor_text: {
        1.873: "1.87×",
        0.87: "0.87×",
        1: "1.00×",
        1.004: "1.004×",
        0.9976: "0.998×",
        12.34: "12.3×",
        250: "250×",
        1e20: ">1,000×",
        1e-20: "<0.01×",
    },
    words.about_count: {
        0: "0",
        94: "94",
        2087: "2,100",
        99_600: "100,000",
        999_999: "1 million",
        2_087_000: "2.1 million",
        45_000_000_000: "45 billion",
        3 * 10**12: "3 trillion",
    },
    words.about_time: {
        1: "1 second",
        52: "52 seconds",
        60: "60 seconds",
        95: "2 minutes",
        3600: "60 minutes",
        11_000: "3 hours",
        86_400: "24 hours",
        4 * 86_400: "4 days",
        800 * 86_400: "2 years",
    },
}


def test_numbers_are_shown_with_meaningful_digits() -> None:
    for show, cases in SHOWN.items():
        assert {
            given: show(*given) if isinstance(given, tuple) else show(given) for given in cases
        } == cases


@given(st.floats(0, 1), st.floats(0, 1))
def test_rounding_never_crosses_a_limit(share: float, limit: float) -> None:
    shown = Fraction(percent_of_limit(share, limit).removesuffix("%")) / 100
    # As people write the two numbers, which is what the shortest text of a float is.
    exact = Fraction(repr(share)), Fraction(repr(limit))
    assert (shown < exact[1]) == (exact[0] < exact[1])
    assert shown == exact[1] or exact[0] != exact[1]


@given(st.floats(0, 1), st.floats(0, 1))
def test_equal_texts_are_of_equal_shares(before: float, after: float) -> None:
    one, other = percents(before, after)
    assert (one == other) == (before == after)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "said"),
    [
        (2.0, 1.3, 106.0, "at least 1.3× slower"),
        (0.5, 0.01, 0.8, "at least 1.2× faster"),
        (2.0, 1.5, 2.9, "2.0× slower (1.5× to 2.9×)"),
        (2.0, 0.5, 106.0, "no clear difference (0.01× to 2.0×)"),
    ],
)
def test_a_wide_interval_leaves_only_its_near_end(
    ratio: float, low: float, high: float, said: str
) -> None:
    assert speed_text(ratio, low, high) == said


@for_each("count, said", [(1, None), (2, "2"), (12, "12"), (64, "64"), (3, "3"), (None, None)])
def test_calls_that_nobody_asked_for_are_not_counted_among_settings(
    count: int | None, said: str | None
) -> None:
    target = TargetInfo(text="model.py", call_options={} if count is None else {"calls": count})
    described = settings(target, None)
    assert described.get("--calls") == said
    assert "calls" not in described

"""Shares as percent: rounded for reading, never across 0, 100 or a limit."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.facts.wording import (
    about_count,
    about_time,
    factor_text,
    percent,
    percent_of_limit,
    percents,
    spread_text,
)
from tests.each import for_each


@for_each(
    "share, shown",
    [
        (0, "0%"),
        (0.004, "<1%"),
        (0.0099, "<1%"),
        (0.01, "1%"),
        (0.5, "50%"),
        (0.994, ">99%"),
        (0.99, "99%"),
        (1, "100%"),
    ],
)
def test_whole_percent_but_never_0_or_100_for_what_is_neither(share: float, shown: str) -> None:
    assert percent(share) == shown


@for_each(
    "share, limit, shown",
    [
        (0.8996, 0.9, "89.96%"),
        (0.9004, 0.9, "90%"),
        (0.5, 0.9, "50%"),
        (0.895, 0.9, "89.5%"),
        (0.95, 0.955, "95%"),
        (0.955, 0.955, "95.5%"),
        (0.9, 0.9, "90%"),
        (0.07, 0.07, "7%"),
        (0.8999999999999999, 0.9, "89.99999999999999%"),
        (1.0, 0.999, "100%"),
        (0.0, 0.001, "0%"),
    ],
)
def test_a_share_is_shown_on_its_side_of_the_limit(share: float, limit: float, shown: str) -> None:
    assert percent_of_limit(share, limit) == shown


@given(st.floats(0, 1), st.floats(0, 1))
def test_rounding_never_crosses_a_limit(share: float, limit: float) -> None:
    shown = Fraction(percent_of_limit(share, limit).removesuffix("%")) / 100
    # As people write the two numbers, which is what the shortest text of a float is.
    exact = Fraction(repr(share)), Fraction(repr(limit))
    assert (shown < exact[1]) == (exact[0] < exact[1])
    assert shown == exact[1] or exact[0] != exact[1]


@for_each(
    "before, after, shown",
    [
        (0.18, 1.0, ("18%", "100%")),
        (0.9, 0.9, ("90%", "90%")),
        (0.904, 0.896, ("90.4%", "89.6%")),
        (0.999, 0.998, ("99.9%", "99.8%")),
        (0.0, 0.001, ("0%", "<1%")),
        (0.5, 0.50001, ("50.000%", "50.001%")),
    ],
)
def test_two_shares_that_differ_never_read_alike(before: float, after: float, shown: tuple[str, str]) -> None:
    assert percents(before, after) == shown


@given(st.floats(0, 1), st.floats(0, 1))
def test_equal_texts_are_of_equal_shares(before: float, after: float) -> None:
    one, other = percents(before, after)
    assert (one == other) == (before == after)


@for_each(
    "ratio, shown",
    [
        (1.873, "1.87×"),
        (0.87, "0.87×"),
        (1, "1.00×"),
        (1.004, "1.004×"),
        (0.9976, "0.998×"),
        (12.34, "12.3×"),
        (250, "250×"),
        (1e20, ">1,000×"),
        (1e-20, "<0.01×"),
    ],
)
def test_a_factor_has_the_digits_that_are_worth_reading(ratio: float, shown: str) -> None:
    assert factor_text(ratio) == shown


@for_each(
    "spread, shown",
    [
        (0.004, "<1% apart"),
        (0.31, "31% apart"),
        (2.2, "2.2 times their median apart"),
        (19.3, "19 times their median apart"),
    ],
)
def test_a_large_spread_is_shown_in_medians(spread: float, shown: str) -> None:
    assert spread_text(spread) == shown


@for_each(
    "number, shown",
    [
        (0, "0"),
        (94, "94"),
        (2087, "2,100"),
        (99_600, "100,000"),
        (999_999, "1 million"),
        (2_087_000, "2.1 million"),
        (45_000_000_000, "45 billion"),
        (3 * 10**12, "3 trillion"),
    ],
)
def test_a_large_number_is_shown_as_it_is_said(number: int, shown: str) -> None:
    assert about_count(number) == shown


@for_each(
    "seconds, shown",
    [
        (1, "1 second"),
        (52, "52 seconds"),
        (60, "60 seconds"),
        (95, "2 minutes"),
        (3600, "60 minutes"),
        (11_000, "3 hours"),
        (86_400, "24 hours"),
        (4 * 86_400, "4 days"),
        (800 * 86_400, "2 years"),
    ],
)
def test_a_long_time_is_shown_as_it_is_said(seconds: float, shown: str) -> None:
    assert about_time(seconds) == shown

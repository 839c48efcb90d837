"""The first change with which a program fails, found with few runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.fixes.search import first_failing


@given(st.integers(1, 40), st.data(), st.integers(1, 4))
def test_the_first_failing_change_is_found_by_halves(count, data, width):
    bad = data.draw(st.integers(0, count - 1))
    asked: list[int] = []

    def examine(numbers: Sequence[int]) -> list[str | None]:
        assert all(0 < number < count for number in numbers)
        asked.append(len(numbers))
        return [f"fails with {number}" if number > bad else None for number in numbers]

    at, fault = first_failing(count, f"fails with {count}", examine, width=width)
    assert (at, fault) == (bad, f"fails with {bad + 1}")
    steps, left = 0, count
    while left > 1:
        steps, left = steps + 1, max(-(-left // (width + 1)), 1)
    assert len(asked) <= steps + 1
    assert all(number <= width for number in asked)


@pytest.mark.parametrize(("count", "most"), [(1, 0), (2, 1), (8, 3), (11, 4)])
def test_one_bad_change_of_many_costs_few_runs(count, most):
    for bad in range(count):
        runs: list[int] = []

        def examine(
            numbers: Sequence[int], bad: int = bad, runs: list[int] = runs
        ) -> list[bool | None]:
            runs.extend(numbers)
            return [number > bad or None for number in numbers]

        assert first_failing(count, True, examine) == (bad, True)
        assert len(runs) <= most


def test_changes_that_fail_only_together_lose_the_last_of_them():
    def examine(numbers: Sequence[int]) -> list[str | None]:
        return ["together" if {1, 4} <= set(range(number)) else None for number in numbers]

    assert first_failing(6, "together", examine) == (4, "together")

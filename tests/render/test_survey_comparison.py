"""Two surveys side by side, in every format."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.survey_comparison import SurveyComparison
from graphdoctor.studies.survey.comparison import compare_surveys
from graphdoctor.views.markdown_text import render_view_markdown
from graphdoctor.views.survey_comparison import survey_comparison_view
from tests.survey_comparisons import changed
from tests.survey_reports import report, row
from tests.views.outputs import on_terminal


def compared(before: Any, after: Any, fail_on: Any = "warning", **more: Any) -> SurveyComparison:
    """Two surveys of these rows."""
    return compare_surveys(report(before), report(after, **more), version="0.2.0", fail_on=fail_on)


def text_of(comparison: SurveyComparison, *, width: int = 80, is_verbose: bool = False) -> str:
    """What a terminal shows."""
    return on_terminal(survey_comparison_view(comparison), width=width, is_verbose=is_verbose)


def as_markdown(comparison: SurveyComparison) -> str:
    return render_view_markdown(survey_comparison_view(comparison))


@pytest.mark.parametrize(("width", "is_verbose"), [(80, False), (140, True)])
def test_a_comparison_on_the_terminal(snapshot: SnapshotAssertion, width: int, is_verbose: bool) -> None:
    text = text_of(changed(), width=width, is_verbose=is_verbose)
    assert max(map(len, text.splitlines())) <= width
    assert text == snapshot


def test_a_comparison_as_markdown(snapshot: SnapshotAssertion) -> None:
    assert as_markdown(changed()) == snapshot


def test_the_same_survey_twice_is_good_news_everywhere() -> None:
    same = compared(report().rows, report().rows)
    text = text_of(same)
    assert "10 pieces compared: no regressions." in text
    assert "3 pieces pass in neither survey." in text


def test_a_mismatch_is_said_before_the_answer() -> None:
    text = text_of(compared([row()], [row(torch="2.14.0")]))
    assert text.index("2.13.0+cpu before, 2.14.0 now") < text.index("compared:")


def test_what_is_only_better_is_good_news() -> None:
    text = text_of(compared([row(break_sites=2)], [row()]))
    assert "1 piece compared: no regressions, 1 better." in text
    assert "Failed" not in text


def test_what_is_worse_but_below_fail_on_does_not_fail() -> None:
    found = compared([row()], [row(break_sites=1)], fail_on="error")
    assert "1 worse" in text_of(found)
    assert "Failed" not in text_of(found)


def test_markdown_of_a_large_comparison_is_short_enough_for_a_comment() -> None:
    names = [f"model{number}" for number in range(3000)]
    text = as_markdown(compared([row(name) for name in names], [row(name, break_sites=1) for name in names]))
    assert len(text) < 65_536
    assert "left out to keep the comment short enough" in text

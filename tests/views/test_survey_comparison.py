"""Two surveys side by side, as people read them."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.survey_comparison import SurveyComparison
from graphdoctor.studies.survey.comparison import compare_surveys
from graphdoctor.views.survey_comparison import survey_comparison_view
from tests.studies.survey.comparisons import changed
from tests.studies.survey.reports import report, row
from tests.views.outputs import on_terminal


def compared(before: Any, after: Any, fail_on: Any = "warning", **more: Any) -> SurveyComparison:
    """Two surveys of these rows."""
    return compare_surveys(report(before), report(after, **more), version="0.2.0", fail_on=fail_on)


def text_of(comparison: SurveyComparison, *, is_verbose: bool = False) -> str:
    """What a terminal shows."""
    return on_terminal(survey_comparison_view(comparison), width=80, is_verbose=is_verbose)


@pytest.mark.parametrize("is_verbose", [False, True])
def test_a_comparison_on_a_terminal(snapshot: SnapshotAssertion, is_verbose: bool) -> None:
    text = text_of(changed(), is_verbose=is_verbose)
    # What is to be copied stays one line.
    assert max(len(line) for line in text.splitlines() if "graphdoctor explain" not in line) <= 80
    assert text == snapshot


def test_what_is_the_same_elsewhere_better_or_below_fail_on(snapshot: SnapshotAssertion) -> None:
    rows = report().rows
    assert text_of(compared(rows, rows)) == snapshot(name="the same survey twice")
    assert text_of(compared([row()], [row(torch="2.14.0")])) == snapshot(name="another torch")
    assert text_of(compared([row(break_sites=2)], [row()])) == snapshot(name="better")
    assert text_of(compared([row()], [row(break_sites=1)], fail_on="error")) == snapshot(
        name="worse, and doesn't fail"
    )

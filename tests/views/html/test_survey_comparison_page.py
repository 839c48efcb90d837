"""Two surveys side by side in a browser."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from graphdoctor.facts.survey import SurveyRow
from graphdoctor.facts.survey_comparison import SurveyComparison
from graphdoctor.studies.documents import SURVEY_COMPARISON
from graphdoctor.studies.survey.comparison import compare_surveys
from tests.studies.survey.comparisons import HELPER
from tests.studies.survey.reports import failed, report, row
from tests.views.outputs import page_of, text_of

TWO_MIB = 2 * 2**20
SLOWER = {"speedup": 1.1, "speedup_low": 1.06, "speedup_high": 1.14}


def compared(before: Sequence[SurveyRow], after: Sequence[SurveyRow]) -> SurveyComparison:
    return compare_surveys(report(before), report(after), version="0.2.0")


def many(count: int) -> SurveyComparison:
    """A third of the pieces fails, a third breaks, a third is slower; one in ten is only in one
    survey."""
    long = (
        "Traceback (most recent call last)\n"
        + "  File x, line 1\n" * 2000
        + "RuntimeError: the end"
    )
    after = [
        failed(
            f"m{n}",
            "compile_failed",
            stage="inductor",
            error=f"no kernel {n}: " + "x" * 9000,
            traceback=long,
        )
        if n % 3 == 0
        else row(f"m{n}", break_sites=1, causes=(HELPER,))
        if n % 3 == 1
        else row(f"m{n}", **SLOWER)
        for n in range(count)
    ]
    names = [f"m{n}" for n in range(count)]
    return compared(
        [row(name) for name in [*names, *(f"gone{n}" for n in range(count // 10))]], after
    )


@pytest.mark.slow
def test_large_comparison_stays_small_and_reports_cuts() -> None:
    page = page_of(SURVEY_COMPARISON, many(3000))
    assert len(page.encode()) < TWO_MIB
    text = text_of(page)
    assert re.search(r"… [\d,]+ characters left out …", text)
    hrefs = set(re.findall(r'href="#([^"]*)"', page))
    assert hrefs <= set(re.findall(r'id="([^"]*)"', page))

"""Two surveys side by side in a browser."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from playwright.sync_api import expect

from graphdoctor.facts.survey import SurveyRow
from graphdoctor.facts.survey_comparison import SurveyComparison
from graphdoctor.studies.documents import SURVEY_COMPARISON
from graphdoctor.studies.survey.comparison import compare_surveys
from tests.studies.survey.comparisons import HELPER
from tests.studies.survey.reports import failed, report, row
from tests.views.outputs import in_file, page_of, section_of, text_of

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


def test_new_failures_of_the_same_error_are_one_line() -> None:
    names = ("alpha", "beta", "gamma")
    raised = {"stage": "inductor", "error_type": "RuntimeError"}
    page = page_of(
        SURVEY_COMPARISON,
        compared(
            [row(name) for name in names],
            [
                failed(name, "compile_failed", error=f"no kernel for {name}", **raised)
                for name in names
            ],
        ),
    )
    assert "compile failed (Inductor) 3 RuntimeError: no kernel for … alpha, beta, gamma" in (
        text_of(section_of(page, "new-failures"))
    )


@pytest.mark.slow
def test_large_comparison_stays_small_and_reports_cuts() -> None:
    page = page_of(SURVEY_COMPARISON, many(3000))
    assert len(page.encode()) < TWO_MIB
    text = text_of(page)
    assert re.search(r"… [\d,]+ characters left out …", text)
    hrefs = set(re.findall(r'href="#([^"]*)"', page))
    assert hrefs <= set(re.findall(r'id="([^"]*)"', page))


# In a browser.


@pytest.mark.slow
def test_pieces_are_filtered_and_links_show_hidden_ones(visit, tmp_path):
    file = in_file(tmp_path, page_of(SURVEY_COMPARISON, many(60)))
    page = visit(file)
    failing = page.locator("#new-failures")
    pieces = failing.locator("div[id^=piece-]:visible")
    count = pieces.count()
    anchor = failing.locator(
        "div[id^=piece-]", has_text=re.compile("m3[^0-9]")
    ).first.get_attribute("id")
    failing.get_by_label("Filter pieces").fill("no kernel 42:")
    expect(pieces).to_have_count(1)
    expect(failing.locator(".filterbar output")).to_have_text(f"1 of {count}")
    page.evaluate("anchor => location.hash = anchor", anchor)
    expect(page.locator(f"#{anchor}")).to_be_in_viewport()
    plain = visit(file, java_script_enabled=False)
    expect(plain.locator("#new-failures div[id^=piece-]").first).to_be_visible()
    assert plain.locator("button:not([popovertarget]):visible, .needs-script:visible").count() == 0

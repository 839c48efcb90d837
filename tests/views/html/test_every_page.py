"""Pages of every kind in a browser: for everyone, without scripts, on paper, and whatever somebody
else wrote."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from graphdoctor.facts.job import HangCandidate
from graphdoctor.facts.profile import ProfileResult
from graphdoctor.facts.stack import StackEntry
from graphdoctor.studies.documents import JOB, SURVEY, SURVEY_COMPARISON
from graphdoctor.views.formats import BENCH, PROFILE
from tests.studies.survey.comparisons import changed
from tests.studies.survey.reports import report
from tests.views.html.conftest import NARROW, SCREENS, assert_accessible
from tests.views.html.made import HOSTILE
from tests.views.html.test_bench_page import everything
from tests.views.html.test_job_page import long_job
from tests.views.html.test_profile_page import PICTURE
from tests.views.html.test_profile_page import everything as profiled
from tests.views.html.test_survey_comparison_page import many
from tests.views.html.test_survey_page import large
from tests.views.outputs import in_file, page_of
from tests.views.test_formats import DOCUMENTS, rendered
from tests.views.test_job import two
from tests.views.test_outside_text import MODELS, hostile_content
from tests.views.test_survey import SURVEYS

pytestmark = pytest.mark.slow

HANG = HangCandidate(
    kind="absent",
    compile="0/0",
    function="step",
    location=StackEntry(file="net.py", line=1, function="step"),
    waiting=(0,),
    missing=(1,),
)
PAGES: dict[str, tuple[Callable[[], str], tuple[str, ...]]] = {
    "bench": (lambda: page_of(BENCH, everything()), ("#variants .track",)),
    "profile": (
        lambda: page_of(PROFILE, ProfileResult(profiled(), PICTURE)),
        ("#lines table", "#modules .flame", "#kernels table", "#code"),
    ),
    "survey": (
        lambda: page_of(SURVEY, report(), pages="files"),
        ("table[id$=-table]", "#failures"),
    ),
    "survey of many": (lambda: page_of(SURVEY, large(20)), ("table[id$=-table]",)),
    "survey of odd names": (
        lambda: page_of(SURVEY, SURVEYS["hostile"](), pages="files"),
        ("table[id$=-table]",),
    ),
    "survey of nothing": (lambda: page_of(SURVEY, SURVEYS["nothing"]()), ("#verdict",)),
    "surveys": (lambda: page_of(SURVEY_COMPARISON, changed()), ("#verdict", "#new-failures")),
    "many surveys": (lambda: page_of(SURVEY_COMPARISON, many(40)), ("#verdict",)),
    "ranks": (lambda: page_of(JOB, two().replace(hangs=(HANG,))), ("#verdict",)),
    "long ranks": (lambda: page_of(JOB, long_job(40)), ("#verdict",)),
}
"""Each with what is seen without scripts."""


def unfolded(page: Page) -> None:
    for button in page.locator("button.opens").all()[:6]:
        button.click()
        expect(page.locator(f"#{button.get_attribute('aria-controls')} .all-facts")).to_be_visible()
    page.evaluate("document.querySelectorAll('details').forEach((one, at) => (one.open = at < 40))")


@SCREENS
def test_axe_finds_no_fault_and_everything_fits_the_screen(visit, tmp_path, width, scheme):
    for name, (render, _) in PAGES.items():
        file = in_file(tmp_path, render(), name)
        page = visit(
            file, viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
        )
        unfolded(page)
        assert_accessible(page, name)


def test_page_is_complete_without_scripts_and_on_paper(visit, tmp_path):
    for name, (render, places) in PAGES.items():
        page = visit(in_file(tmp_path, render(), name), java_script_enabled=False, viewport=NARROW)
        for place in places:
            expect(page.locator(place).first).to_be_visible()
        assert (
            page.locator("button:not([popovertarget]):visible, .needs-script:visible").count() == 0
        ), name
        page.emulate_media(media="print")
        expect(page.locator(places[0]).first).to_be_visible()
        expect(page.locator(".sections")).to_be_hidden()


def test_what_others_wrote_is_shown_as_text_and_never_run(visit, tmp_path):
    for name in (*MODELS, "PROFILE"):
        if "html" in DOCUMENTS[name].names:
            text = rendered(hostile_content(name, 1, HOSTILE), DOCUMENTS[name].named("html"))
            page = visit(in_file(tmp_path, text, name), bypass_csp=True)
            unfolded(page)
            assert page.locator("img, iframe, [onerror], [onload]").count() == 0, name
            assert page.evaluate("window.hacked === undefined"), name
            assert HOSTILE in page.locator("main").text_content(), name

"""The report in windows of several widths, and while its drawings load."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.views.html.made import with_edits, written

pytestmark = pytest.mark.slow


def everything_open(page: Page) -> None:
    """Open all that is folded, and load all drawings."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for top in range(0, page.evaluate("document.body.scrollHeight"), 700):
        page.evaluate(f"scrollTo({{top: {top}, behavior: 'instant'}})")
        page.wait_for_timeout(30)
    page.wait_for_timeout(300)


def test_a_tab_lands_on_its_section_though_drawings_load_meanwhile(visit, reported):
    sections = ("calls", "guards", "graphs", "time")
    # Side by side: each is waited for.
    pages = {section: visit(reported.page) for section in sections}
    for section, page in pages.items():
        page.set_viewport_size({"width": 1000, "height": 700})
        page.locator(f".sections a[href='#{section}']").click()
    pages[sections[-1]].wait_for_timeout(2500)
    for section, page in pages.items():
        top = page.evaluate(f"document.getElementById('{section}').getBoundingClientRect().top")
        is_at_end = page.evaluate("scrollY + innerHeight >= document.body.scrollHeight - 2")
        assert is_at_end or 0 <= top < 120, section


def test_a_suggestion_is_copied_as_it_is_to_be_pasted(visit, tmp_path):
    page = visit(written(tmp_path, *with_edits()))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.locator("#findings .copy").first
    button.click()
    expect(button).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    source = page.locator(f"#{button.get_attribute('data-copies')}").text_content()
    assert copied.strip() == source.strip()
    assert "+++ b/model.py" in copied


@pytest.mark.parametrize("width", [390, 1440])
def test_what_is_below_a_drawing_stays_where_it_is(width, visit, reported):
    page = visit(reported.page)
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("""() => {
        window.shifts = 0;
        const add = (list) => { for (const shift of list.getEntries()) window.shifts += shift.value; };
        new PerformanceObserver(add).observe({ type: "layout-shift", buffered: false });
    }""")
    heights = """() => ["guard-tree", "graph-view"].map(
        (id) => document.getElementById(id).getBoundingClientRect().height)"""
    before = page.evaluate(heights)
    everything_open(page)
    expect(page.locator("#graph-view")).to_have_attribute("data-ready", "true")
    assert page.evaluate(heights) == pytest.approx(before, abs=45)
    assert page.evaluate("window.shifts") < 0.05

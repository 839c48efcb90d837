"""The report for everyone: light and dark, without a mouse, read aloud, on a narrow screen, on
paper."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.views.html.conftest import NARROW, SCREENS, assert_accessible, load_everything
from tests.views.html.made import with_edits, written

pytestmark = pytest.mark.slow


def colour(page: Page, element: str = "body", what: str = "background-color") -> str:
    return page.locator(element).first.evaluate(
        "(one, what) => getComputedStyle(one).getPropertyValue(what)", what
    )


# Light and dark.


def test_the_theme_is_the_systems_until_one_is_chosen(visit, reported):
    light, dark = (visit(reported.page, color_scheme=scheme) for scheme in ("light", "dark"))
    assert colour(light) == "rgb(255, 255, 255)"
    assert colour(dark) != colour(light)
    for what in ("color", "background-color"):
        assert colour(light, ".next", what) != colour(dark, ".next", what)
    light.emulate_media(color_scheme="dark")
    assert colour(light) == colour(dark)


def test_button_cycles_through_themes_and_is_remembered(visit, reported):
    page = visit(reported.page, color_scheme="dark")
    button = page.locator("#theme")
    seen = [("system", colour(page))]
    for _ in range(3):
        button.click()
        label = str(button.get_attribute("aria-label")).removeprefix("Theme: ")
        page.reload()
        expect(button).to_have_attribute("aria-label", f"Theme: {label}")
        seen.append((label, colour(page)))
    assert [name for name, _ in seen] == ["system", "light", "dark", "system"]
    assert seen[0][1] == seen[2][1] == seen[3][1] != seen[1][1]


def test_a_chosen_theme_is_set_before_anything_is_painted(visit, reported):
    page = visit(reported.page, color_scheme="dark")
    page.locator("#theme").click()
    page.add_init_script(
        "new MutationObserver((_, watch) => { if (!document.body) return; watch.disconnect();"
        " window.atFirst = document.documentElement.dataset.theme })"
        ".observe(document, { childList: true, subtree: true })"
    )
    page.reload()
    assert page.evaluate("window.atFirst") == "light"
    order = page.locator("head > *").evaluate_all("all => all.map(one => one.tagName)")
    assert order.index("SCRIPT") < order.index("STYLE")


# Without a mouse.


def tab_to(page: Page, wanted: Locator, *, at_most: int = 60) -> None:
    for _ in range(at_most):
        page.keyboard.press("Tab")
        if wanted.evaluate("one => one === document.activeElement"):
            return
    raise AssertionError(f"Tab does not reach {wanted}")


def test_the_tab_key_reaches_what_a_mouse_does(visit, reported):
    page = visit(reported.page)
    skip = page.get_by_role("link", name="Skip to the report")
    tab_to(page, skip, at_most=1)
    expect(skip).to_be_in_viewport()
    tab_to(page, page.get_by_role("button", name="Search"), at_most=1)
    tab_to(page, page.locator("#theme"), at_most=1)
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    tab_to(page, page.get_by_role("navigation").get_by_role("link", name="Verdict"), at_most=1)
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    field = page.locator("#findings input[type=search]")
    tab_to(page, field, at_most=200)
    page.keyboard.type("GD101")
    expect(page.locator("#findings output")).to_have_text("1 of 5")
    words = page.locator("#findings .card:visible summary", has_text="Details")
    tab_to(page, words)
    page.keyboard.press("Enter")
    expect(
        page.locator("#findings .card:visible details", has_text="Avoid calling builtin")
    ).to_have_attribute("open", "")
    page = visit(reported.page)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
    chip = page.locator("#source .chips .chip").first
    tab_to(page, chip)
    expect(page.locator("#source tr.lit")).not_to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Graph", exact=True)).to_be_focused()
    expect(page).to_have_url(f"{reported.page.as_uri()}#graph-0")


def test_a_question_mark_shows_the_keys(visit, tmp_path):
    page = visit(written(tmp_path, *with_edits()))
    keys = page.get_by_role("dialog", name="Keys")
    page.locator("#graph-view").scroll_into_view_if_needed()
    page.get_by_label("Find a node").press("?")
    expect(keys).to_be_hidden()
    page.locator("#theme").press("?")
    expect(keys).to_contain_text("zoom in a drawing")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()


def test_a_slash_searches_the_whole_page(visit, reported):
    page = visit(reported.page)
    dialog = page.get_by_role("dialog", name="Search the page")
    results = dialog.get_by_role("button")
    page.keyboard.press("/")
    for words, section in {
        "kumquat 5": "Source",
        "gd202 recompiled": "Findings",
        "tensor_match x": "Guards",
        "captured relu": "Graphs",
        "compilation_metrics yes": "About this run",
    }.items():
        dialog.get_by_role("searchbox").fill(words)
        expect(results.filter(has_text=section).first).to_be_visible()
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.locator("#evidence tr:focus")).to_contain_text("compilation_metrics")
    expect(page.locator("#evidence tr:focus")).to_be_in_viewport()
    page.keyboard.press("/")
    dialog.get_by_role("searchbox").fill("captured relu")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#graph-view .side")).to_contain_text("relu")
    page.get_by_role("button", name="Search").click()
    dialog.get_by_role("searchbox").fill("no such word")
    expect(dialog.get_by_role("status")).to_have_text("0 found")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_j_and_k_go_from_finding_to_finding(visit, reported):
    page = visit(reported.page)
    codes = page.locator("#findings .card h3:first-child .code").all_inner_texts()
    heard = []
    for key in "jjk":
        page.keyboard.press(key)
        expect(page.locator(".card:focus")).to_be_in_viewport()
        heard.append(page.locator(".card:focus .code").first.inner_text())
    assert heard == [codes[0], codes[1], codes[0]]
    page.locator("#findings input").press("j")
    assert page.locator("#findings input").input_value() == "j"


def test_marks_of_a_line_stay_whole_on_a_narrow_screen(visit, reported):
    page = visit(reported.page, viewport=NARROW)
    marks = page.locator("#source .marks :is(a, span)")
    heights = marks.evaluate_all("all => all.map((one) => one.getBoundingClientRect().height)")
    assert len(heights) > 3
    assert max(heights) < 30


@SCREENS
def test_axe_finds_no_fault_in_a_report(visit, reported, width, scheme):
    screen = {"width": width, "height": 900}
    page = visit(reported.page, viewport=screen, color_scheme=scheme, bypass_csp=True)
    load_everything(page)
    page.locator("#graph-view .node").first.press("Enter")
    assert_accessible(page)
    page.keyboard.press("/")
    page.keyboard.type("net")
    assert_accessible(page)


# Read aloud, narrow, on paper.


@pytest.mark.parametrize("has_scripts", [True, False])
def test_folded_lines_are_one_click_away_with_and_without_scripts(visit, reported, has_scripts):
    page = visit(reported.page, java_script_enabled=has_scripts)
    folded = page.locator("#source tbody.folded").first
    expect(folded).to_be_hidden()
    count = folded.locator("tr").count()
    page.get_by_label(f"{count} lines", exact=True).first.focus()
    page.keyboard.press("Space")
    expect(folded).to_be_visible()
    page.keyboard.press("Space")
    expect(folded).to_be_hidden()
    line = folded.locator("tr").first.get_attribute("id")
    page = visit(reported.page, f"#{line}", java_script_enabled=has_scripts)
    expect(page.locator(f"[id='{line}']")).to_be_in_viewport()

"""Terms are explained where they first stand, and there alone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from graphdoctor.views.html.terms import ANY, TERMS, explained
from tests.views.html.made import hostile, lowered, with_edits, written

BUTTON = re.compile(r'<(?:dfn><)?button[^>]*popovertarget="term-([^"]*)"')
READABLE = """() => {
    const skipped = "button:not(.term), code, h1, label, nav, noscript, pre, script, select, style, summary, table, "
        + "details:not([open]), .called, .package, .place, .words, .diff, .filterbar, .needs-script, .about";
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement;
        if (parent.closest(skipped) || parent.matches(".term.more")) continue;
        const link = parent.closest("a");
        const target = parent.closest(".term")?.getAttribute("popovertarget") ?? null;
        const after = [];
        for (let next = link?.nextElementSibling; next?.matches(".more, .about"); next = next.nextElementSibling) {
            if (next.matches(".more")) after.push(next.getAttribute("popovertarget"));
        }
        texts.push([walker.currentNode.data, target === null ? after : [target]]);
    }
    return texts;
}"""


def keys(markup: str) -> list[str]:
    return BUTTON.findall(explained(markup))


def test_term_is_explained_once_and_apart_from_longer_terms() -> None:
    assert keys("<p>1 graph break, 2 graphs, a graph, guards; a Graph Break</p>") == [
        "graph-break",
        "graph",
        "guard",
    ]
    assert keys("<p>0/1 in rank1:2/0_1</p><p>1/2/3, 3.1/2, a path/0/1</p>") == ["compile-id"]
    assert keys("<p>1/2/3, 3.1/2, a/0/1, ungraphed, framework, twice as fast, eager</p>") == []


def test_names_code_tables_and_folded_parts_are_left_alone() -> None:
    for markup in (
        "<code>guard</code>",
        "<h1>guard</h1>",
        "<table><tr><td>guard</td></tr></table>",
        "<details><summary>guard</summary>guard</details>",
        '<span class="place">guard/0/1</span>',
        '<p class="dim words">guard</p>',
        '<p title="guard">x</p>',
    ):
        assert explained(markup) == markup
    assert keys("<details open><summary>guard</summary><p>guard</p></details>") == ["guard"]


def test_in_a_link_the_button_stands_after_it() -> None:
    shown = explained('<a href="#x">guards</a>.')
    assert shown.startswith('<a href="#x">guards</a><button type="button" class="term more"')
    assert 'aria-label="What is: guard"' in shown


def test_text_from_outside_stays_escaped() -> None:
    text = "<p>&lt;b&gt; guard &amp; &lt;script&gt;</p>"
    plain = re.sub(r"<dfn><button[^>]*>(.*?)</button></dfn>|<div popover.*", r"\1", explained(text))
    assert plain.strip() == text


def test_each_term_has_its_own_id_and_a_sentence() -> None:
    assert len({term.key for term in TERMS}) == len(TERMS)
    for term in TERMS:
        assert term.text.endswith(".")
        match = ANY.fullmatch(term.name)
        assert match is None or TERMS[int(match.lastgroup[1:])] == term


@pytest.mark.slow
@pytest.mark.parametrize("which", ["run", "edits", "kernels", "hostile"])
def test_only_the_first_of_each_term_is_explained(which, visit, reported, tmp_path):
    made = {"edits": with_edits, "kernels": lowered, "hostile": hostile}
    page = visit(reported.page if which == "run" else written(tmp_path, *made[which]()))
    seen = []
    for text, targets in page.evaluate(READABLE):
        for match in ANY.finditer(text):
            term = TERMS[int(match.lastgroup[1:])]
            assert (f"term-{term.key}" in targets) == (term not in seen), (term.name, text)
            seen += [term] if term not in seen else []
    assert page.locator("button.term").count() == len(seen)
    if which == "run":
        names = {
            "graph",
            "graph break",
            "guard",
            "recompile",
            "resume function",
            "skipped frame",
            "coverage",
        }
        assert {term.name for term in seen} >= {
            *names,
            "steady call",
            "backend",
            "compile id",
            "frame",
        }


@pytest.mark.slow
def test_an_explanation_opens_by_key_and_by_touch_without_scripts(visit, reported):
    page = visit(
        reported.page,
        java_script_enabled=False,
        has_touch=True,
        viewport={"width": 390, "height": 800},
    )
    about = page.locator("#term-graph-break")
    expect(about).to_be_hidden()
    button = page.locator("[popovertarget=term-graph-break]")
    button.focus()
    page.keyboard.press("Enter")
    expect(about).to_be_visible()
    expect(about).to_contain_text("A line that Dynamo can't put in a graph")
    box = about.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    page.keyboard.press("Escape")
    expect(about).to_be_hidden()
    button.tap()
    expect(about).to_be_visible()

"""The report in a browser: what it says, where its links lead, what can be filtered and sorted,
what works alone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from graphdoctor.facts.picture import Picture
from graphdoctor.facts.run import ProbeExit
from tests.factories import compiled, recording
from tests.views.html.made import hostile, many_calls, written

pytestmark = pytest.mark.slow

SECTIONS = (
    "what-to-do",
    "figures",
    "source",
    "findings",
    "calls",
    "guards",
    "graphs",
    "recompiles",
    "time",
    "about-this-run",
)


def tile(page: Page, label: str) -> str:
    """The figure of a name, with its note."""
    found = page.locator("#figures .figure").filter(
        has=page.get_by_role("link", name=label, exact=True)
    )
    return " ".join(found.locator("dd").inner_text().split())


def column(page: Page, table: str, number: int) -> list[str]:
    """A column of a table as it is shown."""
    return page.locator(f"{table} tbody tr:visible > :nth-child({number})").all_inner_texts()


# What it says.


def test_every_section_has_its_heading_and_its_content(visit, reported):
    page = visit(reported.page)
    ids = page.locator("main > section").evaluate_all("all => all.map(one => one.id)")
    assert [name for name in ids if name in SECTIONS] == [*SECTIONS]
    content = {
        "what-to-do": ("reorderable_logging_functions.add(print)",),
        "findings": ("GD101", "GD107", "GD111", "GD202", "GD203", "Details"),
        "source": ("program.py", "class Net(nn.Module):", "eager", "skipped"),
        "calls": ("f32[4, 8], 2", "f32[6, 8], 3"),
        "recompiles": ("Net.forward", "x.shape[0]: 4 → 5", "power: 2 → 3"),
        "guards": ("Guard checks take", "0/0"),
        "graphs": ("Net.forward from line", "parameters"),
        "time": ("All compiles",),
        "about-this-run": ("compilation_metrics", "torch's configuration", "python"),
    }
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    tabs = page.locator(".sections a").all_inner_texts()
    headings = page.locator("main > section > h2").all_inner_texts()
    assert [re.sub(r"\s+\d+$", "", tab) for tab in tabs] == headings
    for name, parts in content.items():
        section = page.locator(f"#{name}")
        expect(section.get_by_role("heading", level=2)).to_be_visible()
        text = " ".join(section.inner_text().split()).replace("torch\n", "torch ")
        for part in parts:
            assert part in text, (name, part)


def test_the_numbers_are_those_of_the_json_document(visit, reported):
    page = visit(reported.page)
    document, summary = reported.document, reported.document["summary"]
    assert (summary["skipped_frames"], summary["recompiles"] > 2, summary["break_sites"]) == (
        1,
        True,
        2,
    )
    detail = summary["coverage_detail"]
    total = detail["graph_ops"] + detail["eager_ops"]
    share = (
        f"{summary['coverage']:.0%} compiled: {detail['graph_ops']} of {total} tensor operations"
    )
    expect(page.locator("#figures")).to_contain_text(share)
    widths = [
        page.locator(f".coverage {name}").bounding_box()["width"] for name in (".bar", ".compiled")
    ]
    assert widths[1] / widths[0] == pytest.approx(summary["coverage"], abs=0.01)
    for label, text in {
        "calls": "{calls}",
        "graphs": "{graphs}",
        "break sites": "{break_sites}",
        "skipped frame": "{skipped_frames}",
        "recompiles": "{recompiles}",
        "compile time": "{compile_time_s:.2f} s {compiles} compiles",
    }.items():
        assert tile(page, label).startswith(text.format_map(summary))
    shown = page.locator("#findings .card h3 .code").all_inner_texts()
    assert sorted(shown) == sorted(finding["code"] for finding in document["findings"])
    assert page.locator("#calls tbody tr").count() == len(document["recording"]["calls"])
    sizes = sorted((graph["op_count"] for graph in document["recording"]["graphs"]), reverse=True)
    assert column(page, "#graphs .scroll", 3) == [str(size) for size in sizes]
    compiles = column(page, "#recompiles .scroll", 1)
    assert compiles == [" ".join(report["compile_ids"]) for report in document["recompiles"]]


def test_idle_run_says_so_and_has_no_empty_parts(visit, tmp_path):
    ended = ProbeExit(status=1, reason="killed", message="The program was killed.")
    nothing = recording(compiles=(), frames=(), graphs=(), calls=(), coverage=None, ended=ended)
    page = visit(written(tmp_path, nothing, Picture()))
    expect(page.locator("#verdict")).to_contain_text("The program was killed.")
    ids = page.locator("main > section").evaluate_all("all => all.map(one => one.id)")
    assert {*ids} & {
        "figures",
        "source",
        "calls",
        "recompiles",
        "guards",
        "graphs",
        "time",
    } == set()
    assert not page.locator("main").get_by_text(re.compile("^0%?$")).count()


def test_a_count_of_nothing_has_no_figure(visit, reported, tmp_path):
    shown = visit(reported.page).locator(".figure dd").all_inner_texts()
    clean = visit(written(tmp_path, recording(), Picture()))
    assert len(shown) > clean.locator(".figure").count() > 1
    assert not [
        text
        for text in (*shown, *clean.locator(".figure dd").all_inner_texts())
        if text.split()[0] == "0"
    ]


# Where links lead.


def test_ids_are_unique_and_links_lead_to_one(visit, reported, tmp_path):
    for file in (reported.page, written(tmp_path, *hostile())):
        page = visit(file, java_script_enabled=False)
        ids = page.locator("[id]").evaluate_all("all => all.map(one => one.id)")
        assert sorted(ids) == sorted(set(ids))
        links = page.locator("a[href]").evaluate_all(
            "all => all.map(one => one.getAttribute('href'))"
        )
        assert {link[:1] for link in links} == {"#"}
        assert {link[1:] for link in links} - set(ids) == set()


def test_a_link_into_the_page_opens_what_it_points_into(visit, reported):
    document = reported.document
    finding = document["findings"][0]
    again = document["recompiles"][0]["compile_ids"][0]
    for hash in (
        *(f"#finding-{found['fingerprint']}" for found in document["findings"][:2]),
        f"#f0-L{finding['location']['line']}",
        "#call-2",
        f"#guards-{again}",
    ):
        page = visit(reported.page, hash)
        expect(page.locator(f"[id='{hash[1:]}']")).to_be_in_viewport()
    page = visit(reported.page, "#graph-1")
    expect(page.get_by_label("Graph", exact=True)).to_be_in_viewport()
    expect(page.get_by_label("Graph", exact=True)).to_have_value("1")
    expect(page.locator("#graph-1")).to_have_class("picked")


def test_link_opens_details_and_shows_hidden_rows(visit, tmp_path):
    file = written(tmp_path, *many_calls(240))
    page = visit(file, "#call-230")
    expect(page.locator("#call-230")).to_be_in_viewport()
    page = visit(file)
    assert page.locator("#calls tbody tr:visible").count() == 200
    assert page.locator("#graphs .scroll tbody tr:visible").count() == 60
    page.evaluate("for (const found of document.querySelectorAll('details')) found.open = false")
    for hash in ("#graph-150", "#f0-L12"):
        page.evaluate("hash => { location.hash = hash }", hash)
        expect(page.locator(hash)).to_be_visible()
    page.get_by_role("button", name="Show all 239 rows").first.click()
    assert page.locator("#calls tbody tr:visible").count() == 239


def test_a_link_to_what_a_filter_hides_shows_it(visit, reported):
    page = visit(reported.page)
    page.get_by_label("Filter").first.fill("GD101")
    hidden = page.locator("#findings .card", has_text="GD202")
    expect(hidden).to_be_hidden()
    page.locator("#source tr.note a", has_text="GD202").click()
    expect(hidden).to_be_in_viewport()


# Filters and tables.


def test_filters_narrow_tell_the_count_and_give_everything_back(visit, reported):
    page = visit(reported.page)
    for section, items, words in (("#findings", ".card", "GD101 program.py"),):
        field, told = (
            page.locator(f"{section} input[type=search]"),
            page.locator(f"{section} output"),
        )
        everything = page.locator(f"{section} {items}:visible").count()
        field.fill(words)
        count = page.locator(f"{section} {items}:visible").count()
        assert 0 < count < everything
        expect(told).to_have_text(f"{count} of {everything}")
        field.fill("no such word")
        expect(told).to_have_text(f"0 of {everything}")
        field.fill("")
        expect(told).to_have_text("")
        assert page.locator(f"{section} {items}:visible").count() == everything
    field, told = page.locator("#guards input[type=search]"), page.locator("#guards output")
    page.locator("#guard-tree").scroll_into_view_if_needed()
    whole = told.inner_text()
    assert re.fullmatch(r"\d+ guards", whole)
    parts = page.locator("#guard-tree details")
    closed = parts.count()
    field.fill("TENSOR_MATCH x f32")
    expect(told).to_have_text("1 found")
    expect(page.locator("#guard-tree tr")).to_have_count(1)
    expect(page.locator("#guard-tree tr")).to_contain_text("x is f32[4, 8]")
    field.fill("")
    expect(told).to_have_text(whole)
    expect(parts).to_have_count(closed)


def test_the_link_of_a_compile_shows_its_guards(visit, reported):
    page = visit(reported.page)
    link = page.locator("#guards .scroll a").nth(1)
    id_ = link.inner_text()
    link.click()
    chosen = page.get_by_label("Compile", exact=True).first
    expect(chosen).to_be_focused()
    assert chosen.evaluate("one => one.selectedOptions[0].textContent").startswith(f"{id_}:")
    expect(page.locator("#guard-tree details").first).to_be_visible()


def test_sorted_column_is_in_order_with_unknown_last(visit, tmp_path):
    compiles = tuple(
        compiled(f"{number}/0").replace(op_count=count, frame_id=number)
        for number, count in enumerate((9, None, 100, 20))
    )
    page = visit(written(tmp_path, recording(compiles=compiles), Picture()))
    shown = page.get_by_text("All compiles", exact=True)
    shown.scroll_into_view_if_needed()
    # The drawing above it loads now, and takes room: a click before it is there could miss.
    expect(page.locator("#graph-view")).to_have_attribute("data-ready", "true")
    shown.click()
    table = "#time details"
    operations = page.locator(f"{table} th button", has_text="operations")
    for way, order in (("descending", ["100", "20", "9"]), ("ascending", ["9", "20", "100"])):
        operations.click()
        expect(page.locator(f"{table} th[aria-sort]")).to_have_attribute("aria-sort", way)
        assert column(page, table, 7) == [*order, "unknown"]


# Without scripts.


def test_without_scripts_everything_but_the_drawings_can_be_read(visit, reported):
    page = visit(reported.page, java_script_enabled=False)
    assert (
        page.locator(
            ".needs-script:visible, button:not([popovertarget]):visible, input[type=search]:visible"
        ).count()
        == 0
    )
    for finding in reported.document["findings"]:
        anchor = f"[id='finding-{finding['fingerprint']}']"
        card = page.locator(f".card{anchor}, .card:has({anchor})")
        expect(card.locator(".severity").first).to_be_visible()
        expect(
            card.get_by_text(" ".join(finding["fixes"][0]["title"].replace("`", "").split()))
        ).to_be_visible()
    expect(page.locator("#source td.c", has_text='print("kumquat 5")')).to_be_visible()
    assert page.locator("#calls tbody tr:visible").count() == 4
    expect(page.locator("#figures .coverage")).to_be_visible()
    for section in ("calls", "guards", "graphs"):
        expect(page.locator(f"#{section} noscript p")).to_be_visible()

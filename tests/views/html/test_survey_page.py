"""A survey as a page: what it says, how large it is, and what it does in a browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from graphdoctor.facts.survey import SurveyReport
from graphdoctor.studies.documents import SURVEY
from graphdoctor.studies.survey.summary import summarize
from graphdoctor.views.html.survey import page_address, row_ids
from tests.studies.survey.reports import cause, failed, report, row
from tests.views.html.surveys import large
from tests.views.outputs import in_file, page_of, text_of

TWO_MIB = 2 * 2**20
BLOB = re.compile(
    r'<script type="application/octet-stream" id="data-rows">(.*?)</script>', re.DOTALL
)


def details(page: str) -> dict[str, Any]:
    """What is packed for each row, with its texts."""
    (blob,) = BLOB.findall(page)
    found = json.loads(gzip.decompress(base64.b64decode(blob)))

    def named(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: named(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [named(each) for each in value]
        return found["texts"][value] if isinstance(value, int) and key != "line" else value

    return {name: named(each) for name, each in found["rows"].items()}


def of_rows(*rows: Any) -> SurveyReport:
    names = [each.name for each in report().variants]
    return report(rows, summary=summarize(rows, names, seconds=60.0, made=len(rows)))


def test_each_row_holds_all_that_is_known_of_it():
    found = details(page_of(SURVEY, report()))
    t5 = found["row-t5-default"]
    (of_t5,) = t5["causes"]
    assert of_t5["place"] == "transformers/masking.py:44"
    assert of_t5["text"] == "size = lengths.max().item()"
    assert of_t5["fix_verdict"] == "verified"
    assert of_t5["costs"] == "costs 1 function left to eager mode, 120 µs of calls"
    facts = dict(t5["facts"])
    assert facts["speed-up"] == "1.10× (1.05 to 1.20)"
    assert facts["cold compile"] == "8.00 s"
    assert facts["torch"] == "2.13.0+cpu"
    assert t5["command"].startswith("graphdoctor explain models/t5.py")
    raised = found["row-t5-dynamic"]
    assert raised["error"] == "an operator isn't supported"
    assert dict(raised["facts"])["exception"] == "torch._inductor.exc.InductorError"
    assert raised["traceback"].startswith("Traceback")
    assert dict(raised["facts"])["unknown"].startswith("calls, break sites")
    assert dict(found["row-clip-dynamic"]["facts"])["attempts"] == "crashed, then ok"


def test_rows_link_only_to_pages_below_the_named_folder():
    page = page_of(SURVEY, report(), pages="table-files")
    addresses = re.findall(r'(?:href|src)="([^"]*)"', page[page.index("<body") :])
    assert "./table-files/pieces/bert/default.html" in addresses
    assert all(address.startswith(("./table-files/", "#")) for address in addresses)
    assert "pieces/bert" not in page_of(SURVEY, report())
    assert page_address("pages/a b#c?.html", "my files") == "./my%20files/pages/a%20b%23c%3F.html"
    for outside in ("../x.html", "pages/../../x.html", "/etc/passwd"):
        assert page_address(outside, "files") is None
    assert page_address("javascript:alert(1)", "files") == "./files/javascript%3Aalert%281%29"


def test_ids_of_rows_are_stable_and_no_two_are_alike():
    ids = row_ids(
        [
            row("a/b", "x"),
            row("a:b", "x"),
            row("a b", "x"),
            row("y" * 300, "x"),
            row("y" * 301, "x"),
        ]
    )
    assert len({*ids}) == len(ids)
    assert ids[:3] == ["row-a-b-x", "row-a-b-x-2", "row-a-b-x-3"]
    assert all(len(each) < 140 for each in ids)
    assert row_ids([row("bert", "default"), row("t5", "default")]) == [
        "row-bert-default",
        "row-t5-default",
    ]


@pytest.mark.slow
def test_two_thousand_rows_stay_small_and_cuts_are_reported():
    page = page_of(SURVEY, large(667, 3), pages="files")
    assert len(page.encode()) < TWO_MIB
    assert page.count("<tr id=") == 2001
    long = [
        row(f"m{number}", causes=(cause(message=f"{number} " + "x" * 9_000),))
        for number in range(5_000)
    ]
    page = page_of(SURVEY, of_rows(*long))
    assert (
        "1000 more rows left out; the JSON, CSV and Parquet documents have all of them."
        in text_of(page)
    )
    assert len(page.encode()) < 2 * TWO_MIB
    assert "characters left out" in details(page)["row-m0-default"]["causes"][0]["message"]


@pytest.mark.slow
def test_shared_row_texts_are_held_once_and_limited():
    trace = "Traceback\n" + "y" * 5_000
    alike = [
        failed(f"m{number}", "crashed", traceback=trace, error="gone") for number in range(400)
    ]
    assert len(page_of(SURVEY, of_rows(*alike)).encode()) < TWO_MIB / 4
    others = [
        failed(f"m{number}", "crashed", traceback=f"{number}{trace}", error="gone")
        for number in range(2_000)
    ]
    assert "Long texts of rows are cut" in text_of(page_of(SURVEY, of_rows(*others)))
    assert "Long texts of rows are cut" not in text_of(page_of(SURVEY, of_rows(*alike)))


# In a browser.


def shown_names(page: Page) -> list[str]:
    """The names of the rows that are shown, in their order."""
    return page.locator("#row-table tbody > tr[id^='row-']:not([hidden]) > th").all_inner_texts()


def hash_of(page: Page) -> str:
    return str(page.evaluate("location.hash"))


@pytest.mark.slow
def test_rows_are_filtered_with_counts_kept_in_the_address(visit, tmp_path):
    file = in_file(tmp_path, page_of(SURVEY, report()))
    page = visit(file)
    form = page.get_by_role("search", name="Rows")
    expect(form.locator("output")).to_have_text("10 rows")
    expect(form.get_by_label("Status").locator("option")).to_have_text(
        [
            "all (10)",
            "ok (7)",
            "compile failed (1)",
            "no inputs (1)",
            "timed out (1)",
            "all but ok (3)",
        ]
    )
    form.get_by_label("Status").select_option("ok")
    form.get_by_label("Finding").select_option("GD101")
    expect(form.locator("output")).to_have_text("3 of 10 rows")
    assert shown_names(page) == ["gpt2", "gpt2", "t5"]
    # A choice counts what the other filters leave.
    expect(form.get_by_label("Variant").locator("option")).to_have_text(
        ["all (3)", "default (2)", "dynamic (1)"]
    )
    form.get_by_label("noisy").check()
    assert shown_names(page) == ["gpt2"]
    page.get_by_role("button", name="speed-up").press("Enter")
    expect(page).to_have_url(re.compile("sort=speed-up"))
    again = visit(file, hash_of(page))
    assert shown_names(again) == ["gpt2"]
    expect(again.locator("#row-filters").get_by_label("Finding")).to_have_value("GD101")
    expect(
        again.locator("#row-table").get_by_role("columnheader", name="speed-up")
    ).to_have_attribute("aria-sort", "descending")
    again.get_by_role("button", name="Clear").click()
    expect(again.locator("#row-filters output")).to_have_text("10 rows")
    again.get_by_placeholder("name, status, place, error").fill("INDUCTORERROR operator")
    assert shown_names(again) == ["t5"]


@pytest.mark.slow
def test_every_column_sorts_both_ways_with_unknown_last(visit, tmp_path):
    page = visit(in_file(tmp_path, page_of(SURVEY, report())))
    cells = """(column) =>
        [...document.querySelectorAll("#row-table tbody > tr")].map((row) => row.cells[column].innerText)"""
    for column, head in enumerate(
        page.get_by_role("columnheader").filter(has=page.get_by_role("button")).all()
    ):
        orders = []
        for _ in range(2):
            head.get_by_role("button").press("Enter")
            orders.append((head.get_attribute("aria-sort"), page.evaluate(cells, column)))
        assert {way for way, _ in orders} == {"ascending", "descending"}
        for _, texts_of in orders:
            known = [text.split("\n")[0] not in ("–", "") for text in texts_of]
            assert known == sorted(known, reverse=True), head.inner_text()
        head.get_by_role("button").press("Enter")
        assert head.get_attribute("aria-sort") is None
    page.get_by_role("button", name="speed-up").click()
    ratios = [float(text.split("×")[0]) for text in page.evaluate(cells, 10) if "×" in text]
    assert ratios == sorted(ratios, reverse=True)
    assert len(ratios) == 7


@pytest.mark.slow
def test_row_opens_by_keyboard_and_by_its_address(visit, tmp_path):
    file = in_file(tmp_path, page_of(SURVEY, report(), pages="files"))
    page = visit(file)
    name = page.locator("#row-t5-default").get_by_role("button", name="t5")
    name.press("Enter")
    expect(name).to_have_attribute("aria-expanded", "true")
    opened = page.locator(f"#{name.get_attribute('aria-controls')}")
    for text in (
        "transformers/masking.py:44",
        "size = lengths.max().item()",
        "verified",
        "1.10× (1.05 to 1.20)",
    ):
        expect(opened).to_contain_text(text)
    expect(opened.get_by_role("link", name="Its own page")).to_have_attribute(
        "href", "./files/pieces/t5/default.html"
    )
    name.press("Enter")
    expect(opened).to_have_count(0)
    page.get_by_label("Status").select_option("ok")
    page.evaluate("location.hash = '#row-t5-dynamic'")
    # Its filter would hide it.
    expect(page.locator("#row-t5-dynamic")).to_be_in_viewport()
    expect(page.locator("#detail-row-t5-dynamic")).to_contain_text("an operator isn't supported")
    deep = visit(file, "#row-vit-dynamic")
    expect(deep.locator("#detail-row-vit-dynamic")).to_contain_text("It was stopped after 600 s.")


@pytest.mark.slow
def test_large_table_shows_first_rows_and_all_on_request(visit, tmp_path):
    file = in_file(tmp_path, page_of(SURVEY, large(200, 2)))
    page = visit(file)
    assert len(shown_names(page)) == 200
    page.get_by_placeholder("name, status, place, error").fill("arch0199")
    assert len(shown_names(page)) == 2
    page.get_by_placeholder("name, status, place, error").fill("")
    page.get_by_role("button", name="Show all 400 rows").click()
    assert len(shown_names(page)) == 400
    last = visit(file, "#row-Arch0199ForAudio-default")
    expect(last.locator("#row-Arch0199ForAudio-default")).to_be_in_viewport()
    expect(last.get_by_role("columnheader", name="coverage")).to_be_in_viewport()

"""The ranks of a job side by side in a browser."""

from __future__ import annotations

import html
import re
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import expect

from graphdoctor.facts.job import HangCandidate, Job
from graphdoctor.views.html.job import render_job_page
from tests.job_reports import compiled, found, job, rank, uneven
from tests.render.html.made import HOSTILE
from tests.render.html.test_page_use import AXE_RUN, NARROW
from tests.render.test_job import agreed, many, scattered, two

IN_BROWSER = pytest.mark.slow
TWO_MIB = 2 * 2**20


def texts(made: Job, **options: bool) -> str:
    """The page as a person reads it, without markup."""
    page = render_job_page(made, **options)
    body = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def long_job(count: int) -> Job:
    """So many compiles, every tenth of them other on rank 1."""
    mine = [compiled(f"{n}/0", f"f{n}", n) for n in range(count)]
    other = [compiled(f"{n}/0", f"f{n}", n, **({"graph": "other"} if n % 10 == 0 else {})) for n in range(count)]
    return job(rank(0, *mine), rank(1, *other))


@pytest.mark.parametrize("make", [two, many, scattered, agreed])
def test_a_page_says_what_the_terminal_says_first(make):
    from graphdoctor.views.job_words import verdict

    assert verdict(make())[0] in texts(make())


@pytest.mark.slow
def test_all_ranks_of_a_thousand_and_thousands_of_compiles_stay_small_and_what_is_cut_is_said():
    made = long_job(6000)
    page = render_job_page(made)
    assert len(page.encode()) < TWO_MIB
    text = texts(made)
    assert re.search(r"\d+ more compiles on which ranks differ are left out", text)
    assert "9 compiles that are the same on all ranks" in text
    wide = job(*(rank(n, compiled(graph=str(n))) for n in range(1000)), recording="logs")
    assert len(render_job_page(wide).encode()) < TWO_MIB
    text = texts(wide)
    assert "ranks 16–999 are left out" in text
    assert "488 more ranks left out" in text
    assert "988 more values of other ranks left out" in text


def test_values_are_marked_where_they_differ():
    page = render_job_page(scattered())
    assert "f32[<mark>8</mark>, 16]" in html.unescape(page)
    assert "f32[<mark>11</mark>, 16]" in html.unescape(page)


def test_nothing_from_a_log_is_markup_and_source_can_be_left_out():
    evil = rank(0, compiled(function=HOSTILE, causes=(HOSTILE,)), findings=(found(message=HOSTILE),))
    page = render_job_page(job(evil, rank(1), recording=HOSTILE))
    assert "<img" not in page
    assert "<svg onload" not in page
    assert "self.head" in texts(two())
    assert "self.head" not in texts(two(), has_source=False)


# In a browser.


def written(folder: Path, made: Job) -> Path:
    page = folder / "job.html"
    page.write_text(render_job_page(made), encoding="utf-8")
    return page


@IN_BROWSER
def test_each_cell_says_in_words_and_by_a_sign_what_it_is(visit, tmp_path):
    page = visit(written(tmp_path, uneven(64, others=range(3, 40))))
    table = page.get_by_role("region", name="Compiles by rank")
    expect(table.get_by_role("columnheader")).to_have_text(
        ["compile", "ranks 0–2, 40–63 27 ranks", "ranks 3–39 37 ranks"]
    )
    cells = table.locator("tbody tr").evaluate_all("all => all.map(row => [...row.cells].map(a => a.innerText))")
    assert [[cell.split(" ")[0] for cell in row[1:]] for row in cells] == [["=", "="], ["∅", "="], ["≠", "="]]
    row = table.get_by_role("row", name="1/0 loss")
    expect(row.get_by_role("cell").nth(0)).to_contain_text("differs: other sizes and guards")


@IN_BROWSER
@pytest.mark.parametrize("has_scripts", [True, False])
def test_compiles_that_are_the_same_unfold_with_the_keyboard(visit, tmp_path, has_scripts):
    page = visit(written(tmp_path, long_job(30)), java_script_enabled=has_scripts)
    row = page.locator(".matrix tr", has_text="f11 ")
    expect(row).to_be_hidden()
    page.get_by_role("checkbox").nth(1).focus()
    page.keyboard.press("Space")
    expect(row).to_be_visible()


@IN_BROWSER
def test_ranks_are_sorted_by_what_they_wait_and_all_are_one_click_away(visit, tmp_path):
    page = visit(written(tmp_path, uneven(64, others=range(3, 40))))
    rows = page.locator("#ranks tbody tr")
    expect(rows.locator("visible=true")).to_have_count(16)
    page.get_by_role("button", name="waiting").click()
    assert rows.first.locator("th").inner_text() in {"0", "1", "2", *map(str, range(40, 64))}
    page.get_by_role("button", name="Show all 64 rows").click()
    expect(rows.locator("visible=true")).to_have_count(64)


@IN_BROWSER
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_axe_finds_no_serious_fault(visit, tmp_path, width, scheme):
    axe = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    hang = HangCandidate(kind="absent", compile="0/0", function="step", waiting=(0,), missing=(1,))
    for number, made in enumerate((two().model_copy(update={"hangs": (hang,)}), many(), long_job(40), agreed())):
        (tmp_path / str(number)).mkdir()
        file = written(tmp_path / str(number), made)
        page = visit(file, viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
        page.evaluate(axe + ";null")
        passed, faults = page.evaluate(AXE_RUN)
        assert passed > 15
        assert faults == [], number
        narrow = visit(file, viewport=NARROW)
        assert narrow.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], number

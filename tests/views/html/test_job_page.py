"""The ranks of a job side by side in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from graphdoctor.facts.job import Job
from graphdoctor.studies.documents import JOB
from graphdoctor.views.html.sourceless import without_source
from tests.studies.ranks.reports import compiled, job, rank, uneven
from tests.views.outputs import in_file, page_of, text_of
from tests.views.test_job import two

TWO_MIB = 2 * 2**20


def long_job(count: int) -> Job:
    """So many compiles, every tenth of them other on rank 1."""
    mine = [compiled(f"{n}/0", f"f{n}", n) for n in range(count)]
    other = [
        compiled(f"{n}/0", f"f{n}", n, **({"graph": "other"} if n % 10 == 0 else {}))
        for n in range(count)
    ]
    return job(rank(0, *mine), rank(1, *other))


@pytest.mark.slow
def test_thousand_ranks_stay_small_and_cuts_are_reported():
    page = page_of(JOB, long_job(6000))
    assert len(page.encode()) < TWO_MIB
    text = text_of(page)
    assert "300 more compiles left out" in text
    assert "5,100 more compiles left out" in text.replace("5100", "5,100")
    page = page_of(
        JOB, job(*(rank(n, compiled(graph=str(n))) for n in range(1000)), recording="logs")
    )
    assert len(page.encode()) < TWO_MIB
    text = text_of(page)
    assert "400 more ranks left out" in text
    assert "996 more ranks 996 more values" in text


def test_source_can_be_left_out():
    assert "self.head" in text_of(page_of(JOB, two()))
    assert "self.head" not in text_of(page_of(JOB, without_source(two())))


# In a browser.


@pytest.mark.slow
def test_compiles_and_ranks_are_tables_that_sort_and_unfold(visit, tmp_path):
    page = visit(in_file(tmp_path, page_of(JOB, uneven(64, others=range(3, 40)))))
    table = page.get_by_role("region", name="Compiles by rank")
    expect(table.get_by_role("columnheader")).to_have_text(["compile", "function", "did"])
    expect(table.get_by_role("row", name="1/0 loss")).to_contain_text("other sizes and guards")
    rows = page.get_by_role("region", name="Counts and times of each rank").locator("tbody tr")
    expect(rows.locator("visible=true")).to_have_count(50)
    page.get_by_role("button", name="waiting").click()
    assert rows.first.locator("th").inner_text() in {"0", "1", "2", *map(str, range(40, 64))}
    page.get_by_role("button", name="Show all 64 rows").click()
    expect(rows.locator("visible=true")).to_have_count(64)

"""A survey as a page: where its rows lead, and how large it is."""

from __future__ import annotations

import re

import pytest

from graphdoctor.facts.survey import SurveyReport
from graphdoctor.studies.documents import SURVEY
from graphdoctor.studies.survey.summary import summarize
from graphdoctor.views.survey import page_address
from tests.studies.survey.reports import cause, failed, report, row
from tests.views.outputs import page_of, text_of

TWO_MIB = 2 * 2**20


def large(targets: int) -> SurveyReport:
    """A survey of which a tenth fails, each with its own traceback."""
    names = [each.name for each in report().variants]
    rows = [
        failed(f"Arch{number:04}", "crashed", traceback=f"{number} " + "y" * 5_000, error="gone")
        if number % 10 == 3
        else row(f"Arch{number:04}", causes=(cause(message=f"{number} " + "x" * 9_000),))
        for number in range(targets)
    ]
    return report(rows, summary=summarize(rows, names, seconds=60.0, made=len(rows)))


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


@pytest.mark.slow
def test_thousands_of_rows_stay_small_and_cuts_are_reported():
    assert len(page_of(SURVEY, large(2_000)).encode()) < TWO_MIB
    page = page_of(SURVEY, large(5_000))
    assert len(page.encode()) < 2 * TWO_MIB
    assert "1000 more rows are in the JSON, CSV and Parquet documents." in text_of(page)

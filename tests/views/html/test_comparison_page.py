"""Two runs side by side in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from graphdoctor.facts.counts import Coverage
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.rules.diagnosis.comparison import compare
from graphdoctor.views.formats import COMPARISON
from tests.conftest import RECORDED_LOGS
from tests.factories import LOOP, diagnosed, entry, record, recording
from tests.views.outputs import in_file, page_of

pytestmark = pytest.mark.slow

PRINTED = record(entry(12))
LOOPED = record(entry(20, "for y in x:"), effect="frame_skipped", chain=(LOOP,))
HALF = Coverage(graph_ops=2, eager_ops=2)


def compared(folder: Path, before: Diagnosis, after: Diagnosis) -> Path:
    return in_file(folder, page_of(COMPARISON, compare(before, after, names=("old", "new"))))


def numbers(page: Page) -> dict[str, list[str]]:
    rows = page.locator("#numbers tbody tr").evaluate_all(
        "all => all.map(row => [...row.cells].map(a => a.innerText))"
    )
    return {name: values for name, *values in rows}


def test_new_gone_and_same_findings_have_sections(visit, tmp_path):
    before = diagnosed(
        recording(breaks=(PRINTED, record(entry(30, "y = x.item()"))), coverage=HALF)
    )
    after = diagnosed(recording(breaks=(record(entry(14)), LOOPED)))
    comparison = compare(before, after, names=("old", "new"))
    page = visit(compared(tmp_path, before, after))
    assert (len(comparison.new), len(comparison.gone), len(comparison.same)) == (2, 1, 1)
    expect(page.locator("h1")).to_have_text("Two runs of model.py")
    expect(page.locator(".sentence")).to_have_text("2 new findings, 1 gone, 1 in both.")
    codes = page.locator("#new .card h3 .code").all_inner_texts()
    assert codes == [finding.code for finding in comparison.new]
    for name, count in (("new", 2), ("gone", 1), ("in-both", 1)):
        expect(page.get_by_role("navigation").locator(f"a[href='#{name}'] .count")).to_have_text(
            str(count)
        )
    expect(page.locator("#gone")).to_contain_text("y = x.item()")
    expect(page.locator("#in-both")).to_contain_text("model.py:14 (was line 12)")


def test_numbers_are_of_both_runs_and_unknown_is_not_zero(visit, tmp_path):
    before = diagnosed(recording(breaks=(PRINTED,), coverage=HALF))
    after = diagnosed(recording(coverage=None))
    shown = numbers(visit(compared(tmp_path, before, after)))
    assert shown["coverage"][:2] == ["50%", "unknown"]
    assert shown["break sites"] == ["1", "0", "-1"]
    assert shown["steady call"][:2] == ["unknown", "unknown"]


def test_finding_links_resolve_and_ids_are_unique(visit, tmp_path):
    before = diagnosed(recording())
    after = diagnosed(
        recording(breaks=(PRINTED, *(record(entry(30 + n, f"y{n} = x.item()")) for n in range(12))))
    )
    file = compared(tmp_path, before, after)
    last = after.findings[-1].fingerprint
    page = visit(file, f"#finding-{last}")
    expect(page.locator(f"#finding-{last}")).to_be_in_viewport()
    ids = page.locator("[id]").evaluate_all("all => all.map(one => one.id)")
    assert len(ids) == len({*ids})
    assert {*page.locator("a[href]").evaluate_all("all => all.map(one => one.hash.slice(1))")} <= {
        *ids
    }


def test_the_command_writes_the_page(visit, run_here, tmp_path, reported):
    run_here(
        "diff",
        RECORDED_LOGS / "2.13.0" / "item",
        reported.recording,
        "--html",
        "--no-open",
        status=0,
    )
    page = visit(tmp_path / "graphdoctor-diff.html")
    codes = sorted(page.locator("#new .card h3 .code").all_inner_texts())
    assert codes == sorted(finding["code"] for finding in reported.document["findings"])
    calls = str(reported.document["summary"]["calls"])
    assert numbers(page)["calls"][1] == calls

"""Recordings that are not as they should be, and pairs of them: each gives a page or an error by
name."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from playwright.sync_api import expect

from tests.conftest import RECORDED_LOGS
from tests.views.html.conftest import PROGRAM
from tests.views.html.made import hostile, written

RECORDINGS = RECORDED_LOGS
RECORDED = sorted(path for path in RECORDINGS.glob("*/*") if path.is_dir())


# Through the command line.


@pytest.mark.slow
def test_half_a_recording_says_that_it_is_half(visit, run_here, tmp_path, reported):
    half = tmp_path / "half"
    shutil.copytree(reported.recording, half)
    (log,) = (half / "trace").glob("*.log")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    (half / "recording.json").unlink()
    (half / "probe.jsonl").write_bytes((half / "probe.jsonl").read_bytes()[:2500])
    run_here("report", "half", "--html", "--no-open", status=0)
    page = visit(tmp_path / "graphdoctor-report.html")
    expect(page.locator("#verdict p.tone-bad").first).to_contain_text("PARTIAL")
    expect(page.locator("#unknown")).to_contain_text("Unknown")
    expect(page.locator("#source")).to_contain_text("program.py")


@pytest.mark.slow
def test_what_a_call_raised_is_shown_with_its_traceback(visit, tmp_path):
    page = visit(written(tmp_path, *hostile()))
    page.locator("#calls summary", has_text="Call 2 raised").click()
    expect(page.locator("#calls pre")).to_be_visible()


@pytest.mark.slow
@pytest.mark.nightly
def test_recordings_and_foreign_logs_of_each_torch_give_a_page(visit, run_here, tmp_path):
    for path in RECORDED:
        run_here("report", path, "-o", "report.html", "--force", status=0)
        page = visit(tmp_path / "report.html")
        count = json.loads(run_here("report", path, "--format", "json").stdout)["summary"]["graphs"]
        assert page.locator("#graphs .scroll tbody tr").count() == count, path
        is_foreign = path.suffix == ".bare"
        assert ("not recorded by graphdoctor" in page.locator("main").inner_text()) == is_foreign, (
            path
        )
        if count:
            box = page.locator("#graph-view")
            box.scroll_into_view_if_needed()
            expect(box).to_have_attribute("data-ready", "true")
            expect(box.locator(".node")).not_to_have_count(0)
            if path.name.startswith("lowered"):
                box.get_by_role("group", name="Stage").get_by_role(
                    "button", name=re.compile("^code")
                ).first.click()
                expect(box.locator("pre")).to_contain_text("async_compile")
        else:
            expect(page.locator("#graphs")).to_have_count(0)
        page.context.close()


@pytest.mark.slow
@pytest.mark.parametrize("is_removed", [False, True], ids=["changed", "removed"])
def test_files_that_changed_since_are_shown_as_they_were(
    visit, run_here, tmp_path, reported, is_removed
):
    file = reported.folder / "program.py"
    try:
        if is_removed:
            file.unlink()
        else:
            file.write_text("import torch\nchanged = True\n")
        process = run_here("report", reported.recording, "--ignore", "GD301", "--html", "--no-open")
    finally:
        file.write_text(PROGRAM)
    assert process.returncode == 0, process.stderr
    page = visit(tmp_path / "graphdoctor-report.html")
    table = page.locator("#f0 table.code")
    shown = table.locator("tbody tr:not(.note) td.c").evaluate_all(
        "all => all.map(one => one.textContent)"
    )
    assert "\n".join(shown) == PROGRAM.rstrip("\n")
    codes = page.locator("#findings .card h3 .code").all_inner_texts()
    assert sorted(codes) == sorted(found["code"] for found in reported.document["findings"])

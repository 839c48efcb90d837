"""What a page must never do: run what a program holds, ask for anything, show code that was to be
left out."""

from __future__ import annotations

import base64
import gzip
import re

import pytest
from playwright.sync_api import Page, expect

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.reading import json_of, read_fact
from graphdoctor.views.html.sourceless import without_source
from tests.factories import diagnosed
from tests.views.html.conftest import PROGRAM, SECRET, load_everything
from tests.views.html.made import HOSTILE, ROOT, hostile, render_page, written

BLOB = re.compile(
    r'<script type="application/octet-stream" id="data-\w+">(.*?)</script>', re.DOTALL
)


def decoded(page: str) -> str:
    """All that a page holds: its text and what is packed for its scripts."""
    blobs = (gzip.decompress(base64.b64decode(blob)).decode() for blob in BLOB.findall(page))
    return "\n".join((page, *blobs))


# What a program holds.


def is_untouched(page: Page) -> bool:
    """Nothing ran, and no element is there that the page did not make."""
    foreign = page.locator(
        "img, iframe, [onerror], [onload], svg:not(.canvas > svg), body * > script"
    )
    return foreign.count() == 0 and page.evaluate("window.hacked === undefined")


@pytest.mark.slow
@pytest.mark.parametrize("has_policy", [True, False], ids=["as it is", "without its policy"])
def test_program_content_is_shown_as_text_and_never_run(visit, tmp_path, has_policy):
    page = visit(written(tmp_path, *hostile()), bypass_csp=not has_policy)
    load_everything(page)
    assert is_untouched(page)
    for section in ("findings", "source", "calls", "recompiles", "guards", "graphs", "evidence"):
        assert HOSTILE in page.locator(f"#{section}").text_content(), section
    lane = page.locator("#lanes canvas").first
    for _ in range(2):
        lane.press("ArrowRight")
        assert HOSTILE in page.locator("#lanes [aria-live]").text_content()
    page.locator("#phases canvas").first.press("ArrowRight")
    assert HOSTILE in page.locator("#phases [aria-live]").text_content()
    assert HOSTILE in page.locator("#guard-tree").text_content()
    box = page.locator("#graph-view")
    stages = box.get_by_role("group", name="Stage").get_by_role("button")
    assert stages.count() == 3
    for stage in stages.all():
        stage.click()
        for view in box.get_by_role("group", name="View").get_by_role("button").all():
            view.click()
            assert HOSTILE in box.locator(".bodyrow").text_content()
            assert is_untouched(page)
    stages.first.click()
    for number in (0, 1):
        box.locator(f".node[data-id='n{number}']").click()
        assert HOSTILE in box.locator(".side").text_content()
    page.locator("#source tr[data-g] td.c").first.click()
    box.get_by_label("Find a node").fill("<svg")
    expect(box.locator(".side")).to_contain_text("found")
    assert is_untouched(page)


def test_the_same_recording_gives_the_same_page():
    pages = {
        render_page(diagnosed(facts), shown, root=ROOT) for facts, shown in (hostile(), hostile())
    }
    assert len(pages) == 1


# What a page asks for.


@pytest.mark.slow
def test_a_pages_policy_lets_no_script_and_no_request_through(visit, reported):
    page = visit(reported.page)
    page.evaluate(
        "() => { const script = document.createElement('script'); script.textContent = 'window.hacked = 1';"
        " document.body.append(script); new Image().src = 'https://example.org/image.png' }"
    )
    page.evaluate("fetch('https://example.org/data').catch(() => null)")
    assert page.evaluate("window.hacked === undefined")
    refused = " ".join(visit.trouble)
    assert refused.count("Content Security Policy") >= 3
    assert "asked for" not in refused
    visit.trouble.clear()


# Without the source.


def is_telling(line: str) -> bool:
    """A line of code that nothing else says: torch itself names its ``graph_break``."""
    return len(line.strip()) > 18 and "torch._dynamo" not in line


@pytest.mark.slow
def test_page_without_source_says_so_and_keeps_the_rest(visit, run_here, tmp_path, reported):
    lines = [line.strip() for line in PROGRAM.splitlines() if is_telling(line)]
    # Where the other page was written, the configuration ignores GD301, which depends on the
    # machine's mood.
    for name, option in (("with.html", "--source"), ("without.html", "--no-source")):
        options = (option, "--ignore", "GD301")
        run_here("report", reported.recording, *options, "-o", name, status=0)
    shown, left = (decoded((tmp_path / name).read_text()) for name in ("with.html", "without.html"))
    assert shown.count(SECRET) > 5
    assert SECRET not in left
    assert [line for line in lines if line in left or line.replace('"', "&#34;") in left] == []
    for name in (
        "program.py",
        "Net.smooth",
        "x.shape[0]",
        "GD101",
        "torch._dynamo.mark_dynamic(x, 0)",
    ):
        assert name in left
    page = visit(tmp_path / "without.html")
    expect(page.locator("#verdict .banner")).to_contain_text(
        "--no-source left out the lines of code"
    )
    cards = visit(reported.page).locator("#findings .card").count()
    expect(page.locator("#findings .card")).to_have_count(cards)
    page.locator("#graph-view").scroll_into_view_if_needed()
    expect(page.locator("#graph-view .node")).not_to_have_count(0)


@pytest.mark.slow
def test_what_torch_quotes_of_a_program_goes_without_the_rest(reported):
    (finding,) = (
        found
        for found in read_fact(Diagnosis, reported.document).findings
        if "power == 2" in str(found.torch_reason)
    )
    left = without_source(finding)
    assert SECRET in str(finding.torch_reason)
    assert left.torch_reason is not None
    assert "power == 2" in left.torch_reason
    assert 'program.py", line 28, in forward' in left.torch_reason
    assert SECRET not in json_of(left)

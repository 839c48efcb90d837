"""What comes first on the page: the verdict with what fixes change, what to do, the figures, the
source, the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from graphdoctor.facts.counts import CallWatch, WatchedFunction
from graphdoctor.facts.guards import Guards, GuardSet
from graphdoctor.facts.picture import Picture
from graphdoctor.facts.recording import GraphInput
from graphdoctor.facts.run import ProbeExit
from graphdoctor.views.report import figures
from graphdoctor.views.words import inputs_text
from tests.factories import FULL_COVERAGE, diagnosed, graph, recording
from tests.views.html.made import EDIT, many_calls, written
from tests.views.test_fixes import peeled


@pytest.mark.slow
def test_page_is_in_reading_order(visit, reported, tmp_path):
    known, treatment = peeled()
    shown = diagnosed(known, treatment=treatment)
    top = "one => one.getBoundingClientRect().top"
    page = visit(written(tmp_path, shown, Picture()))
    tops = [
        page.locator(name).first.evaluate(top) for name in (".sentence", "#findings", "#together")
    ]
    assert tops == sorted(tops)
    page = visit(reported.page)
    assert page.locator("#together").count() == 0
    names = (".sentence", ".next", "#what-to-do", ".strip", ".coverage", ".share", "#source")
    tops = [page.locator(name).first.evaluate(top) for name in names]
    assert tops == sorted(tops)


def test_edits_stand_beside_what_they_changed(tmp_path: Path) -> None:
    known, treatment = peeled()
    shown = diagnosed(known, treatment=treatment.replace(diff=EDIT))
    page = written(tmp_path, shown, Picture()).read_text()
    ids = re.findall(r'<section id="([^"]+)"', page)
    assert ids.index("together") < ids.index("edits") < ids.index("calls")


@pytest.mark.slow
def test_the_largest_graph_comes_first_and_is_drawn_first(visit, reported):
    page = visit(reported.page)
    page.locator("#graph-view").scroll_into_view_if_needed()
    chooser = page.get_by_label("Graph", exact=True)
    largest = max(reported.document["recording"]["graphs"], key=lambda graph: graph["op_count"])
    assert page.locator("#graphs tbody tr").first.get_attribute("id") == f"graph-{largest['index']}"
    expect(chooser).to_have_value(str(largest["index"]))
    assert chooser.locator("option").first.get_attribute("value") == str(largest["index"])


@pytest.mark.slow
def test_parameters_are_drawn_when_they_are_asked_for(visit, reported):
    page = visit(reported.page)
    page.locator("#graph-view").scroll_into_view_if_needed()
    largest = max(reported.document["recording"]["graphs"], key=lambda graph: graph["op_count"])
    count = sum(item["is_parameter"] is True for item in largest["inputs"])
    assert count > 1
    inputs = page.locator("#graph-view .node.placeholder")
    switch = page.get_by_role("button", name=f"{count} parameters hidden")
    expect(switch).to_be_visible()
    before = inputs.count()
    switch.click()
    switch = page.get_by_role("button", name=f"Hide {count} parameters")
    expect(switch).to_have_attribute("aria-pressed", "true")
    assert inputs.count() > before or page.locator("#graph-view .node.folded").count() > 0
    switch.click()
    expect(inputs).to_have_count(before)
    page.get_by_role("button", name="Operations", exact=True).click()
    expect(page.locator("#graph-view .optable")).not_to_contain_text("_parameters_")


def test_inputs_of_one_shape_are_named_together() -> None:
    def tensor(name: str, *shape: int | str, is_parameter: bool = False) -> GraphInput:
        source = f"L['{name}']"
        return GraphInput(
            name=name,
            source=source,
            kind="tensor",
            dtype="f32",
            shape=shape,
            is_parameter=is_parameter,
        )

    size = GraphInput(name="s0", source="L['x'].size()[0]", kind="symbol")
    number = GraphInput(name="s1", source="L['n']", kind="symbol")
    inputs = (
        size,
        tensor("x", "s0", 8),
        tensor("y", "s0", 8),
        number,
        tensor("z", 3),
        tensor("w", 8, is_parameter=True),
    )
    (found,) = diagnosed(graphs=(graph().replace(inputs=inputs),)).recording.graphs
    assert inputs_text(found) == "x, y f32[s0, 8]; n (dynamic); z f32[3]; 1 parameter"


def test_ended_run_does_not_claim_nothing_is_to_do(tmp_path: Path) -> None:
    ended = ProbeExit(status=1, reason="killed", message="The program was killed.")
    nothing = recording(compiles=(), frames=(), graphs=(), calls=(), coverage=None, ended=ended)
    page = written(tmp_path, nothing, Picture()).read_text()
    section = page[page.index('id="what-to-do"') : page.index('id="evidence"')]
    assert "The run ended early, so what there is to do is unknown." in section
    assert "Nothing" not in section


def test_clean_run_says_what_is_good_and_its_cost(tmp_path: Path) -> None:
    guards = Guards(
        sets=(GuardSet(compile_id="0/0", nodes=(), kinds={}, guard_count=3),),
        share=0.04,
        searches_us=4,
        call_us=100,
    )
    page = written(tmp_path, diagnosed(guards=guards), Picture()).read_text()
    section = page[page.index('id="what-to-do"') : page.index('id="evidence"')]
    text = " ".join(re.sub(r"<[^>]*>", "", section).split())
    assert "Nothing: no findings are shown. Guard checks take 4% of a steady call." in text


def test_a_scripts_calls_are_counted_with_those_that_were_watched(tmp_path) -> None:
    function = WatchedFunction(
        compiled="step",
        calls=4000,
        watched_calls=12,
        coverage=FULL_COVERAGE,
        graph_runs=1,
        steady_us=420.0,
        timed_calls=8,
    )
    watch = CallWatch(functions=(function, function.replace(line=9, file="b.py")), cost_s=0.3)
    shown = diagnosed(calls=(), watch=watch)
    told = {one.label: one.value for one in figures(shown)}
    assert told["calls"] == "8,000"
    assert told["steady call"] == "840 µs"
    text = written(tmp_path, shown, Picture()).read_text()
    assert "Measured 24 of 8,000 calls (+300 ms overhead)." in text
    assert (
        "step (b.py:9): 100% of 4 operations compiled · 1 graph per call · 420 µs per steady call"
        in text
    )


def test_the_tab_of_calls_without_numbers_has_no_count(tmp_path: Path) -> None:
    assert (
        'Calls <span class="count">1</span>'
        in written(tmp_path, recording(), Picture()).read_text()
    )
    _, shown = many_calls(2)
    assert '<a href="#calls">Calls</a>' in written(tmp_path, recording(calls=()), shown).read_text()
    assert '"#calls"' not in written(tmp_path, recording(calls=()), Picture()).read_text()

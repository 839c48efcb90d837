"""The report's drawings: graphs stage by stage and folded, calls on a time axis, and the lines that
belong to them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from graphdoctor.facts.picture import Lane, Picture, Segment, SourceText
from tests.factories import FILE, graph, recording
from tests.views.html.made import (
    KERNEL,
    TEXT,
    chain,
    large,
    lowered,
    many_calls,
    node,
    stage_graph,
    written,
)

pytestmark = pytest.mark.slow

MOST_DRAWN = 700
UNTOUCHED = 300
"""Width of a canvas that nobody drew on."""


def viewer(page: Page) -> Locator:
    """The graph view, drawn."""
    box = page.locator("#graph-view")
    box.scroll_into_view_if_needed()
    expect(box).to_have_attribute("data-ready", "true")
    return box


def press(box: Locator, name: str) -> None:
    button = box.get_by_role("button", name=name, exact=True)
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")


def folded_count(box: Locator) -> int:
    found = re.search(
        r"([\d,]+) of ([\d,]+) nodes? folded", box.locator(".notice").first.inner_text()
    )
    return int(found[1].replace(",", ""))


# Graphs.


def test_stages_stand_in_torchs_order_each_with_its_own_nodes(visit, tmp_path):
    box = viewer(visit(written(tmp_path, *lowered())))
    flow = box.get_by_role("group", name="Stage")
    assert " ".join(flow.inner_text().split()) == (
        "Dynamo captured graph → AOTAutograd joint graph forward backward"
        " → Inductor post-grad (forward) post-grad (backward) code (forward)"
    )
    expect(flow.get_by_role("button", name="captured graph")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(box.locator("svg[role=group]")).to_contain_text("f32[4, 8]")
    press(box, "backward")
    expect(box.locator("svg[role=group]")).to_have_attribute(
        "aria-label", re.compile("backward: 3 nodes drawn")
    )
    expect(box.locator("svg[role=group]")).to_contain_text("aten.sin")
    press(box, "Code")
    expect(box.locator("pre")).to_have_text("the backward code")
    press(box, "post-grad (backward)")
    press(box, "Code")
    expect(box.locator("pre")).to_have_text("the lowered backward code")
    press(box, "captured graph")
    press(box, "Operations")
    rows = box.locator("tbody tr").evaluate_all(
        "all => all.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert rows[1] == ["sin", "call_method", "sin", "l_x_", "f32[4, 8]", "model.py:11", ""]
    press(box, "code (forward)")
    assert box.locator("pre").inner_text() == KERNEL
    expect(box.locator(".notice", has_text="Kernels")).to_contain_text(
        "cpp_fused_sin_0, extern_kernels.addmm"
    )
    expect(box.get_by_role("button", name="Drawn")).to_have_count(0)


def test_node_shows_its_operation_and_origin(visit, tmp_path):
    page = visit(written(tmp_path, *lowered()))
    box = viewer(page)
    box.locator(".node", has_text="sin").click()
    side = box.locator(".side")
    facts = dict(
        side.locator("dl > div").evaluate_all(
            "all => all.map(one => [...one.children].map(a => a.innerText))"
        )
    )
    assert facts == {
        "node": "sin", "opcode": "call_method", "target": "sin", "shape": "[4, 8]", "dtype": "f32",
        "line": "model.py:11",
    }  # fmt: skip
    expect(box.locator(".edge.lit")).to_have_count(2)
    side.get_by_role("button", name="x f32[4, 8]").click()
    expect(side.get_by_role("heading").first).to_have_text("x")  # the argument in the user's words
    side.get_by_role("button", name="sin").click()
    side.get_by_role("link", name="model.py:11").click()
    expect(page.locator("#f0-L11")).to_be_in_viewport()


def test_large_graph_is_folded_by_module_unfolds_and_is_searched(visit, tmp_path):
    nodes = chain(5000, per_block=50)
    box = viewer(visit(written(tmp_path, *large(nodes))))
    drawn = box.locator(".node").count()
    single = box.locator(".node:not(.folded)").count()
    assert 1 < drawn <= MOST_DRAWN
    assert folded_count(box) == len(nodes) - single
    block = box.locator(".node.folded").first
    before = folded_count(box)
    expect(block).to_contain_text("folded")
    block.focus()
    block.press("Enter")
    box.locator(".side").get_by_role("button", name="Unfold").click()
    assert folded_count(box) <= before
    assert box.locator(".node").count() > drawn
    box.get_by_role("button", name="Reset folding").click()
    expect(box.locator(".node")).to_have_count(drawn)
    assert folded_count(box) == before
    box.get_by_label("Find a node").fill("op4321")
    expect(box.locator(".side")).to_contain_text("1 node found")
    expect(box.locator(".node.folded.found")).to_have_count(1)
    box.locator(".side").get_by_role("button", name="op4321").click()
    expect(box.locator(".node.picked")).to_have_attribute("data-id", "n4321")
    expect(box.locator(".side")).to_contain_text("self.blocks[86]")
    box.get_by_label("Find a node").fill("no such node")
    expect(box.locator(".node.found")).to_have_count(0)


def test_large_graph_without_modules_is_folded_into_runs(visit, tmp_path):
    nodes = chain(20_000)
    page = visit(written(tmp_path, *large(nodes)))
    box = viewer(page)
    assert 1 < box.locator(".node").count() <= MOST_DRAWN
    assert folded_count(box) == len(nodes) - box.locator(".node:not(.folded)").count()
    # Every node is found; what marks them must not take longer than a person waits.
    started = page.evaluate("performance.now()")
    box.get_by_label("Find a node").fill("torch.sin")
    expect(box.locator(".side")).to_contain_text("19,998 nodes found")
    assert page.evaluate("performance.now()") - started < 3000
    press(box, "Operations")
    assert box.locator("tbody tr").count() < 1000
    expect(box.get_by_role("button", name="Show all 20,000 nodes")).to_be_visible()


def test_what_the_recording_lacks_is_said_in_place_of_a_drawing(visit, tmp_path):
    page = visit(written(tmp_path, recording(), Picture()))
    expect(viewer(page)).to_contain_text("no nodes and no code")
    expect(page.locator("#lanes")).to_have_count(0)
    expect(page.locator("#calls")).to_contain_text("no timing of the parts of a call")


# Lines and graphs.


def two_files() -> tuple[Any, Picture]:
    """A graph with operations of two files, and another of one."""
    other = "/project/layers.py"
    nodes = (
        node("arg0"),
        node("a", "arg0", file=FILE, line=11),
        node("b", "a", file=other, line=2),
        node("output", "b"),
    )
    second = stage_graph((node("arg0"), node("c", "arg0", file=FILE, line=13))).replace(
        graph_index=1
    )
    files = (
        SourceText(file=FILE, text=TEXT),
        SourceText(file=other, text="def layer(x):\n    return x.cos()\n"),
    )
    facts = recording(graphs=(graph(), graph("1/0", index=1)))
    return facts, Picture(files=files, graphs=(stage_graph(nodes), second))


def test_graph_highlights_its_lines_and_a_line_its_operations(visit, tmp_path):
    page = visit(written(tmp_path, *two_files()))
    lit = page.locator("#source tr.lit td.c")
    chips = page.locator("#source .chips .chip")
    chips.first.hover()
    assert [text.strip() for text in lit.all_inner_texts()] == [
        "x = self.fc(x).sin()",
        "return x.cos()",
    ]
    page.mouse.move(0, 0)
    expect(lit).to_have_count(0)
    chips.nth(1).focus()
    assert [text.strip() for text in lit.all_inner_texts()] == ["return x * self.scale"]
    page.locator("#source tr[data-g] td.c", has_text="return x.cos()").click()
    box = viewer(page)
    expect(box.locator(".node.found")).to_have_count(1)
    expect(box.locator(".node.found")).to_have_attribute("data-id", "n2")
    page.locator("#source tr[data-g] td.c", has_text="return x * self.scale").click()
    expect(page.get_by_label("Graph", exact=True)).to_have_value("1")
    expect(box.locator(".node.found")).to_have_attribute("data-id", "n1")


# Calls on a time axis.


def pixels(canvas: Locator) -> str:
    return canvas.evaluate("one => one.toDataURL()")


def test_each_call_and_the_steady_call_have_a_row(visit, reported):
    box = visit(reported.page).locator("#lanes")
    box.scroll_into_view_if_needed()
    expect(box.locator("canvas")).not_to_have_count(0)
    names = box.locator(".name").evaluate_all("all => all.map(one => one.firstChild.textContent)")
    assert names == [
        *(f"call {call['index']}" for call in reported.document["recording"]["calls"]),
        "steady call",
    ]
    for name in ("call 1", "steady call"):
        row = box.get_by_role("img", name=re.compile(f"^{name}: "))
        expect(row).to_have_attribute("aria-label", re.compile(r"graph [\d.]+ (µs|ms|s)"))
    assert "compile" in str(box.locator("canvas").first.get_attribute("aria-label"))
    assert "compile" not in str(box.locator("canvas").last.get_attribute("aria-label"))


def test_zooming_changes_the_drawing_and_all_of_it_comes_back(visit, tmp_path):
    page = visit(written(tmp_path, *many_calls(3)))
    page.locator("#lanes").scroll_into_view_if_needed()
    row = page.locator("#lanes canvas").last
    # Drawn once it is in view, which a visible element need not be yet.
    expect(row).to_have_attribute("width", re.compile(r"[1-9]"))
    whole = pixels(row)
    assert len(whole) > 500
    page.locator("#lanes").get_by_role("button", name="Zoom in").click()
    nearer = pixels(row)
    assert nearer != whole
    page.locator("#lanes").get_by_role("button", name="Later").click()
    assert pixels(row) not in (whole, nearer)
    page.locator("#lanes").get_by_role("button", name="Show everything").click()
    assert pixels(row) == whole
    page.locator("#theme").click()
    page.locator("#theme").click()
    assert pixels(row) != whole


def test_a_selected_area_is_summed_up_and_zoomed_to(visit, tmp_path):
    page = visit(written(tmp_path, *many_calls(3)))
    page.locator("#lanes").scroll_into_view_if_needed()
    row = page.get_by_role("img", name=re.compile("^call 1: "))
    told = page.locator("#lanes .detail")
    zoom = page.locator("#lanes").get_by_role("button", name="Zoom to the selection")
    expect(zoom).to_be_disabled()
    row.press("ArrowRight")
    row.press("ArrowRight")
    row.press("Shift+ArrowRight")
    summed = "call 1, 80 µs selected: graph 50 µs (63%), eager 20 µs (25%)"
    expect(told).to_have_text(summed)
    before = pixels(row)
    zoom.click()
    assert pixels(row) != before
    row.press("Escape")
    expect(told).to_have_text("")
    expect(zoom).to_be_disabled()
    page.locator("#lanes").get_by_role("button", name="Show everything").click()
    box = row.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, middle, steps=4)
    page.mouse.up()
    expect(told).to_have_text(re.compile("call 1, 1.. µs selected: graph 50 µs .*, eager 20 µs"))


def test_rows_out_of_view_have_no_pixels(visit, tmp_path):
    page = visit(written(tmp_path, *many_calls(300)))
    page.locator("#lanes").scroll_into_view_if_needed()
    rows = page.locator("#lanes canvas")
    expect(rows).to_have_count(300)
    expect(rows.first).not_to_have_js_property("width", UNTOUCHED)
    widths = rows.evaluate_all("all => all.map(one => one.width)")
    assert sum(width not in (0, UNTOUCHED) for width in widths) < 60
    page.locator("#lanes .rows").evaluate("one => { one.scrollTop = one.scrollHeight }")
    expect(rows.first).to_have_js_property("width", 0)
    expect(rows.last).not_to_have_js_property("width", UNTOUCHED)
    assert rows.last.evaluate("one => one.width") > UNTOUCHED


def test_a_backward_pass_outside_graphs_is_named(visit, tmp_path):
    segments = (
        Segment(kind="eager", start_us=0, end_us=20, op_count=1),
        Segment(kind="backward", start_us=30, end_us=90),
    )
    lane = Lane(call_index=None, duration_us=100, is_profiled=True, segments=segments)
    page = visit(written(tmp_path, recording(), Picture(lanes=(lane,))))
    page.locator("#lanes").scroll_into_view_if_needed()
    row = page.get_by_role("img", name="steady call: 100 µs, eager 20 µs, backward pass 60 µs")
    row.press("ArrowRight")
    row.press("ArrowRight")
    expect(page.locator("#lanes .detail")).to_have_text(
        "steady call: backward pass, outside graphs, 60 µs, starting at 30 µs"
    )

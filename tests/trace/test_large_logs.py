"""The page of a log that has more compiles, or longer graphs, than a page can hold."""

from pathlib import Path

import pytest

from benchmarks.large_log import write_log
from graphdoctor.rules import diagnosed
from graphdoctor.rules.diagnosed import Needs, diagnose_recording, most_telling
from graphdoctor.trace.sections import Details, Text
from tests.recorded import kept_log
from tests.views.html.made import render_page

PAGE = Needs(guards=True, picture=True, is_page=True)
COPIES = 8


@pytest.fixture
def log(tmp_path):
    """Each copy has a function that breaks once and goes on."""
    original = kept_log("2.13.0/print_in_helper.bare")
    size = original.stat().st_size
    assert (
        write_log(original, tmp_path / "large.log", size_bytes=COPIES * size - size // 2) == COPIES
    )
    return tmp_path / "large.log"


@pytest.fixture
def small_page(monkeypatch):
    """A page that has room for little."""
    monkeypatch.setattr(diagnosed, "_LARGE_BYTES", 1)
    monkeypatch.setattr(diagnosed, "_MOST_BYTES", 1_000)
    monkeypatch.setattr(diagnosed, "_MOST_ROWS", 6)


def page_of(result):
    assert result.picture is not None
    return render_page(result.diagnosis, result.picture, root=Path("/"))


@pytest.mark.usefixtures("small_page")
def test_page_keeps_findings_graphs_and_names_what_it_omits(log):
    result = diagnose_recording(log, needs=PAGE)
    diagnosis = result.diagnosis
    picture = result.picture
    assert picture is not None
    assert picture.shown is not None
    assert picture.detailed is not None
    assert len(picture.shown) == 6 < len(diagnosis.recording.compiles) == 4 * COPIES
    assert diagnosis.findings
    first = diagnosis.findings[0].compile_ids[0]
    assert first in picture.detailed
    assert first in {graph.compile_id for graph in picture.graphs}
    assert {graph.compile_id for graph in picture.graphs} <= {*picture.detailed} < {*picture.shown}
    page = page_of(result)
    assert f"This page lists 6 compiles of {4 * COPIES}" in page
    assert "--compile ID --html" in page
    assert f">{len(diagnosis.graphs)}</span>" in page  # the whole run's count


@pytest.mark.usefixtures("small_page")
def test_whole_log_is_read_whatever_the_page_shows(log, monkeypatch):
    cut = diagnose_recording(log, needs=PAGE)
    monkeypatch.setattr(diagnosed, "_LARGE_BYTES", 10**9)
    whole = diagnose_recording(log, needs=PAGE)
    assert cut.diagnosis == whole.diagnosis
    assert cut.picture is not None
    assert whole.picture is not None
    assert [(phase.name, phase.start_us) for phase in cut.picture.phases] == [
        (phase.name, phase.start_us) for phase in whole.picture.phases
    ]
    kept = {*(cut.picture.detailed or ())}
    assert cut.picture.graphs == tuple(
        graph for graph in whole.picture.graphs if graph.compile_id in kept
    )


@pytest.mark.usefixtures("small_page")
def test_the_compile_that_was_asked_for_has_its_details(log):
    last = diagnose_recording(log).diagnosis.recording.graphs[-1].compile_id
    result = diagnose_recording(
        log, needs=Needs(guards=True, picture=True, is_page=True, compile_ids=(last,))
    )
    assert result.picture is not None
    assert result.picture.detailed == (last,)
    assert {graph.compile_id for graph in result.picture.graphs} == {last}
    assert f'data-guards="{last}"' in page_of(result)


def test_first_compiles_cover_each_finding_and_function(log):
    diagnosis = diagnose_recording(log).diagnosis
    functions = {(frame.file, frame.line, frame.code_name) for frame in diagnosis.recording.frames}
    order = most_telling(diagnosis, most=100)
    assert {*order} == {compile_.compile_id for compile_ in diagnosis.recording.compiles}
    telling = {*order[: 3 * len(diagnosis.findings) + len(functions)]}
    assert all(
        telling & {*finding.compile_ids} for finding in diagnosis.findings if finding.compile_ids
    )
    assert {
        (frame.file, frame.line, frame.code_name)
        for frame, report in diagnosis.each_frame()
        if telling & {*report.compile_ids}
    } == functions


def test_texts_of_what_matters_least_are_let_go_of():
    details = Details(["rank1:2/0", "0/0", "1/0"], most_bytes=10)
    texts = {compile_id: Text("x" * 6) for compile_id in ("1/0", "2/0", "0/0")}
    for compile_id, text in texts.items():
        details.hold(compile_id, text)
    assert [compile_id for compile_id, text in texts.items() if text.text is not None] == ["2/0"]
    assert details.keeps("2/0")
    assert not details.keeps("0/0")
    details.hold("2/0", long := Text("x" * 50))
    assert long.text is not None

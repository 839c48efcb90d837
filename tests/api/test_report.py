"""``graphdoctor.Report``: text, files and cells."""

from __future__ import annotations

import gc
import json
import re

import pytest

torch = pytest.importorskip("torch")

import graphdoctor
from graphdoctor import GraphDoctorError
from graphdoctor.facts.reading import plain

pytestmark = pytest.mark.slow
HOSTILE = """"' srcdoc="x" onload='alert(1)'></iframe></script><script>alert(2)</script>&quot;&amp;amp;<!-- é 🔥"""


@pytest.fixture(scope="module")
def report():
    def f(x, note: str):
        y = x * len(note)
        torch._dynamo.graph_break()
        return torch.relu(y)

    return graphdoctor.explain(f, torch.ones(3), note=HOSTILE)


def test_cell_shows_the_report_as_html_without_scripts_or_the_programs_markup(report):
    html = report._repr_html_()
    assert "GD107" in html
    assert not {"script", "iframe"} & {it.lower() for it in re.findall(r"<(\w+)", html)}
    assert not re.search(r"<[^>]*\son\w+=", html)
    assert len(html.encode()) <= 30_000


def test_html_that_a_cell_has_no_room_for_is_left_out_part_by_part(report, monkeypatch):
    monkeypatch.setattr("graphdoctor.api.report._MOST_IN_A_CELL", 4_000)
    cut = report._repr_html_()
    assert len(cut.encode()) <= 4_000
    assert "Cut here" in cut
    assert 'class="sentence' in cut
    assert cut.count("<div") == cut.count("</div>")


def test_text_json_and_html_replace_existing_files(report, tmp_path):
    for name in ("out.txt", "out.json", "out.html"):
        (tmp_path / name).write_text("old")
        report.save(tmp_path / name)
        report.save(str(tmp_path / name))
    assert "GD107" in (tmp_path / "out.txt").read_text()
    assert "\x1b" not in (tmp_path / "out.txt").read_text()
    assert json.loads((tmp_path / "out.json").read_text()) == plain(report.diagnosis)
    assert (tmp_path / "out.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "out.json", "out.txt"]


@pytest.mark.parametrize("name", ["out.pdf", "out", "missing/out.json"])
def test_what_cannot_be_written_is_refused(report, tmp_path, name):
    with pytest.raises(GraphDoctorError):
        report.save(tmp_path / name)


def test_str_and_repr_are_short(report):
    assert len(str(report).splitlines()) <= 3
    assert re.fullmatch(
        r"<graphdoctor\.Report of .*: 1 call, 2 graphs, 1 break site, .*>", repr(report)
    )


def test_the_recording_lives_as_long_as_the_report():
    report = graphdoctor.explain(lambda x: x + 1, torch.ones(2))
    folder = report._folder.path
    assert (folder / "trace").is_dir()
    del report
    gc.collect()
    assert not folder.exists()

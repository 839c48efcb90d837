"""Several files of one run of the gate: what is asked for, what is refused, what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphdoctor.commands.output import check_outputs, parse_outputs, write_outputs
from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.check import CheckReport
from graphdoctor.facts.reading import read_fact
from graphdoctor.views.formats import CHECK
from tests.views.check_reports import failed_report


def test_pairs_are_read_in_order():
    outputs = parse_outputs(["sarif=a b.sarif", "junit=x=y.xml", "markdown=-"])
    assert [(output.format.name, output.path) for output in outputs] == [
        ("sarif", Path("a b.sarif")),
        ("junit", Path("x=y.xml")),
        ("markdown", None),
    ]


def test_files_are_looked_at_before_anything_runs(tmp_path):
    (tmp_path / "old.xml").write_text("old")
    asked = parse_outputs([f"junit={tmp_path / 'old.xml'}"])
    with pytest.raises(GraphDoctorError, match=r"old\.xml exists"):
        check_outputs(asked, force=False)
    check_outputs(asked, force=True)
    with pytest.raises(GraphDoctorError, match="There is no folder"):
        check_outputs(parse_outputs([f"junit={tmp_path / 'no' / 'a.xml'}"]), force=True)


def test_one_report_is_written_as_all_formats(tmp_path, capfd):
    asked = parse_outputs([f"{name}={tmp_path / name}" for name in CHECK.names])
    write_outputs(failed_report(), asked)
    assert {path.name for path in tmp_path.iterdir()} == set(CHECK.names)
    assert read_fact(CheckReport, json.loads((tmp_path / "json").read_bytes())) == failed_report()
    assert json.loads((tmp_path / "sarif").read_bytes())["version"] == "2.1.0"
    assert capfd.readouterr().err.splitlines() == [
        f"Wrote {tmp_path / name}" for name in CHECK.names
    ]


def test_nothing_is_written_when_something_cannot_be_rendered(tmp_path, monkeypatch):
    def broken(*_: object) -> str:
        raise ValueError("broken")

    monkeypatch.setattr("graphdoctor.views.junit.render_junit", broken)
    with pytest.raises(ValueError, match="broken"):
        write_outputs(
            failed_report(), parse_outputs([f"json={tmp_path / 'a'}", f"junit={tmp_path / 'b'}"])
        )
    assert list(tmp_path.iterdir()) == []

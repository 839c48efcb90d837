"""One piece of a survey, from its target to its row."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.survey import piece
from graphdoctor.studies.survey.piece import SurveyPiece, page_name, run_piece
from graphdoctor.studies.survey.survey_list import SurveyOptions
from graphdoctor.trials.launch.store import Store
from graphdoctor.views.html import document
from tests.commands.test_survey import GOOD


def _piece(target: str, **more) -> SurveyPiece:
    values = {
        "name": "net",
        "family": None,
        "variant": "v",
        "spec": RunSpec(target=target),
        "entry": None,
        "python": None,
        "options": SurveyOptions(timeout=300.0, pages=False),
        "plan": "p",
    }
    return SurveyPiece(**values | more)


def test_a_target_that_is_not_there_is_a_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row = run_piece(_piece("none.py")).row
    error = "There is no file none.py."
    assert (row.status, row.stage, row.error) == ("load_failed", "load", error)


def test_slow_piece_is_a_row_whatever_it_was_doing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(GOOD)

    def hangs(*_args, **_more):
        time.sleep(60)

    monkeypatch.setattr(piece, "record", hangs)
    row = run_piece(_piece("net.py", options=SurveyOptions(timeout=0.2))).row
    assert (row.status, row.error) == ("timeout", "It was stopped after 0.2 s.")


def test_interruption_is_no_timeout_of_a_piece(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(GOOD)

    def interrupted(*_args, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr(piece, "record", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_piece(_piece("net.py"))


def test_what_a_killed_piece_left_is_removed_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(piece.tempfile, "tempdir", str(tmp_path))
    left, running = tmp_path / "graphdoctor-survey-left", tmp_path / "graphdoctor-survey-running"
    other = tmp_path / "other"
    for folder in (left, running, other):
        folder.mkdir()
    (tmp_path / "graphdoctor-survey-link").symlink_to(other)
    with Store.hold(running):
        run_piece(_piece("none.py"))
    # Nothing is left of its own folder either.
    names = ["graphdoctor-survey-link", "graphdoctor-survey-running", "other"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


@pytest.mark.slow
def test_a_page_that_cannot_be_made_costs_no_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(GOOD)

    def fails(*_args, **_options):
        raise ValueError("no page")

    monkeypatch.setattr(document, "render_view_page", fails)
    result = run_piece(_piece("net.py", options=SurveyOptions(timeout=300.0)))
    assert (result.row.status, result.row.report, result.page) == ("ok", None, None)
    assert result.row.gaps == ("Its page couldn't be made: ValueError: no page",)
    assert set(result.files) == {"net.py"}


def test_pages_of_two_pieces_have_two_names():
    names = {
        page_name(name, variant)
        for name in ("a/b", "a_b", "a.b" * 60)
        for variant in ("x", "y", "../z")
    }
    assert len(names) == 9
    assert all(Path(name).name == name and len(name) < 100 for name in names)


def test_a_fingerprint_is_of_the_plan_and_the_files():
    def fingerprint(plan, files):
        return _piece("net.py", plan=plan).row(files, status="ok", seconds=1.0).fingerprint

    assert fingerprint("p", {"a": "1", "b": "2"}) == fingerprint("p", {"b": "2", "a": "1"})
    assert len({fingerprint("p", {}), fingerprint("q", {}), fingerprint("p", {"a": "1"})}) == 3

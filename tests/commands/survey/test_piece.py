"""One piece of a survey, from its target to its row."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphdoctor.commands import survey_piece
from graphdoctor.commands.survey_piece import SurveyPiece, fingerprint_of, page_name, work_on
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.survey.survey_file import SurveyOptions
from graphdoctor.views.html import document
from tests.commands.test_survey import GOOD
from tests.conftest import clean_environment


def _piece(target: str, **more) -> SurveyPiece:
    given = {
        "name": "net",
        "family": None,
        "variant": "v",
        "spec": RunSpec(target=target),
        "architecture": None,
        "python": None,
        "measured": SurveyOptions(timeout=300.0, pages=False),
        "plan": "p",
    }
    return SurveyPiece(**given | more)


def test_a_target_that_is_not_there_is_a_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row = work_on(_piece("none.py")).row
    assert (row.status, row.stage, row.error) == (
        "load_failed",
        "load",
        "There is no file none.py.",
    )


def test_a_piece_that_takes_too_long_is_a_row_whatever_it_was_doing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(GOOD)

    def hangs(*_args, **_more):
        time.sleep(60)

    monkeypatch.setattr(survey_piece, "record", hangs)
    row = work_on(_piece("net.py", measured=SurveyOptions(timeout=0.2))).row
    assert (row.status, row.error) == ("timeout", "It was stopped after 0.2 s.")


def test_an_interruption_is_not_the_end_of_a_piece_s_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(GOOD)

    def interrupted(*_args, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr(survey_piece, "record", interrupted)
    with pytest.raises(KeyboardInterrupt):
        work_on(_piece("net.py"))


def test_nothing_is_left_of_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(survey_piece.tempfile, "tempdir", str(tmp_path))
    work_on(_piece("none.py"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_a_killed_piece_left_is_removed_by_the_next_one_and_nothing_else(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    holder = """
import os, pathlib, signal, sys
from graphdoctor.commands import survey_piece
class Worker:
    def __init__(self, piece, folder, deadline): ...
    def result(self):
        if sys.argv[1] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        print("working", flush=True)
        sys.stdin.read()
survey_piece._Worker = Worker
from tests.commands.survey.test_piece import _piece
survey_piece.work_on(_piece("none.py"))
"""
    root, variables = str(Path(__file__).parents[3]), clean_environment(TMPDIR=str(tmp_path))
    command, variables = [sys.executable, "-c", holder], variables | {"PYTHONPATH": root}
    subprocess.run([*command, "killed"], env=variables, check=False)
    (killed,) = tmp_path.glob("graphdoctor-survey-*")
    (tmp_path / "graphdoctor-survey-link").symlink_to(tmp_path / "mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with subprocess.Popen(
        [*command, "works"], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as works:
        assert works.stdout.readline() == b"working\n"
        assert not killed.exists()
        (working,) = (
            path for path in tmp_path.glob("graphdoctor-survey-*") if not path.is_symlink()
        )

        work_on(_piece("none.py"))

        assert working.is_dir()
        assert (tmp_path / "mine" / "file").exists()
        works.stdin.close()


@pytest.mark.slow
def test_a_page_that_cannot_be_made_costs_no_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(GOOD)

    def fails(*_args, **_options):
        raise ValueError("no page")

    monkeypatch.setattr(document, "render_view_page", fails)
    result = work_on(_piece("net.py", measured=SurveyOptions(timeout=300.0)))
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
    assert fingerprint_of("p", {"a": "1", "b": "2"}) == fingerprint_of("p", {"b": "2", "a": "1"})
    assert (
        len({fingerprint_of("p", {}), fingerprint_of("q", {}), fingerprint_of("p", {"a": "1"})})
        == 3
    )

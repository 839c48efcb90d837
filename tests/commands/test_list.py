"""``graphdoctor list`` and ``keep``: what was recorded here, and which of it stays."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graphdoctor.facts.bench import CureReport
from graphdoctor.views.json import json_text
from tests.conftest import CLEAN_TARGET, RunCli, run_command
from tests.studies.bench.cure_reports import cured
from tests.studies.bench.reports import mobilenet
from tests.studies.profile.reports import profiled

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(recorded: Path, tmp_path: Path) -> Path:
    """A copy of a folder with one recording."""
    shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)
    return tmp_path


def name_in(folder: Path) -> str:
    return (folder / ".graphdoctor" / "last").read_text().strip()


def test_a_folder_without_recordings_has_none(run_here: RunCli) -> None:
    assert "There are no recordings here." in run_here("list", status=0).stdout


def test_it_says_what_ran_and_what_came_out(folder: Path, run_here: RunCli) -> None:
    shown = " ".join(run_here("list", status=0).stdout.split())
    assert "explain clean.py · " in shown
    assert f"{name_in(folder)} No graph breaks." in shown
    assert shown.endswith("Next: graphdoctor report")


def test_a_page_of_the_last_recording_says_which_that_was(folder: Path, run_here: RunCli) -> None:
    written = run_here("report", "--html", "--no-open", status=0).stderr
    assert written == f"Wrote graphdoctor-report.html (recording {name_in(folder)})\n"
    named = run_here("report", name_in(folder), "-o", "page.html", status=0).stderr
    assert named == "Wrote page.html\n"


@pytest.mark.parametrize(
    ("file", "found", "said"),
    [("bench.json", mobilenet(), "bench clean.py · "), ("cure.json", cured(), "cure clean.py · ")],
)
def test_study_is_listed_and_shown_as_it_was(
    folder: Path, run_here: RunCli, file: str, found: CureReport, said: str
) -> None:
    (folder / ".graphdoctor" / name_in(folder) / file).write_text(
        json_text(found), encoding="utf-8"
    )
    assert said in run_here("list", status=0).stdout
    answer = found.text if isinstance(found, CureReport) else found.verdict.text
    assert answer.split(":")[0] in " ".join(run_here("report", status=0).stdout.split())
    # What only a run has is still to be had.
    assert '"findings"' in run_here("report", "--format", "json", status=0).stdout


def test_a_profile_is_listed_as_one(folder: Path, run_here: RunCli) -> None:
    (folder / ".graphdoctor" / name_in(folder) / "profile.json").write_text(
        json_text(profiled()), encoding="utf-8"
    )
    assert "profile clean.py · " in run_here("list", status=0).stdout


@pytest.mark.parametrize("command", ["explain", "fix", "bench", "cure"])
def test_a_run_that_failed_says_what_it_was_and_how_it_ended(
    tmp_path: Path, run_here: RunCli, command: str
) -> None:
    (tmp_path / "net.py").write_text("import torch\n\nmodel = torch.nn.Linear(4, 4)\n")
    run_here(command, "net.py", status=2)
    shown = " ".join(run_here("list", status=0).stdout.split())
    # A cure runs its target as explain does, before it times anything.
    assert f"{'explain' if command == 'cure' else command} net.py · " in shown
    assert "There are no inputs for model(input" in shown


def test_one_that_cannot_be_read_hides_no_other(folder: Path, run_here: RunCli) -> None:
    broken = folder / ".graphdoctor" / "20260101-000000-000000-broken"
    broken.mkdir()
    shown = run_here("list", status=0).stdout
    assert "2026-01-01 00:00  unreadable" in shown
    assert "explain clean.py" in shown


def test_a_name_keeps_a_recording_and_finds_it(folder: Path, run_here: RunCli) -> None:
    name = name_in(folder)
    assert f"{name} is kept as before." in run_here("keep", "before", status=0).stderr
    assert "before" in run_here("list", status=0).stdout
    assert (
        run_here("report", "before", status=0).stdout == run_here("report", name, status=0).stdout
    )
    assert run_here("keep", "before", name, status=0).returncode == 0
    run_here("keep", "--drop", "before", status=0)
    assert "There is no recording" in run_here("report", "before", status=2).stderr
    assert (
        "No recording is kept as before." in run_here("keep", "--drop", "before", status=2).stderr
    )


@pytest.mark.parametrize("name", ["a/b", "", "..", "-x", "a b", "x" * 61])
def test_a_name_that_is_no_name_is_refused(folder: Path, run_here: RunCli, name: str) -> None:
    assert "can't be a recording's name" in run_here("keep", "--", name, status=2).stderr
    assert not list(folder.glob(".graphdoctor/*/kept.txt"))


def test_a_name_that_is_taken_is_not_moved(folder: Path, run_here: RunCli) -> None:
    name = name_in(folder)
    other = folder / ".graphdoctor" / "20260101-000000-000000-other"
    shutil.copytree(folder / ".graphdoctor" / name, other)
    run_here("keep", "before", status=0)
    assert (
        f"{name} is kept as before already."
        in run_here("keep", "before", other.name, status=2).stderr
    )
    assert f"{name} is a recording." in run_here("keep", name, status=2).stderr


def test_a_named_recording_outlives_twenty_failed_runs(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text(CLEAN_TARGET)
    (tmp_path / "failing.py").write_text("raise ValueError('no')\ndef f(x): ...\n")
    (tmp_path / "pyproject.toml").write_text("[tool.graphdoctor]\nkeep-recordings = 2\n")
    run_command("explain", "clean.py", cwd=tmp_path, status=0)
    run_command("keep", "good", cwd=tmp_path, status=0)
    for _ in range(3):
        told = run_command("explain", "failing.py", cwd=tmp_path, status=2).stderr
    assert "Removed the oldest recording: " in told
    assert "No graph breaks." in run_command("report", "good", cwd=tmp_path, status=0).stdout

"""What a RECORDING argument names: the same for every command that takes one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graphdoctor.commands.named import place_named, place_or_target
from graphdoctor.commands.settings import Settings
from graphdoctor.errors import GraphDoctorError
from tests.conftest import RECORDED_LOGS, RunCli

RECORDINGS = RECORDED_LOGS / "2.13.0"
NAME = "20261121-042901-000000-item"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one recording in its ``.graphdoctor/``, a log under another name, and a JSON
    document."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(RECORDINGS / "item", tmp_path / ".graphdoctor" / NAME)
    log = next((RECORDINGS / "print_in_helper.bare").glob("*.log"))
    shutil.copyfile(log, tmp_path / "job-17.txt")
    (tmp_path / "rank0.log").write_bytes(b"[rank0]: a program's own line\n" + log.read_bytes())
    (tmp_path / "old.json").write_text('{"schema_version": "1.0"}')
    (tmp_path / "model.py").write_text("import torch\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "kind", "path"),
    [
        (None, "folder", f".graphdoctor/{NAME}"),
        (NAME, "folder", f".graphdoctor/{NAME}"),
        (f".graphdoctor/{NAME}", "folder", f".graphdoctor/{NAME}"),
        (f".graphdoctor/{NAME}/trace", "folder", f".graphdoctor/{NAME}/trace"),
        ("job-17.txt", "log", "job-17.txt"),
        ("rank0.log", "log", "rank0.log"),
        ("old.json", "document", "old.json"),
    ],
)
def test_a_place_is_found(store: Path, text: str | None, kind: str, path: str) -> None:
    for find in (place_named, place_or_target):
        found = find(text, Settings())
        assert (found.kind, found.path.resolve()) == (kind, store / path)


@pytest.mark.parametrize(
    "text", ["model.py", "model.py:Net", "package.module:net", "model", "nowhere.py", "", "a" * 300]
)
def test_what_reads_as_a_target_is_one(store: Path, text: str) -> None:
    assert place_or_target(text, Settings()) is None


@pytest.mark.parametrize("text", ["nowhere", "", "model.py", "a" * 300, "a\0b", "../nowhere"])
def test_a_command_that_takes_no_target_says_what_it_takes(store: Path, text: str) -> None:
    with pytest.raises(GraphDoctorError) as refused:
        place_named(text, Settings())
    assert refused.value.hint


def test_a_recording_knows_the_folder_that_it_was_made_in(store: Path) -> None:
    assert place_named(NAME, Settings()).root == store
    assert place_named("job-17.txt", Settings()).root is None


@pytest.mark.parametrize("command", ["report", "guards", "recompiles"])
def test_commands_take_recording_names_and_logs_of_any_name(
    store: Path, run_here: RunCli, command: str
) -> None:
    last, named, log = (run_here(command, *given) for given in ((), (NAME,), ("job-17.txt",)))
    assert [(found.returncode, found.stderr) for found in (named, log)] == [(0, "")] * 2
    assert named.stdout == last.stdout


def test_a_json_document_is_shown_like_the_recording(store: Path, run_here: RunCli) -> None:
    assert run_here("report", NAME, "-o", "whole.json").returncode == 0
    assert run_here("report", "whole.json").stdout == run_here("report", NAME).stdout
    fewer = run_here("report", "whole.json", "--select", "GD2").stdout
    assert fewer == run_here("report", NAME, "--select", "GD2").stdout

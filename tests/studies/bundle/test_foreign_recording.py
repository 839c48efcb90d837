"""Nothing of a recording is run that somebody else could have written: ``bundle``, the one command
that runs any."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, clean_environment

TARGET = "/home/user/demo/item.py"
CODE = "import os\nos.system('touch ran-by-code')\ndef build():\n    return abs\n"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A recording whose interpreter writes a file when it is started, in a project's own folder for
    recordings."""
    folder = tmp_path / ".graphdoctor" / "20260101-000000-000000-item"
    shutil.copytree(REPOSITORY / "tests" / "recordings" / "2.13.0" / "item", folder)
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    interpreter.chmod(0o755)
    events = folder / "probe.jsonl"
    events.write_text(events.read_text().replace("/home/user/venv/bin/python", str(interpreter)))
    log = next((folder / "trace").glob("*.log"))
    record = {"artifact": {"name": "graphdoctor_file", "encoding": "json"}, "has_payload": "0"}
    line = f"V1121 05:51:54.656000 4242 x.py:1] {json.dumps(record)}\n\t{json.dumps({'file': TARGET, 'text': CODE})}\n"
    log.write_text(log.read_text() + line)
    (tmp_path / ".graphdoctor" / "last").write_text(folder.name + "\n")
    return folder


def test_a_recording_from_elsewhere_is_bundled_without_running_anything(
    hostile, tmp_path, run_here
):
    process = run_here("bundle", status=0)
    assert not (tmp_path / "ran").exists()
    assert "It was not run: nothing shows that the recording was made by you" in process.stderr
    assert (
        f"hint: bundle --run shows its code and runs it with {tmp_path}/python." in process.stderr
    )
    with zipfile.ZipFile(tmp_path / "bundle.zip") as archive:
        assert "ran-by-code" in archive.read("reproduce.py").decode()
        assert "It was not run" in archive.read("issue.md").decode()


def test_run_shows_the_interpreter_and_the_code_first(hostile, tmp_path, run_here):
    process = run_here("bundle", "--run", "-q")
    assert (tmp_path / "ran").exists()
    assert f"Running reproduce.py with {tmp_path}/python" in process.stderr
    assert "    | os.system('touch ran-by-code')" in process.stderr


@pytest.mark.parametrize("signature", ["", "0" * 64, "\xff\n"])
def test_a_signature_without_the_key_is_none(hostile, tmp_path, run_here, signature):
    (hostile / "signature").write_bytes(signature.encode("latin-1"))
    run_here("bundle")
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_only_an_unchanged_recording_made_here_is_run(recorded, tmp_path, run_cli):
    work = tmp_path / "work"
    shutil.copytree(recorded, work, ignore=shutil.ignore_patterns(".graphdoctor"))
    assert run_cli("explain", "clean.py", "-q", cwd=work).returncode == 0
    assert "On its own, it has no graph break, as recorded" in run_cli("bundle", cwd=work).stderr
    other_user = run_cli(
        "bundle", "-o", "b.zip", cwd=work, env=clean_environment(XDG_STATE_HOME=str(tmp_path / "x"))
    )
    assert "It was not run" in other_user.stderr
    shutil.copytree(work, tmp_path / "moved")
    assert "It was not run" in run_cli("bundle", "-o", "c.zip", cwd=tmp_path / "moved").stderr
    log = next((work / ".graphdoctor").glob("*/trace/*.log"))
    log.write_text(log.read_text().replace("torch.relu(x) + 1", "torch.relu(x) + 2"))
    assert "It was not run" in run_cli("bundle", "-o", "d.zip", cwd=work).stderr

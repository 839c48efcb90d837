"""Nothing of a recording is run that somebody else could have written: ``bundle``, the one command
that runs any."""

import json
import shutil
import zipfile

import pytest

from tests.conftest import REPOSITORY, clean_environment

TARGET = "/home/user/demo/item.py"
CODE = "import os\nos.system('touch ran-by-code')\ndef build():\n    return abs\n"


@pytest.fixture
def hostile(tmp_path):
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
    assert "On its own, it does what was recorded" in run_cli("bundle", cwd=work).stderr
    other_user = run_cli(
        "bundle", "-o", "b.zip", cwd=work, env=clean_environment(XDG_STATE_HOME=str(tmp_path / "x"))
    )
    assert "It was not run" in other_user.stderr
    shutil.copytree(work, tmp_path / "moved")
    assert "It was not run" in run_cli("bundle", "-o", "c.zip", cwd=tmp_path / "moved").stderr
    log = next((work / ".graphdoctor").glob("*/trace/*.log"))
    log.write_text(log.read_text().replace("torch.relu(x) + 1", "torch.relu(x) + 2"))
    assert "It was not run" in run_cli("bundle", "-o", "d.zip", cwd=work).stderr


# Links.


SECRET = "qzsecret"


@pytest.fixture
def recording(tmp_path):
    folder = tmp_path / ".graphdoctor" / "20260101-000000-000000-item"
    shutil.copytree(REPOSITORY / "tests" / "recordings" / "2.13.0" / "item", folder)
    return folder


def replaced_by_link(path, outside):
    """The file lies elsewhere now, with a secret in it."""
    outside.write_bytes(
        path.read_bytes() + f"\n{SECRET}\n".encode() if path.exists() else SECRET.encode()
    )
    path.unlink(missing_ok=True)
    path.symlink_to(outside)


def bundled(tmp_path):
    with zipfile.ZipFile(tmp_path / "bundle.zip") as archive:
        return b"".join(name.encode() + archive.read(name) for name in archive.namelist())


@pytest.mark.parametrize("name", ["request.json", "crash.txt", "fixes.json", "probe.jsonl"])
def test_a_file_that_is_a_link_is_left_out(recording, tmp_path, run_here, name):
    replaced_by_link(recording / name, tmp_path / "outside")
    process = run_here("bundle", recording, status=0)
    assert SECRET.encode() not in bundled(tmp_path)
    assert "left out: 1 symbolic link in the recording's folder." in process.stderr


@pytest.mark.parametrize("command", ["report", "bundle"])
def test_a_log_and_a_recording_that_are_links_are_none(recording, tmp_path, run_here, command):
    replaced_by_link(next((recording / "trace").glob("*.log")), tmp_path / "log")
    process = run_here(command, recording)
    assert (process.returncode, "can't be read: it's a symbolic link" in process.stderr) == (
        2,
        True,
    )
    assert SECRET not in process.stdout + process.stderr
    recording.rename(tmp_path / "outside")
    recording.symlink_to(tmp_path / "outside")
    process = run_here(command, recording)
    assert (process.returncode, "is a symbolic link" in process.stderr) == (2, True)
    assert "There is no recording" in run_here("report").stderr
    assert not (tmp_path / "bundle.zip").exists()


@pytest.mark.parametrize(("name", "status"), [("trace", 2), ("fixes", 0)])
def test_a_folder_that_is_a_link_is_none(recording, tmp_path, run_here, name, status):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "dedicated_log_torch_trace_x.log").write_text(SECRET)
    shutil.rmtree(recording / name, ignore_errors=True)
    (recording / name).symlink_to(outside)
    assert run_here("bundle", recording).returncode == status
    assert status or SECRET.encode() not in bundled(tmp_path)

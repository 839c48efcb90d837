"""Links in a recording are not followed: it can come from anywhere, and a bundle goes to
everybody."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

SECRET = "qzsecret"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    folder = tmp_path / ".graphdoctor" / "20260101-000000-000000-item"
    shutil.copytree(REPOSITORY / "tests" / "recordings" / "2.13.0" / "item", folder)
    return folder


def replaced_by_link(path: Path, outside: Path) -> None:
    """The file lies elsewhere now, with a secret in it."""
    outside.write_bytes(
        path.read_bytes() + f"\n{SECRET}\n".encode() if path.exists() else SECRET.encode()
    )
    path.unlink(missing_ok=True)
    path.symlink_to(outside)


def bundled(tmp_path: Path) -> bytes:
    with zipfile.ZipFile(tmp_path / "bundle.zip") as archive:
        return b"".join(name.encode() + archive.read(name) for name in archive.namelist())


@pytest.mark.parametrize("name", ["request.json", "crash.txt", "fixes.json", "probe.jsonl"])
def test_a_file_that_is_a_link_is_left_out(recording, tmp_path, run_here, name):
    replaced_by_link(recording / name, tmp_path / "outside")
    process = run_here("bundle", recording, "--with-trials", status=0)
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
    assert run_here("bundle", recording, "--with-trials").returncode == status
    assert status or SECRET.encode() not in bundled(tmp_path)

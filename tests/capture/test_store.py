"""The folder ``.graphdoctor/``."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from graphdoctor.capture.store import FOLDER, Store
from graphdoctor.errors import GraphDoctorError


def recordings(root: Path) -> list[Path]:
    return sorted(path for path in (root / FOLDER).iterdir() if path.is_dir())


def test_the_last_recording_is_the_one_remembered(tmp_path):
    store = Store(tmp_path, keep_count=5)
    first, second = store.create("a"), store.create("b")
    store.remember(first)
    assert store.last() == first
    store.remember(second)
    assert store.last() == second


def test_the_oldest_recordings_go_when_a_new_one_begins(tmp_path):
    store = Store(tmp_path, keep_count=2)
    paths = [store.create("model") for _ in range(4)]
    assert recordings(tmp_path) == paths[-2:]


def test_a_single_recording_can_be_kept(tmp_path):
    store = Store(tmp_path, keep_count=1)
    store.create("a")
    newest = store.create("b")
    assert recordings(tmp_path) == [newest]


def test_pruning_leaves_what_graphdoctor_did_not_make(tmp_path):
    store = Store(tmp_path, keep_count=1)
    foreign = tmp_path / FOLDER / "notes"
    store.create("a")
    foreign.mkdir()
    store.create("b")
    assert foreign.is_dir()
    assert len(recordings(tmp_path)) == 2


@pytest.mark.parametrize("content", [b"gone\n", b"../..\n", b"", b"\xff\xfe\0"])
def test_a_wrong_note_of_the_last_one_falls_back_on_the_newest(tmp_path, content):
    store = Store(tmp_path, keep_count=5)
    store.create("a")
    newest = store.create("b")
    (tmp_path / FOLDER / "last").write_bytes(content)
    assert store.last() == newest


def test_without_a_recording_it_says_what_to_run(tmp_path):
    with pytest.raises(GraphDoctorError, match="There is no recording") as caught:
        Store(tmp_path, keep_count=5).last()
    assert "graphdoctor explain" in (caught.value.hint or "")


@pytest.mark.parametrize("label", ["", "..", "[red]x", "a/b\\c:d", "x" * 500, "モデル", "\udcff"])
def test_any_label_makes_a_folder(tmp_path, label):
    path = Store(tmp_path, keep_count=5).create(label)
    assert path.is_dir()
    assert path.parent == tmp_path / FOLDER


def test_a_file_in_the_way_is_a_clear_error(tmp_path):
    (tmp_path / FOLDER).write_text("")
    with pytest.raises(GraphDoctorError, match="can't be written"):
        Store(tmp_path, keep_count=5).create("a")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory_is_a_clear_error(tmp_path):
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(GraphDoctorError, match="can't be written"):
            Store(tmp_path, keep_count=5).create("a")
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_does_not_see_the_folder(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    Store(tmp_path, keep_count=5).create("a")
    status = subprocess.run(
        ["git", "-C", str(tmp_path), "status", "--porcelain", "--untracked-files=all"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert status.stdout == ""

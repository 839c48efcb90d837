"""The folder ``.graphdoctor/``."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.trials.launch.store import FOLDER, Pool, Store
from tests.conftest import REPOSITORY


def recordings(root: Path) -> list[Path]:
    return sorted(path for path in (root / FOLDER).iterdir() if path.is_dir())


def made(store: Store, label: str, pool: Pool = "") -> Path:
    """A recording whose run is over."""
    recording = store.create(label, pool)
    recording.close()
    return recording.path


def test_last_recording_is_the_newest_or_noted_one(tmp_path):
    store = Store(tmp_path, keep_count=5)
    first, second = made(store, "a"), made(store, "b")
    assert store.last() == second
    (tmp_path / FOLDER / "last").write_text(first.name)
    assert store.last() == first
    assert store.find(second.name) == second
    assert store.find("c") is None


def test_the_oldest_recordings_go_when_a_new_one_begins(tmp_path):
    for keep_count in (2, 1):
        store = Store(tmp_path, keep_count=keep_count)
        paths = [made(store, "model") for _ in range(4)]
        assert recordings(tmp_path) == paths[-keep_count:]


@pytest.mark.parametrize(
    "file", ["bench.json", "fixes.json", "cure.json", "profile.json", "export.json", "what-if.json"]
)
def test_single_runs_remove_nothing_that_took_many(tmp_path, file):
    store = Store(tmp_path, keep_count=2)
    first = made(store, "bench")
    (first / file).write_text("{}")
    runs = [made(store, "model") for _ in range(5)]
    assert recordings(tmp_path) == [first, *runs[-2:]]
    others = []
    for _ in range(2):
        others.append(made(store, "bench"))
        (others[-1] / file).write_text("{}")
    assert first in recordings(tmp_path)
    last = store.create("model")
    assert (last.removed, first.exists()) == ((first.name,), False)
    assert recordings(tmp_path)[-3:] == [*others, last.path]


def test_what_has_a_name_stays_and_is_found_by_it(tmp_path):
    store = Store(tmp_path, keep_count=1)
    first = made(store, "a")
    store.keep(first, "before")
    made(store, "b")
    newest = made(store, "c")
    assert recordings(tmp_path) == [first, newest]
    assert store.find("before") == store.find(first.name) == first
    store.keep(first, None)
    assert store.find("before") is None
    assert store.create("d").removed == (first.name, newest.name)


def test_name_is_neither_written_nor_read_through_links(tmp_path):
    store = Store(tmp_path, keep_count=1)
    first = made(store, "a")
    (tmp_path / "secret").write_text("before\n")
    (first / "kept.txt").symlink_to(tmp_path / "secret")
    assert store.find("before") is None
    store.keep(first, "mine")
    assert ((tmp_path / "secret").read_text(), store.find("mine")) == ("before\n", first)


def test_a_recording_that_is_being_made_stays(tmp_path):
    store = Store(tmp_path, keep_count=1)
    running = store.create("a")
    newest = made(store, "b")
    assert recordings(tmp_path) == [running.path, newest]
    running.close()
    assert recordings(tmp_path)[0] != made(store, "c")
    assert not running.path.exists()


HOLDER = """
import sys
sys.path.insert(0, sys.argv[1])
from graphdoctor.probe.ways_in.process import hold
hold(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


def test_recording_stays_while_a_process_of_it_lives(tmp_path):
    store = Store(tmp_path, keep_count=1)
    first = store.create("a")
    command = [sys.executable, "-c", HOLDER, str(REPOSITORY), str(first.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        first.close()
        made(store, "b")
        assert first.path.is_dir()
        process.kill()
    made(store, "c")
    assert not first.path.exists()


def test_what_the_gate_records_replaces_only_what_the_gate_recorded(tmp_path):
    store = Store(tmp_path, keep_count=2)
    mine = [made(store, "a"), made(store, "b")]
    gate = [made(store, "target", "@check") for _ in range(5)]
    assert recordings(tmp_path) == [*mine, *gate[-2:]]
    newest = made(store, "c")
    assert recordings(tmp_path) == sorted([mine[1], *gate[-2:], newest])


def test_a_link_that_leads_nowhere_is_not_written_through(tmp_path):
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / ".gitignore").symlink_to(tmp_path / "outside")
    (tmp_path / FOLDER / "last").symlink_to(tmp_path / "other")
    newest = made(Store(tmp_path, keep_count=2), "a")
    assert not (tmp_path / "outside").exists()
    assert not (tmp_path / "other").exists()
    assert Store(tmp_path, keep_count=2).last() == newest


def test_linked_folder_is_refused_and_never_read(tmp_path):
    made(Store(tmp_path / "real", keep_count=2, folder=tmp_path / "real"), "a")
    (tmp_path / FOLDER).symlink_to(tmp_path / "real")
    with pytest.raises(GraphDoctorError, match="is a symbolic link"):
        Store(tmp_path, keep_count=2).create("b")
    with pytest.raises(GraphDoctorError, match="There is no recording"):
        Store(tmp_path, keep_count=2).last()


def test_a_recording_that_is_a_link_is_none(tmp_path):
    store = Store(tmp_path, keep_count=1)
    path = made(store, "a")
    outside = path.rename(tmp_path / path.name)
    path.symlink_to(outside)
    newest = made(store, "b")
    made(store, "c")
    assert outside.is_dir()
    assert path.is_symlink()
    assert not newest.exists()
    assert store.find(path.name) is None


def test_chosen_folder_is_made_and_others_stay_untouched(tmp_path):
    (tmp_path / "there").mkdir()
    made(Store(tmp_path, keep_count=2, folder=tmp_path / "there"), "a")
    assert not (tmp_path / "there" / ".gitignore").exists()
    path = made(Store(tmp_path, keep_count=2, folder=tmp_path / "new" / "one"), "a")
    assert path.parent == tmp_path / "new" / "one"
    assert (tmp_path / "new" / "one" / ".gitignore").exists()
    assert not (tmp_path / FOLDER).exists()


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout on a file system that is mounted read-only, and a state folder elsewhere."""
    root = tmp_path / "checkout"
    root.mkdir()
    mkdir = Path.mkdir

    def refuse(self: Path, *args: Any, **kwargs: Any) -> None:
        if self.is_relative_to(root):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))
        mkdir(self, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", refuse)
    return root


def test_what_cannot_be_written_is_a_clear_error(read_only, tmp_path):
    with pytest.raises(GraphDoctorError, match="can't be written: Read-only file system"):
        Store(read_only, keep_count=2, folder=read_only / "recordings").create("a")
    with pytest.raises(
        GraphDoctorError, match=r"checkout/\.graphdoctor can't be written"
    ) as caught:
        Store(read_only, keep_count=2).create("a")
    assert "--recordings DIR" in (caught.value.hint or "")
    (tmp_path / FOLDER).write_text("")
    with pytest.raises(GraphDoctorError, match="can't be written"):
        Store(tmp_path, keep_count=5).create("a")


def test_pruning_leaves_what_graphdoctor_did_not_make(tmp_path):
    store = Store(tmp_path, keep_count=1)
    foreign = tmp_path / FOLDER / "notes"
    made(store, "a")
    foreign.mkdir()
    made(store, "b")
    assert foreign.is_dir()
    assert len(recordings(tmp_path)) == 2


def test_wrong_note_of_the_last_falls_back_to_newest(tmp_path):
    store = Store(tmp_path, keep_count=5)
    made(store, "a")
    newest = made(store, "b")
    for content in (b"gone\n", b"../..\n", b"", b"\xff\xfe\0"):
        (tmp_path / FOLDER / "last").write_bytes(content)
        assert store.last() == newest, content


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_does_not_see_the_folder(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    made(Store(tmp_path, keep_count=5), "a")
    status = ["git", "-C", str(tmp_path), "status", "--porcelain", "--untracked-files=all"]
    assert subprocess.run(status, check=True, capture_output=True, text=True).stdout == ""


@pytest.mark.slow
def test_nobody_else_can_read_a_recording(tmp_path):
    program = ("import torch", "def build():", "    return torch.nn.Linear(2, 2)")
    (tmp_path / "model.py").write_text("\n".join(program))
    command = [sys.executable, "-m", "graphdoctor", "explain", "model.py", "--input", "f32[2,2]"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, umask=0o022)

    (recording,) = (path for path in (tmp_path / ".graphdoctor").iterdir() if path.is_dir())
    folders = [recording, *(path for path in recording.rglob("*") if path.is_dir())]
    assert [path.name for path in folders if stat.S_IMODE(path.stat().st_mode) != 0o700] == []
    assert recording / "trace" in folders
    files = [path for path in recording.rglob("*") if path.is_file()]
    assert len(files) > 4
    assert [path.name for path in files if stat.S_IMODE(path.stat().st_mode) != 0o600] == []

"""Edited files on disk: what is kept of a file, what is refused before anything is written, and
what git is asked."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.errors import GraphDoctorError
from graphdoctor.fixes import writing
from graphdoctor.fixes.patch import FileChange
from graphdoctor.fixes.writing import check, write

BEFORE = "# coding: latin-1\r\nname = 'é'\n\tx\r".encode("latin-1")
AFTER = BEFORE.replace(b"name", b"title")

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
)


@pytest.fixture(autouse=True)
def _git_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git without the configuration of this machine, and without that of a hook that runs the
    tests."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)


def change_of(path: Path, content: bytes = BEFORE) -> FileChange:
    """A file on disk and an edit of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return FileChange(path, content, content.replace(b"name", b"title"))


def git(folder: Path, *args: str) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e")
    subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True, timeout=60)


def committed(folder: Path, *names: str) -> list[FileChange]:
    """Files in a repository of their own, all committed."""
    changes = [change_of(folder / name) for name in names]
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "m")
    return changes


def refused(changes: list[FileChange], *, force: bool = False) -> GraphDoctorError:
    """The error, once it is sure that nothing was written."""
    before = [change.path.read_bytes() if change.path.is_file() else None for change in changes]
    listing = [sorted(path.name for path in change.path.parent.iterdir()) for change in changes]
    with pytest.raises(GraphDoctorError) as caught:
        write(changes, force=force)
    assert [
        change.path.read_bytes() if change.path.is_file() else None for change in changes
    ] == before
    assert [
        sorted(path.name for path in change.path.parent.iterdir()) for change in changes
    ] == listing
    assert caught.value.exit_code == 2
    assert caught.value.message.endswith(".")
    return caught.value


def written(changes: list[FileChange], *, force: bool = False) -> None:
    """Write files, and make sure that each has its new text and no other file came to be or
    went."""
    files = [change.path for change in changes]
    folders = [file.parent for file in files] + [file.resolve().parent for file in files]
    listing = [sorted(path.name for path in folder.iterdir()) for folder in folders]
    assert all(change.after != change.before for change in changes)
    write(changes, force=force)
    assert [file.read_bytes() for file in files] == [change.after for change in changes]
    assert [sorted(path.name for path in folder.iterdir()) for folder in folders] == listing


def fake_git(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program of ours in front of git."""
    path = folder / "bin" / "git"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")


SPOILED: list[tuple[Callable[[Path], object], str, str | None]] = [
    (
        lambda path: path.write_bytes(BEFORE + b"\n"),
        "has changed since it was read.",
        "Run the command again.",
    ),
    (lambda path: path.unlink(), "can't be read: No such file or directory.", None),
    (
        lambda path: (path.unlink(), path.symlink_to(path.name)),
        "can't be read: Too many levels of symbolic links.",
        None,
    ),
    (lambda path: (path.unlink(), path.mkdir()), "isn't a regular file.", None),
    (lambda path: (path.unlink(), os.mkfifo(path)), "isn't a regular file.", None),
    (lambda path: path.chmod(0o444), "is read-only.", "Make it writable first: chmod u+w {path}"),
    (
        lambda path: path.parent.chmod(0o555),
        "can't be replaced: the folder {path.parent} is read-only.",
        "Make it writable first: chmod u+w {path.parent}",
    ),
]
"""What can be wrong with a file; the message and the hint that follow."""


@pytest.mark.parametrize("force", [False, True])
def test_fault_in_the_last_file_leaves_the_first_unwritten(force, tmp_path):
    for number, (spoil, words, hint) in enumerate(SPOILED):
        folder = tmp_path / str(number)
        changes = [change_of(folder / "a.py"), change_of(folder / "pkg" / "b.py")]
        path = changes[1].path
        spoil(path)
        error = refused(changes, force=force)
        assert error.message == f"{path} {words.format(path=path)}"
        assert error.hint == (hint and hint.format(path=path))
    change = change_of(tmp_path / "a.py")
    (tmp_path / "b.py").symlink_to("a.py")
    error = refused([change, FileChange(tmp_path / "b.py", BEFORE, BEFORE + b"x")], force=force)
    assert (
        error.message
        == f"{tmp_path / 'a.py'} and {tmp_path / 'b.py'} are the same file, with two edits."
    )


def test_bytes_are_written_unchanged_and_modes_kept(tmp_path):
    """Every end of a line, a character that isn't written as in UTF-8, and a very long name."""
    modes = {"a.py": 0o600, "pkg/b.py": 0o644, "c.py": 0o751, f"{'n' * 252}.py": 0o666}
    changes = [change_of(tmp_path / name) for name in modes]
    for change, mode in zip(changes, modes.values(), strict=True):
        change.path.chmod(mode)
    written(changes)
    assert {change.path.read_bytes() for change in changes} == {AFTER}
    assert [stat.S_IMODE(change.path.stat().st_mode) for change in changes] == list(modes.values())


class TestWriting:
    def test_file_is_replaced_whole_and_hard_links_keep_old_text(self, tmp_path):
        change = change_of(tmp_path / "a.py")
        (tmp_path / "b.py").hardlink_to(change.path)
        with change.path.open("rb") as reader:
            written([change])
            assert reader.read() == BEFORE
        assert (tmp_path / "b.py").read_bytes() == BEFORE

    @needs_root
    def test_files_keep_each_their_own_mode_and_owner(self, tmp_path):
        changes = [change_of(tmp_path / name) for name in ("a.py", "b.py")]
        os.chown(changes[1].path, 1234, 2345)
        changes[1].path.chmod(0o4755)
        before = [change.path.stat() for change in changes]
        written(changes)
        after = [change.path.stat() for change in changes]
        assert [(stat.st_uid, stat.st_gid, stat.st_mode) for stat in after] == [
            (stat.st_uid, stat.st_gid, stat.st_mode) for stat in before
        ]

    def test_a_link_stays_and_its_target_is_written(self, tmp_path):
        target = change_of(tmp_path / "real" / "a.py").path
        (tmp_path / "real" / "near.py").symlink_to("a.py")
        link = tmp_path / "a.py"
        link.symlink_to(Path("real") / "near.py")
        written([FileChange(link, BEFORE, AFTER)])
        assert link.is_symlink()
        assert (tmp_path / "real" / "near.py").is_symlink()
        assert not target.is_symlink()
        assert target.read_bytes() == AFTER

    def test_an_edit_that_changes_nothing_asks_for_nothing(self, tmp_path):
        kept = change_of(tmp_path / "kept.py")
        kept.path.chmod(0o444)
        changed = change_of(tmp_path / "changed.py")
        unchanged = [
            FileChange(path, BEFORE, BEFORE) for path in (tmp_path / "missing.py", kept.path)
        ]
        write([*unchanged, changed], force=False)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["changed.py", "kept.py"]
        assert (kept.path.read_bytes(), changed.path.read_bytes()) == (BEFORE, AFTER)

    def test_one_file_under_two_names_is_written_once(self, tmp_path):
        change = change_of(tmp_path / "a.py")
        (tmp_path / "b.py").symlink_to("a.py")
        written([change, FileChange(tmp_path / "b.py", BEFORE, AFTER)])
        assert change.path.read_bytes() == AFTER


class TestFailing:
    def test_the_error_names_the_files_that_are_written(self, tmp_path, monkeypatch):
        make, made = tempfile.mkstemp, list[str]()

        def full(**more: Any) -> tuple[int, str]:
            if len(made) == 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            made.append("")
            return make(**more)

        monkeypatch.setattr(tempfile, "mkstemp", full)
        changes = [change_of(tmp_path / name) for name in ("a.py", "b.py", "c.py")]
        with pytest.raises(GraphDoctorError) as caught:
            write(changes, force=False)
        assert caught.value.exit_code == 2
        assert caught.value.message == (
            f"{tmp_path / 'c.py'} can't be written: No space left on device. "
            f"Already written: {tmp_path / 'a.py'}, {tmp_path / 'b.py'}."
        )
        assert [change.path.read_bytes() for change in changes] == [AFTER, AFTER, BEFORE]

    @pytest.mark.parametrize(
        "trouble", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()]
    )
    def test_a_file_half_written_is_removed(self, trouble, tmp_path, monkeypatch):
        def fail(*_: Any) -> None:
            raise trouble

        monkeypatch.setattr(Path, "replace", fail)
        change = change_of(tmp_path / "a.py")
        with pytest.raises((GraphDoctorError, KeyboardInterrupt)) as caught:
            write([change], force=False)
        assert [path.name for path in tmp_path.iterdir()] == ["a.py"]
        assert change.path.read_bytes() == BEFORE
        assert "Already written" not in str(caught.value)

    def test_a_file_that_changes_while_others_are_written_is_left(self, tmp_path, monkeypatch):
        changes = [change_of(tmp_path / "a.py"), change_of(tmp_path / "b.py")]
        replace = Path.replace

        def disturb(path: Path, target: Path) -> Path:
            changes[1].path.write_bytes(b"typed by someone")
            return replace(path, target)

        monkeypatch.setattr(Path, "replace", disturb)
        with pytest.raises(GraphDoctorError) as caught:
            write(changes, force=True)
        assert caught.value.message == (
            f"{changes[1].path} has changed since it was read. Already written: {changes[0].path}."
        )
        assert changes[1].path.read_bytes() == b"typed by someone"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.py", "b.py"]


@needs_git
class TestGit:
    @pytest.mark.parametrize(
        "name", ["[ab].py", ":(top)a.py", "*.py", "-a.py", "a b.py", "é.py", "new\nline.py"]
    )
    def test_a_name_is_a_name_and_no_pattern(self, name, tmp_path):
        changes = committed(tmp_path, "a.py", "b.py", name)
        change_of(tmp_path / "a.py", BEFORE + b"\n")
        written(changes[2:])
        assert (
            "has uncommitted changes"
            in refused([change_of(tmp_path / name, BEFORE + b"\n")]).message
        )

    def test_a_hooks_environment_does_not_name_another_repository(self, tmp_path, monkeypatch):
        committed(tmp_path / "hook", "a.py")
        changes = committed(tmp_path / "file", "a.py")
        monkeypatch.setenv("GIT_DIR", str(tmp_path / "hook" / ".git"))
        monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "nowhere"))
        written(changes)

    def test_repository_programs_are_not_started_and_nothing_written(self, tmp_path):
        changes = committed(tmp_path, "a.py")
        hook = tmp_path / "hook.sh"
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n", encoding="utf-8")
        hook.chmod(0o755)
        git(tmp_path, "config", "core.fsmonitor", str(hook))
        os.utime(changes[0].path, (1, 1))
        index = (tmp_path / ".git" / "index").read_bytes()
        written(changes)
        assert not (tmp_path / "started").exists()
        assert (tmp_path / ".git" / "index").read_bytes() == index

    def test_a_repository_of_someone_else_is_refused_unless_forced(self, tmp_path, monkeypatch):
        changes = committed(tmp_path, "a.py")
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        error = refused(changes)
        assert error.message.startswith(
            f"Can't tell whether {tmp_path / 'a.py'} has uncommitted changes: git says: detected dubious ownership"
        )
        assert error.hint == "Make `git status` work there, or use --force."
        written(changes, force=True)


@needs_git
def test_what_git_could_not_restore_is_refused_unless_forced(tmp_path):
    *_, clean = committed(tmp_path, "a.py", "b.py", "c.py", "pkg/d.py")
    changes = [change_of(tmp_path / name, BEFORE + b"\n") for name in ("a.py", "b.py", "c.py")]
    git(tmp_path, "add", "b.py")
    a, b, c = (str(change.path) for change in changes)
    assert refused(changes).message == f"{a}, {b} and {c} have uncommitted changes."
    error = refused([clean, changes[1]])
    assert (error.message, error.hint) == (
        f"{b} has uncommitted changes.",
        "Commit or stash them first, or use --force.",
    )
    written([clean])
    written(changes, force=True)
    # Which files status shows is a matter of taste, not of safety.
    git(tmp_path, "config", "status.showUntrackedFiles", "no")
    for name in ("new.py", "new/folder/a.py"):
        change = change_of(tmp_path / name)
        error = refused([change])
        assert error.message == f"{change.path} is not in git yet."
        assert error.hint == "Add and commit first, or use --force."
        written([change], force=True)
    (tmp_path / ".gitignore").write_text("build/\n", encoding="utf-8")
    written([change_of(tmp_path / "build" / "b.py")])
    (tmp_path / ".git" / "index").write_bytes(b"broken")
    change = change_of(tmp_path / "a.py")
    assert "has uncommitted changes: git says: " in refused([change]).message
    written([change], force=True)
    # Without a commit, there is nothing to go back to.
    git(tmp_path / "new" / "folder", "init")
    assert "is not in git yet" in refused([change_of(tmp_path / "new" / "folder" / "b.py")]).message


@needs_git
class TestChecking:
    def test_files_are_checked_against_git_and_disk_unwritten(self, tmp_path):
        changes = committed(tmp_path, "a.py", "b.py")
        check([*changes, FileChange(changes[0].path, BEFORE, BEFORE + b"x")], force=False)
        assert changes[0].path.read_bytes() == BEFORE
        changes[1] = change_of(tmp_path / "b.py", BEFORE + b"\n")
        with pytest.raises(GraphDoctorError, match=r"b\.py has uncommitted changes"):
            check(changes, force=False)
        check(changes, force=True)
        changes[0].path.chmod(0o444)
        with pytest.raises(GraphDoctorError, match="is read-only"):
            check(changes, force=True)


class TestWithoutGit:
    def test_no_git_has_no_objection(self, tmp_path, monkeypatch):
        change = change_of(tmp_path / "a.py")
        (tmp_path / ".git").mkdir()
        monkeypatch.setenv("PATH", str(tmp_path))
        written([change])
        assert change.path.read_bytes() == AFTER

    def test_a_git_that_gives_no_answer_is_refused_unless_forced(self, tmp_path, monkeypatch):
        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        change = change_of(tmp_path / "a.py")
        fake_git(tmp_path, monkeypatch, "exit 3")
        assert refused([change]).message.endswith(
            "has uncommitted changes: git exited with status 3."
        )
        (tmp_path / "bin" / "git").write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
        monkeypatch.setattr(writing, "_GIT_TIMEOUT_S", 0.1)
        assert (
            "has uncommitted changes: git didn't answer within 0.1 s." in refused([change]).message
        )
        monkeypatch.setattr(subprocess, "run", refuse)
        assert refused([change]).message.endswith("git can't be started (Permission denied).")
        written([change], force=True)

    def test_what_git_warns_of_first_is_not_its_answer(self, tmp_path, monkeypatch):
        words = "fatal: not a git repository (or any of the parent directories): .git"
        fake_git(tmp_path, monkeypatch, f"echo 'warning: hm' >&2; echo '{words}' >&2; exit 128")
        written([change_of(tmp_path / "a.py")])

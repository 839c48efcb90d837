"""Writes edited files to disk, after checking all of them first.

Files that git couldn't restore are only overwritten if forced: those with uncommitted changes, and
untracked ones. Ignored files, and files outside of any repository, are written without asking git.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from graphdoctor.errors import GraphDoctorError, os_errors
from graphdoctor.fixes.patch import FileChange

_GIT_TIMEOUT_S = 10
_OF_A_HOOK = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
)
"""Variables by which git tells a hook about its repository; the file may be in another."""


def write(changes: Sequence[FileChange], *, force: bool) -> None:
    """Write files, each one under a temporary name that is then renamed.

    A file keeps its mode, and its owner if we may change owners. Other names of the same file (hard
    links) keep the old text. If a file changed since it was read, can't be written, or git couldn't
    restore it, no file is written. If writing fails later, the error names the files that were
    written.
    """
    files: dict[Path, FileChange] = {}
    for change in changes:
        if change.after == change.before:
            continue
        target = _checked_target(change)
        other = files.setdefault(target, change)
        if other.after != change.after:
            raise GraphDoctorError(
                f"{other.path} and {change.path} are the same file, with two edits.",
                hint="Name the file by one path only.",
            )
    if not force:
        _check_git(files)
    written: list[str] = []
    for target, change in files.items():
        try:
            _replace(target, change)
        except (GraphDoctorError, OSError) as error:
            reported = error
            if isinstance(reported, OSError):
                reported = GraphDoctorError(f"{change.path} can't be written: {reported.strerror}.")
            more = f" Already written: {', '.join(written)}." if written else ""
            raise GraphDoctorError(f"{reported.message}{more}", hint=reported.hint) from error
        written.append(str(change.path))


def check(changes: Sequence[FileChange], *, force: bool) -> None:
    """Check whether files could be written as they are now; several edits may be of one file."""
    files = {_checked_target(change): change for change in changes}
    if not force:
        _check_git(files)


def _checked_target(change: FileChange) -> Path:
    with os_errors(change.path, "read"):
        target = Path(os.path.realpath(change.path, strict=True))
        mode = target.stat().st_mode
        if not stat.S_ISREG(mode):
            raise GraphDoctorError(f"{change.path} isn't a regular file.")
        _check_content(target, change)
        folder_mode = target.parent.stat().st_mode
    # The mode too: root could write everything, but doesn't want to overwrite a file that was made
    # read-only.
    if not mode & 0o222 or not os.access(target, os.W_OK):
        raise GraphDoctorError(f"{change.path} is read-only.", hint=_chmod(target))
    if not folder_mode & 0o222 or not os.access(target.parent, os.W_OK | os.X_OK):
        raise GraphDoctorError(
            f"{change.path} can't be replaced: the folder {target.parent} is read-only.",
            hint=_chmod(target.parent),
        )
    return target


def _chmod(path: Path) -> str:
    return f"Make it writable first: chmod u+w {shlex.quote(str(path))}"


def _check_content(target: Path, change: FileChange) -> None:
    if target.read_bytes() != change.before:
        raise GraphDoctorError(
            f"{change.path} has changed since it was read.", hint="Run the command again."
        )


def _replace(target: Path, change: FileChange) -> None:
    status = target.stat()
    handle, name = tempfile.mkstemp(prefix=".graphdoctor.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(change.after)
        if sys.platform != "win32":
            # The mode comes last because changing the owner clears its special bits.
            for owner, group in ((status.st_uid, -1), (-1, status.st_gid)):
                with suppress(PermissionError):
                    os.chown(temporary, owner, group)
        temporary.chmod(stat.S_IMODE(status.st_mode))
        _check_content(target, change)
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _check_git(files: Mapping[Path, FileChange]) -> None:
    states = {
        str(change.path): _git_status(target, change.path) for target, change in files.items()
    }
    unknown = [path for path, status in states.items() if status == "??"]
    changed = [path for path, status in states.items() if status not in (None, "??")]
    for paths, one, several, trouble, remedy in (
        (changed, "has", "have", "uncommitted changes", "Commit or stash them"),
        (unknown, "is", "are", "not in git yet", "Add and commit"),
    ):
        if paths:
            listed = " and ".join(filter(None, (", ".join(paths[:-1]), paths[-1])))
            raise GraphDoctorError(
                f"{listed} {one if len(paths) == 1 else several} {trouble}.",
                hint=f"{remedy} first, or use --force.",
            )


def _no_answer(path: Path, reason: str) -> GraphDoctorError:
    return GraphDoctorError(
        f"Can't tell whether {path} has uncommitted changes: {reason}.",
        hint="Make `git status` work there, or use --force.",
    )


def _git_status(target: Path, path: Path) -> str | None:
    command = ["git", "--no-pager", "--literal-pathspecs"]
    # A file system monitor is a program that the repository's configuration names; status would
    # start it.
    command += ["-c", "core.fsmonitor=false"]
    command += ["status", "--porcelain=v1", "-z", "--untracked-files=normal", "--", target.name]
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    try:
        done = subprocess.run(
            command,
            cwd=target.parent,
            env=environment | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired:
        raise _no_answer(path, f"git didn't answer within {_GIT_TIMEOUT_S} s") from None
    except OSError as error:
        raise _no_answer(path, f"git can't be started ({error.strerror})") from error
    if done.returncode == 0:
        return done.stdout[:2].decode("ascii", "replace") or None
    # Warnings and traces may come first.
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    complaint = next((line for line in lines if line.startswith("fatal: ")), None)
    if complaint is None:
        raise _no_answer(path, f"git exited with status {done.returncode}")
    # "not a git repository: /a/path" is a repository whose own folder is gone.
    if complaint.startswith("fatal: not a git repository (or any "):
        return None
    raise _no_answer(path, f"git says: {complaint.removeprefix('fatal: ').rstrip('.:')}")

"""Puts edited files on disk: all are looked at before the first is written.

Comes in: each file's bytes as they were read and as they are to be. Goes out: the files, or a ``GraphDoctorError``.

What git could not bring back is not overwritten unless forced. As for ``cargo fix`` that is a file with uncommitted
changes, and one that git does not know yet (untracked); an ignored file, and one outside of any repository, is nobody's
business but its owner's.
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
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.errors import GraphDoctorError
from graphdoctor.fixes.patch import FileChange

_GIT_TIMEOUT_S = 10
_COMMIT = "Commit or stash them first, or give --force."


def write(changes: Sequence[FileChange], *, force: bool) -> None:
    """Write files, each at once, under a temporary name that is then renamed.

    A file keeps its mode, and its owner where we may give files away. Other names of the same file (hard links) keep
    the text before.

    Args:
        changes: The edits; those that change nothing are passed over. What a symbolic link points to is edited, and
            the link stays.
        force: Write also what git could not bring back.

    Raises:
        GraphDoctorError: A file is not as it was read, cannot be written, or git could not bring it back: then no
            file was written. Or a file could not be written after all: then the message names those that were.
    """
    files: dict[Path, FileChange] = {}
    for change in changes:
        if change.after == change.before:
            continue
        target = _checked_target(change)
        other = files.setdefault(target, change)
        if other.after != change.after:
            raise GraphDoctorError(
                f"{other.path} and {change.path} are one file, with two edits.", hint="Name the file by one path only."
            )
    if not force:
        _check_git(files)
    written: list[str] = []
    for target, change in files.items():
        try:
            _replace(target, change)
        except GraphDoctorError as error:
            raise _with_written(error, written) from error
        except OSError as error:
            raise _with_written(_unwritable(change, error), written) from error
        written.append(str(change.path))


def check(changes: Sequence[FileChange], *, force: bool) -> None:
    """See whether files could be written as they are now; several edits may be of one file.

    Args:
        changes: The edits.
        force: Nobody minds what git could not bring back.

    Raises:
        GraphDoctorError: As ``write`` raises before it writes the first.
    """
    files = {_checked_target(change): change for change in changes}
    if not force:
        _check_git(files)


def _checked_target(change: FileChange) -> Path:
    """The file itself, behind links, after a look at whether it can be replaced."""
    try:
        target = Path(os.path.realpath(change.path, strict=True))
        mode = target.stat().st_mode
        if not stat.S_ISREG(mode):
            raise GraphDoctorError(f"{change.path} is no regular file.")
        _check_content(target, change)
        folder_mode = target.parent.stat().st_mode
    except OSError as error:
        raise GraphDoctorError(f"{change.path} cannot be read: {error.strerror}.") from error
    # The bits are asked too: whoever may do anything does not mean to overwrite what was made read-only.
    if not mode & 0o222 or not os.access(target, os.W_OK):
        raise GraphDoctorError(f"{change.path} is read-only.", hint=_chmod(target))
    if not folder_mode & 0o222 or not os.access(target.parent, os.W_OK | os.X_OK):
        raise GraphDoctorError(
            f"{change.path} cannot be replaced: the folder {target.parent} is read-only.",
            hint=_chmod(target.parent),
        )
    return target


def _chmod(path: Path) -> str:
    return f"Make it writable first: chmod u+w {shlex.quote(str(path))}"


def _check_content(target: Path, change: FileChange) -> None:
    if target.read_bytes() != change.before:
        raise GraphDoctorError(f"{change.path} has changed since it was read.", hint="Run the command again.")


def _replace(target: Path, change: FileChange) -> None:
    """Write to a temporary name and rename, so that nobody ever reads half a file."""
    found = target.stat()
    handle, name = tempfile.mkstemp(prefix=".graphdoctor.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(change.after)
        if sys.platform != "win32":
            # The mode last: a new owner takes away its special bits.
            for owner, group in ((found.st_uid, -1), (-1, found.st_gid)):
                with suppress(PermissionError):
                    os.chown(temporary, owner, group)
        temporary.chmod(stat.S_IMODE(found.st_mode))
        _check_content(target, change)
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _unwritable(change: FileChange, error: OSError) -> GraphDoctorError:
    return GraphDoctorError(f"{change.path} cannot be written: {error.strerror}.")


def _with_written(error: GraphDoctorError, written: Sequence[str]) -> GraphDoctorError:
    """The error, and which files were written before it: they stay."""
    if not written:
        return error
    return GraphDoctorError(f"{error.message} Written before it: {', '.join(written)}.", hint=error.hint)


def _check_git(files: Mapping[Path, FileChange]) -> None:
    """Git could bring back each of the files.

    Raises:
        GraphDoctorError: It could not, or does not say.
    """
    changed: list[str] = []
    unknown: list[str] = []
    for target, change in files.items():
        status = _git_status(target)
        if status is None:
            continue
        if isinstance(status, _Silent):
            raise GraphDoctorError(
                f"Whether {change.path} has uncommitted changes cannot be told: {status.reason}.",
                hint="Make `git status` work there, or give --force.",
            )
        (unknown if status == "??" else changed).append(str(change.path))
    if changed:
        verb = "has" if len(changed) == 1 else "have"
        raise GraphDoctorError(f"{_listed(changed)} {verb} uncommitted changes.", hint=_COMMIT)
    if unknown:
        verb = "is" if len(unknown) == 1 else "are"
        raise GraphDoctorError(
            f"{_listed(unknown)} {verb} not in git yet.", hint="Add and commit first, or give --force."
        )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


@dataclass(frozen=True)
class _Silent:
    """Git is there, but does not say how a file is.

    Args:
        reason: Why, a clause.
    """

    reason: str


def _git_status(target: Path) -> str | _Silent | None:
    """Git's two letters for a file; None where it is as committed, ignored, or no git watches over it."""
    command = ["git", "--no-pager", "--literal-pathspecs"]
    # A file system monitor is a program that the repository's configuration names: status would start it.
    command += ["-c", "core.fsmonitor=false"]
    command += ["status", "--porcelain=v1", "-z", "--untracked-files=normal", "--", target.name]
    try:
        done = subprocess.run(
            command,
            cwd=target.parent,
            env=_git_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired:
        return _Silent(f"git did not answer within {_GIT_TIMEOUT_S} s")
    except OSError as error:
        return _Silent(f"git cannot be started ({error.strerror})")
    if done.returncode == 0:
        return done.stdout[:2].decode("ascii", "replace") or None
    # Warnings and traces may stand above it.
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    complaint = next((line for line in lines if line.startswith("fatal: ")), None)
    if complaint is None:
        return _Silent(f"git exited with status {done.returncode}")
    # "not a git repository: /a/path" would be one whose own folder is gone.
    if complaint.startswith("fatal: not a git repository (or any "):
        return None
    return _Silent(f"git says: {complaint.removeprefix('fatal: ').rstrip('.:')}")


def _git_environment() -> dict[str, str]:
    """The environment for a question to the repository around a file, in English, that writes nothing."""
    # Inside a hook git says in these which repository it means; the file may lie in another.
    ours = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    return environment | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": ""}

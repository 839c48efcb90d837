"""Asks a command for the edits that no move writes: one JSON document in, a diff or whole files
out, nothing trusted.

The command runs in a scratch folder that holds the files as the program has them, with the fixes
verified so far. What it answers is tried like every other edit.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from subprocess import PIPE

from graphdoctor.errors import GraphDoctorError
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.proposals import EditRequest, SentFunction
from graphdoctor.facts.reading import plain
from graphdoctor.facts.stack import StackEntry, parsed, relative
from graphdoctor.fixes.diffs import MOST_CHARACTERS, DiffError, changes_of, checked
from graphdoctor.fixes.patch import FileChange, encoding_of
from graphdoctor.rules.catalog import PAGES
from graphdoctor.version import __version__

_MOST_CALLS = 5
_LONGEST_SAID = 200
_MOST_BYTES = 4 * MOST_CHARACTERS
_TESTS = (
    "tests/*",
    "*/tests/*",
    "test/*",
    "*/test/*",
    "test_*.py",
    "*/test_*.py",
    "*_test.py",
    "*conftest.py",
)


def edit_request(
    diagnosis: Diagnosis,
    finding: Finding,
    root: Path,
    read: Callable[[Path], bytes],
    no_edit: str | None = None,
) -> EditRequest:
    """What the author of an edit for a finding is told; ``read`` gives a file's bytes as the
    program has them.
    """
    recording = diagnosis.recording
    graphs = (recording.graphs[index] for index in _graphs_of(diagnosis, finding))
    inputs = (one for graph in graphs for one in graph.inputs or () if not one.is_parameter)
    calls = dict.fromkeys(call.inputs for call in recording.calls if call.inputs is not None)
    return EditRequest(
        graphdoctor_version=__version__,
        finding=finding,
        advice=PAGES[finding.code].documentation(),
        functions=tuple(_functions(finding, root, read)),
        no_edit=no_edit,
        tensors=tuple({(one.source, one.dtype, one.shape): one for one in inputs}.values()),
        calls=tuple(calls)[:_MOST_CALLS],
    )


def _graphs_of(diagnosis: Diagnosis, finding: Finding) -> Iterator[int]:
    for graph in diagnosis.graphs:
        if graph.ended_by_fingerprint == finding.fingerprint:
            yield graph.index


def _functions(
    finding: Finding, root: Path, read: Callable[[Path], bytes]
) -> Iterator[SentFunction]:
    seen = set()
    places: list[StackEntry] = [*finding.user_stack, finding.location]
    for place in places:
        path = root / place.file
        if place.origin != "user" or not path.is_file():
            continue
        text = read(path).decode(encoding_of(read(path)), "replace")
        found = _around(text, place.line)
        if found is not None and (path, found[1]) not in seen:
            seen.add((path, found[1]))
            name, line, end = found
            lines = text.split("\n")[line - 1 : end]
            yield SentFunction(
                file=relative(str(path), root), name=name, line=line, text="\n".join(lines)
            )


def _around(text: str, line: int) -> tuple[str, int, int] | None:
    """The outermost function around a line, its first line with decorators, and its last."""
    if (tree := parsed(text)) is None:
        return None
    waiting: list[ast.AST] = [tree]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop(0)):
            if not isinstance(child, ast.stmt) or not child.lineno <= line <= (
                child.end_lineno or 0
            ):
                # A decorator's line isn't the function's.
                continue
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
                return child.name, first, child.end_lineno or line
            waiting.append(child)
    return None


@dataclass(frozen=True)
class Proposer:
    """A command that is asked for edits.

    ``allowed``: patterns of paths, relative to the working directory, that may be edited though
    they weren't sent, or though they are tests.
    """

    command: str
    rounds: int = 3
    timeout_s: float = 300.0
    allowed: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The command and its arguments.

        Raises:
            GraphDoctorError: It has none, or a quote is left open.
        """
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise GraphDoctorError(f"--proposer: {error} in {self.command!r}.") from error
        if not words:
            raise GraphDoctorError("--proposer names no command.")
        # It runs elsewhere, so that files of this folder, such as a script, need their whole path.
        return [str(Path.cwd() / word) if Path(word).is_file() else word for word in words]

    def check(self) -> None:
        """Refuse a command that can't be run before anything else is.

        Raises:
            GraphDoctorError: There is no such command.
        """
        if shutil.which(self.words[0]) is None:
            raise GraphDoctorError(f"--proposer: there is no command {self.words[0]}.")

    def ask(
        self, request: EditRequest, root: Path, texts: Mapping[Path, bytes]
    ) -> tuple[FileChange, ...]:
        """The edits that it answers with; ``texts`` are the files that it is sent, as the program
        has them.

        Raises:
            DiffError: It answers nothing that can be tried.
        """
        disk = {path: path.read_bytes() for path in texts if path.is_file()}
        with tempfile.TemporaryDirectory(prefix="graphdoctor-proposal-") as scratch:
            for path, text in texts.items():
                copy = Path(scratch, relative(str(path), root).lstrip("/"))
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(text)
            try:
                answer = self._answer(json.dumps(plain(request)), scratch)
            finally:
                touched = [path for path, text in disk.items() if not _holds(path, text)]
                for path in touched:
                    path.write_bytes(disk[path])
        if touched:
            raise DiffError(f"it changed {touched[0].name} itself, which was put back as it was")
        return self._checked(_read(answer, root, texts), root, texts)

    def _answer(self, document: str, folder: str) -> str:
        words, began_s = self.words, time.monotonic()
        with tempfile.TemporaryFile() as said:
            try:
                process = subprocess.Popen(
                    words, cwd=folder, stdin=PIPE, stdout=PIPE, stderr=said, start_new_session=True
                )
            except OSError as error:
                raise GraphDoctorError(
                    f"--proposer: {words[0]} doesn't run: {error.strerror}."
                ) from error

            def stop() -> None:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)

            def feed() -> None:
                with contextlib.suppress(OSError), process.stdin as stream:  # type: ignore[union-attr]
                    stream.write(document.encode())

            timer = threading.Timer(self.timeout_s, stop)
            timer.start()
            try:
                threading.Thread(target=feed, daemon=True).start()
                content = process.stdout.read(_MOST_BYTES + 1)  # type: ignore[union-attr]
                if len(content) <= _MOST_BYTES:
                    process.wait()
            finally:
                timer.cancel()
                stop()
                process.wait()
            if len(content) > _MOST_BYTES:
                raise DiffError(f"its answer is longer than {MOST_CHARACTERS:,} characters")
            if time.monotonic() - began_s >= self.timeout_s:
                raise DiffError(f"it gave no answer within {self.timeout_s:g} s")
            if process.returncode:
                said.seek(0)
                told = (
                    said.read(MOST_CHARACTERS).decode("utf-8", "replace").strip().splitlines()[-1:]
                )
                because = f": {told[0][:_LONGEST_SAID]}" if told else ""
                raise DiffError(f"it ended with status {process.returncode}{because}")
        return content.decode("utf-8", "replace")

    def _checked(
        self, changes: Sequence[FileChange], root: Path, texts: Mapping[Path, bytes]
    ) -> tuple[FileChange, ...]:
        for change in changes:
            name = Path(relative(str(change.path), root)).as_posix()
            if any(fnmatch(name, pattern) for pattern in self.allowed):
                continue
            if not change.path.is_relative_to(root):
                raise DiffError(f"it edits {name}, which is outside of the project")
            if any(fnmatch(name, pattern) for pattern in _TESTS):
                raise DiffError(f"it edits the test {name}")
            if change.path not in texts:
                raise DiffError(f"it edits {name}, which it wasn't sent")
        return tuple(changes)


def _holds(path: Path, text: bytes) -> bool:
    try:
        return path.read_bytes() == text
    except OSError:
        return False


def _read(answer: str, root: Path, texts: Mapping[Path, bytes]) -> tuple[FileChange, ...]:
    """The edits that an answer holds: JSON with whole files, or a diff, whatever stands around
    it.
    """
    try:
        files = json.loads(answer)["files"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return changes_of(
            answer, root, lambda path: texts[path] if path in texts else path.read_bytes()
        )
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise DiffError('"files" isn\'t an object of texts')
    changes = []
    for name, text in files.items():
        path = Path(os.path.normpath(root / name))
        if path not in texts and not path.is_file():
            raise DiffError(f"there is no file {name}")
        before = texts[path] if path in texts else path.read_bytes()
        try:
            changes.append(FileChange(path, before, text.encode(encoding_of(before))))
        except UnicodeEncodeError as error:
            raise DiffError(
                f"{path.name} is encoded in {error.encoding}, which can't encode the edit"
            ) from error
    return checked(changes)

"""Reads a diff that somebody wrote, and makes of it edits of the files as a program has them;
nothing is written.

People and programs get line numbers and counts wrong, so a hunk goes where its lines are: nearest
to the line that its header names. Lines must be the file's own, but for spaces at their ends.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.fixes.patch import FileChange, encoding_of

MOST_CHARACTERS = 1_000_000
"""Of a diff; what is longer is no edit of a few functions."""

_HUNK = re.compile(r"@@(?: -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@| )")
_REFUSED = {
    "rename from ": "it renames a file",
    "new file mode ": "it adds a file",
    "deleted file mode ": "it deletes a file",
    "Binary files ": "it changes a file that isn't text",
    "GIT binary patch": "it changes a file that isn't text",
}
"""What can't be tried in place of a file that the program imports."""
_LONGEST_SHOWN = 60


class DiffError(Exception):
    """The reason why a diff can't be tried, as a clause."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class _Hunk:
    """A hunk; ``start``: its first line before, 1-based, None if its header doesn't say."""

    start: int | None
    lines: tuple[tuple[str, str], ...]
    """A sign and a line each: a space, a minus or a plus."""

    @property
    def old(self) -> list[str]:
        return [line for sign, line in self.lines if sign != "+"]


def changes_of(diff: str, root: Path, read: Callable[[Path], bytes]) -> tuple[FileChange, ...]:
    """Read the edits that a unified diff makes of files below a folder; ``read`` gives one's bytes
    as the program has them.

    Raises:
        DiffError: It holds no edit, or one that doesn't fit or isn't one of Python source.
    """
    changes = []
    for name, hunks in _files_of(diff).items():
        path = _path(name, root)
        before = read(path)
        changes.append(FileChange(path, before, _applied(hunks, before, path.name)))
    return checked(changes)


def checked(changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """Keep the edits that change something; refuse what isn't Python afterwards.

    Raises:
        DiffError: None of them changes anything, or a file isn't Python source, before or after.
    """
    changed = tuple(change for change in changes if change.after != change.before)
    for change in changed:
        if change.path.suffix != ".py":
            raise DiffError(f"{change.path.name} isn't a Python file")
        try:
            ast.parse(change.after)
        except (SyntaxError, ValueError, RecursionError) as error:
            line = (
                f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
            )
            raise DiffError(
                f"{change.path.name} isn't Python with it: {getattr(error, 'msg', error)}{line}"
            ) from error
    if not changed:
        raise DiffError("it changes nothing")
    return changed


def _files_of(diff: str) -> dict[str, list[_Hunk]]:
    if len(diff) > MOST_CHARACTERS:
        raise DiffError(f"it is longer than {MOST_CHARACTERS:,} characters")
    lines = [line.removesuffix("\r") for line in diff.split("\n")]
    files: dict[str, list[_Hunk]] = {}
    hunks = None
    at = 0
    while at < len(lines):
        line = lines[at]
        refused = next((why for start, why in _REFUSED.items() if line.startswith(start)), None)
        if refused is not None:
            raise DiffError(refused)
        if _is_head(lines, at):
            old, new = (_name(lines[at + item]) for item in (0, 1))
            if "/dev/null" in (old, new):
                raise DiffError("it adds a file" if old == "/dev/null" else "it deletes a file")
            hunks = files.setdefault(new, [])
            at += 2
        elif hunks is not None and (header := _HUNK.match(line)):
            hunk, at = _hunk(lines, at + 1, int(header[1]) if header[1] else None)
            hunks.append(hunk)
        else:
            at += 1
    if not any(files.values()):
        raise DiffError("it holds no diff")
    return files


def _is_head(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _name(line: str) -> str:
    name = line[4:].split("\t", maxsplit=1)[0].strip()
    return ast.literal_eval(name) if name.startswith('"') and name.endswith('"') else name


def _hunk(lines: Sequence[str], at: int, start: int | None) -> tuple[_Hunk, int]:
    body = []
    # The signature of a mail begins with a minus, too.
    while at < len(lines) and lines[at][:1] in ("", " ", "+", "-", "\\") and lines[at] != "-- ":
        if _is_head(lines, at):
            break
        if not lines[at].startswith("\\"):
            # Programs that strip spaces leave nothing of an empty line.
            body.append((lines[at][:1] or " ", lines[at][1:]))
        at += 1
    while body and body[-1] == (" ", "") and not lines[at - 1]:
        body.pop()
        at -= 1
    return _Hunk(start, tuple(body)), max(at, 1)


def _path(name: str, root: Path) -> Path:
    stripped = name.partition("/")[2] if name.startswith(("a/", "b/")) else name
    for item in dict.fromkeys((stripped, name)):
        if item and (root / item).is_file():
            return Path(os.path.normpath(root / item))
    raise DiffError(f"there is no file {stripped}")


def _applied(hunks: Sequence[_Hunk], content: bytes, name: str) -> bytes:
    encoding = encoding_of(content)
    newline = b"\r\n" if b"\r\n" in content else b"\n"
    lines = content.splitlines(keepends=True)
    texts = [line.rstrip(b"\r\n").decode(encoding, "surrogateescape") for line in lines]
    after = []
    done, moved = 0, 0
    for number, hunk in enumerate(hunks, start=1):
        at = _place(hunk, texts, done, moved, f"hunk {number} of {name}")
        moved = at - (hunk.start - 1) if hunk.start and hunk.old else moved
        after += lines[done:at]
        for sign, text in hunk.lines:
            if sign == "+":
                if after and not after[-1].endswith((b"\n", b"\r")):
                    after[-1] += newline
                try:
                    after.append(text.encode(encoding, "surrogateescape") + newline)
                except UnicodeEncodeError as error:
                    raise DiffError(
                        f"{name} is encoded in {encoding}, which can't encode the edit"
                    ) from error
            else:
                after += [lines[at]] if sign == " " else []
                at += 1
        done = at
    return b"".join([*after, *lines[done:]])


def _place(hunk: _Hunk, texts: Sequence[str], first: int, moved: int, what: str) -> int:
    old = [line.rstrip() for line in hunk.old]
    if not old:
        if hunk.start is None:
            raise DiffError(f"{what} says neither where it goes nor what is there")
        return min(max(hunk.start, first), len(texts))
    bare = [text.rstrip() for text in texts]
    expected = first if hunk.start is None else hunk.start - 1 + moved
    places = [
        at for at in range(first, len(bare) - len(old) + 1) if bare[at : at + len(old)] == old
    ]
    if hunk.start is None and len(places) > 1:
        raise DiffError(f"{what} fits in {len(places)} places, and its header has no line number")
    if places:
        return min(places, key=lambda at: abs(at - expected))
    # Most of its lines say where it should have gone.
    at = max(
        range(first, max(len(bare), first + 1)),
        key=lambda at: (sum(map(str.__eq__, bare[at:], old)), -abs(at - expected)),
    )
    for line, (text, want) in enumerate(zip(bare[at:], old, strict=False), at + 1):
        if text != want:
            there = f"line {line} is `{_shown(text)}`, not `{_shown(want)}`"
            raise DiffError(f"{what} doesn't fit: {there}")
    raise DiffError(f"{what} doesn't fit: the file ends before it does")


def _shown(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"

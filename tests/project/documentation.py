"""The pages of the documentation, their code blocks, and what their comments ask for.

A comment on the line above a block says what becomes of it:

- ``<!-- not run: why -->``: its commands are not run;
- ``<!-- run by tests/… -->``: another test runs them;
- ``<!-- file: name.py -->``: it is written to that file, for the page's later commands;
- ``<!-- exits with 1 -->``: what its last command exits with, if not with 0.

In a ``console`` block either every line is a command, or commands begin with ``$`` and the lines
below one are its output:
each must appear in this order, with other lines between them; ``…`` stands for anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
NAMES = {str(path.relative_to(REPOSITORY)): path for path in PAGES if path.name != "CHANGELOG.md"}
"""Pages by their path in the repository."""
COMMENTS = re.compile(
    r"not run: (?P<reason>.+)|run by (?P<test>tests/\S+)|file: (?P<file>\S+)|exits with (?P<status>\d+)"
)
_BLOCK = re.compile(
    r"(?:^<!-- (?P<comment>.*) -->\n)?^```(?P<language>\w*)(?P<rest>.*)\n(?P<text>(?:.*\n)*?)^```$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Command:
    """One command of a block, with the output that the page shows below it."""

    text: str
    shown: tuple[str, ...] = ()
    status: int = 0

    @property
    def words(self) -> list[str]:
        """Split as a shell does."""
        return shlex.split(self.text, comments=True)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    comment: str | None
    text: str

    def asked(self, name: str) -> str | None:
        """What its comment asks for under a name of ``COMMENTS``."""
        found = COMMENTS.fullmatch(self.comment) if self.comment else None
        return found[name] if found else None

    @property
    def is_run(self) -> bool:
        """Its commands are run by the test of its page."""
        return self.language == "console" and not self.asked("reason") and not self.asked("test")

    def commands(self) -> list[Command]:
        """Its commands, in order."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if not any(line.startswith("$ ") for line in lines):
            return [Command(line) for line in lines if line.strip()]
        starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        status = int(self.asked("status") or 0)
        return [
            Command(
                lines[start].removeprefix("$ "),
                tuple(lines[start + 1 : end]),
                status if end == len(lines) else 0,
            )
            for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
        ]


def blocks_of(name: str) -> list[Block]:
    """The blocks of a page, in order."""
    text = NAMES[name].read_text(encoding="utf-8")
    return [
        Block(
            name,
            text.count("\n", 0, found.start()) + 1,
            found["language"],
            found["comment"],
            found["text"],
        )
        for found in _BLOCK.finditer(text)
    ]


def inline_commands(name: str) -> Iterator[str]:
    """What a page writes in the running text as a command of ours."""
    text = _BLOCK.sub("", NAMES[name].read_text(encoding="utf-8"))
    for found in re.finditer(r"`(graphdoctor [^`]+)`", text):
        yield " ".join(found[1].split()).replace("\\|", "|")


def missing_line(output: str, shown: tuple[str, ...]) -> str | None:
    """The first shown line that the output doesn't have, in order; None when it has them all."""
    rest = iter([" ".join(line.split()) for line in output.splitlines()])
    for line in shown:
        wanted = re.compile(
            ".*".join(re.escape(part.strip()) for part in " ".join(line.split()).split("…"))
        )
        if wanted.pattern not in ("", ".*") and not any(wanted.fullmatch(found) for found in rest):
            return line
    return None

"""What a fix is: an edit of source, a torch setting, or a change of how the target is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import FixKind, SnippetPlace
from graphdoctor.fixes.patch import FileChange, merged
from graphdoctor.trials.program import Program, RunChange


@dataclass(frozen=True)
class Candidate:
    """One thing that can be tried.

    Args:
        title: One imperative sentence.
        kind: What it changes.
        is_safe: Whether results stay the same for every input.
        targets: Fingerprints of the findings that it is for.
        edit: An edit of a file as the program has it; None if source doesn't change.
        change: What it changes about the run, such as torch settings and calls.
        snippet: What to write, for people; None for an edit of source, and if ``title`` has to do.
        place: Where ``snippet`` goes; None without one.
        contains: Whether it contains a break rather than removing it.
        drops_output: Whether the program prints less with it.
        name: Stable name of a change of the run, such as ``mark_dynamic x 0``.
        addresses: The changed values that it is for, in the user's words.
    """

    title: str
    kind: FixKind
    is_safe: bool
    targets: tuple[str, ...] = ()
    edit: FileChange | None = None
    change: RunChange = field(default_factory=RunChange)
    snippet: str | None = None
    place: SnippetPlace | None = None
    contains: bool = False
    drops_output: bool = False
    name: str = ""
    addresses: tuple[str, ...] = ()

    def is_same(self, other: Candidate) -> bool:
        """Whether both do the same to the program."""
        return (self.edit, self.change) == (other.edit, other.change)


@dataclass(frozen=True)
class Options:
    """What can be tried for one finding.

    Args:
        finding: The finding.
        fixes: What can be tried, best first.
        declined: Why recipes leave the source unchanged, each reason once.
    """

    finding: Finding
    fixes: tuple[Candidate, ...]
    declined: tuple[str, ...] = ()


def compatible(fixes: Sequence[Candidate]) -> list[Candidate]:
    """The fixes for one program whose edits of a file don't overlap; of those that do, the first."""
    left_out: list[Candidate] = []
    for editing in _by_file(fixes):
        _, chosen = _merged([edit for _, edit in editing])
        left_out += [fix for at, (fix, _) in enumerate(editing) if at not in chosen]
    return [fix for fix in fixes if not any(fix is other for other in left_out)]


def with_fixes(program: Program, fixes: Sequence[Candidate]) -> Program:
    """A program with fixes that were made for it; of edits that overlap, the first."""
    content = dict(program.content)
    for editing in _by_file(fixes):
        edits = [edit for _, edit in editing]
        content[edits[0].path] = edits[0].after if len(edits) == 1 else _merged(edits)[0]
    change = program.change
    for fix in fixes:
        change = change.joined(fix.change)
    return Program(content, change)


def _by_file(fixes: Sequence[Candidate]) -> list[list[tuple[Candidate, FileChange]]]:
    found: dict[Path, list[tuple[Candidate, FileChange]]] = {}
    for fix in fixes:
        if fix.edit is not None:
            found.setdefault(fix.edit.path, []).append((fix, fix.edit))
    return list(found.values())


def _merged(edits: Sequence[FileChange]) -> tuple[bytes, tuple[int, ...]]:
    """Edits of one file merged into one text, and the indices of those that are in it."""
    return merged(edits[0].before, [edit.after for edit in edits])

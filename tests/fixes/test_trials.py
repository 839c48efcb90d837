"""Programs put together from fixes, whatever lies on disk by then."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoctor.facts.run import Setting
from graphdoctor.fixes.patch import Candidate, FileChange, compatible, with_fixes
from graphdoctor.trials.program import Program, RunChange

BASE = b"".join(b"a%d = %d\n" % (number, number) for number in range(1, 10))


def edit(path: Path, *lines: int, base: bytes = BASE) -> Candidate:
    """An edit that doubles what lines assign."""
    texts = base.splitlines(keepends=True)
    for line in lines:
        texts[line - 1] = texts[line - 1].replace(b"\n", b" * 2\n")
    change = FileChange(path, base, b"".join(texts))
    return Candidate(
        title=f"Double {lines}", kind="code", is_safe=True, targets=(), edits=(change,)
    )


def setting(name: str) -> Candidate:
    return Candidate(
        title=name,
        kind="config",
        is_safe=True,
        targets=(),
        change=RunChange(settings=(Setting(name=name, value=True),), setup=("import a",)),
    )


@pytest.mark.parametrize("on_disk", [None, b"changed = 1\n"])
def test_edits_are_put_together_as_they_were_read(tmp_path, on_disk):
    path, other = tmp_path / "model.py", tmp_path / "other.py"
    if on_disk is not None:
        path.write_bytes(on_disk)
    program = Program({other: b"kept = 1\n"})
    found = with_fixes(program, (edit(path, 2), setting("x"), edit(path, 7), setting("y")))
    assert found.content == {
        other: b"kept = 1\n",
        path: BASE.replace(b"= 2\n", b"= 2 * 2\n").replace(b"= 7\n", b"= 7 * 2\n"),
    }
    assert found.change.config == {"x": True, "y": True}
    assert found.change.lines == ("import a",)


def test_an_edit_on_top_of_another_stands_for_both(tmp_path):
    path = tmp_path / "model.py"
    first = with_fixes(Program(), (edit(path, 2),))
    second = with_fixes(first, (edit(path, 2, 3, base=first.content[path]),))
    assert second.content[path].splitlines()[1:3] == [b"a2 = 2 * 2 * 2", b"a3 = 3 * 2"]


def test_first_of_overlapping_edits_is_kept_per_file(tmp_path):
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    proposals = [edit(one, 2, 3), setting("x"), edit(one, 3), edit(other, 3), edit(one, 8)]
    assert compatible(proposals) == [*proposals[:2], *proposals[3:]]

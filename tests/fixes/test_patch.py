"""Edits put together, followed and shown; git and patch themselves apply the diffs where they are
installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoctor.facts.run import Setting
from graphdoctor.fixes.patch import (
    Candidate,
    FileChange,
    LineMap,
    compatible,
    merged,
    unified,
    unified_bytes,
    with_fixes,
)
from graphdoctor.trials.program import Program, RunChange
from tests.each import for_each

BASE = b"""\
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        print(1)
        print(2)
        y = x + 1
        print(y)
        return y
"""


def edited(*changes: tuple[bytes, bytes], base: bytes = BASE) -> bytes:
    for old, new in changes:
        assert base.count(old) == 1
        base = base.replace(old, new)
    return base


IMPORT = (b"import nn\n", b"import nn\nimport torch\n")
FIRST = (b"        print(1)\n", b"        if no:\n            print(1)\n")
SECOND = (b"        print(2)\n", b"        if no:\n            print(2)\n")
THIRD = (b"        print(y)\n", b"        if no:\n            print(y)\n")

lines = st.lists(
    st.sampled_from(
        [b"\n", b"x\n", b"y\r\n", b"    z\r", b"print(x)\n", b"\x0c\x1cw\n", "\u2028é\n".encode()]
    ),
    max_size=12,
).flatmap(
    lambda lines: st.sampled_from([b"", b"x", b"\xff"]).map(lambda last: b"".join(lines) + last)
)


def beside(*texts: str) -> list[bytes]:
    """Edits that add lines above the sum."""
    return [edited((b"        y = ", f"        {text}\n        y = ".encode())) for text in texts]


OTHER, NONE = edited((b"        print(1)\n", b"")), edited((b"        print(2)\n", b""))
TWO_FUNCTIONS = b"a = 1\n\n\ndef f():\n    pass\n\n\ndef g():\n    pass\n"
EARLY = TWO_FUNCTIONS.replace(b"def g", b"def h():\n    pass\n\n\ndef g")
ENDS = b"a\r\nb\x0c\x1cB\rc\nd"
MERGED: dict[str, tuple[bytes, list[bytes]]] = {
    "different lines": (BASE, [edited(FIRST), edited(THIRD)]),
    "lines in parallel, in any order": (BASE, [edited(SECOND), edited(FIRST)]),
    "the same added import": (BASE, [edited(IMPORT, FIRST), edited(IMPORT, SECOND), edited(IMPORT, THIRD)]),
    "two edits of one line": (BASE, [edited(FIRST), OTHER, edited(THIRD)]),
    "two edits of one line, the other way": (BASE, [OTHER, edited(FIRST)]),
    "an edit that is left out leaves none of its lines": (
        BASE, [edited((b"y = x + 1", b"y = x + 2")), edited(IMPORT, (b"y = x + 1", b"y = x + 3"))]
    ),
    "different lines added at one place": (BASE, beside("a = 1", "b = 1")),
    "a line added below a replaced one": (BASE, [*beside("a = 1"), edited(SECOND)]),
    "a line added above a replaced one": (BASE, [*beside("a = 1"), edited((b"x + 1", b"x - 1"))]),
    "what would no longer be Python": (
        b"if a:\n    f()\n    g()\n", [b"if a:\n    g()\n", b"if a:\n    f()\n", b"if a:\n    f(\n    g()\n"]
    ),
    "texts that are no Python": (b"( a\n( b\n", [b"( c\n( b\n", b"( a\n( d\n"]),
    "an edit that changes nothing": (BASE, [BASE, edited(FIRST)]),
    "no edit": (BASE, []),
    "an added block is one change wherever the diff puts it": (
        TWO_FUNCTIONS,
        [EARLY, EARLY.replace(b"a = 1", b"a = 2"), EARLY.replace(b"g():\n    pass", b"g():\n    return")],
    ),
    "newlines of all kinds": (ENDS, [ENDS.replace(b"a", b"A"), ENDS.replace(b"c", b"C"), ENDS.replace(b"d", b"D")]),
    "what ends no line": (b"b\x0cB\n", [b"b\x0cC\n", b"c\x0cB\n"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MERGED)
def test_edits_go_together_or_the_first_is_in(snapshot, name):
    content, taken = merged(*MERGED[name])
    assert [str(taken), *map(repr, content.split(b"\n"))] == snapshot


FOLLOWED = {
    "edits": (BASE, edited(IMPORT, SECOND)),
    "a removed line": (BASE, NONE),
    "lines above the first": (b"a\n", b"x\ny\na\n"),
    "lines of an empty file": (b"", b"x\n"),
    "several lines in the place of several": (b"a\nb\nc\nd\n", b"a\nx\ny\nz\nd\n"),
}


def test_lines_are_followed_back_through_an_edit(snapshot):
    followed = {}
    for name, (before, after) in FOLLOWED.items():
        lines = LineMap(before, after)
        followed[name] = [
            f"{line}: was {lines.to_before(line)}, changed {lines.is_changed_after(line)}, {lines.range_start(line)}"
            for line in range(1, after.count(b"\n") + 3)
        ]
    assert followed == snapshot


def test_a_diff_names_the_file_and_shows_three_lines_around(snapshot):
    base = BASE + BASE.replace(b"1", b"3").replace(b"2", b"4")
    assert (
        unified(base, base.replace(*IMPORT, 1).replace(b"print(4)", b"pass"), "pkg/model.py")
        == snapshot
    )


@given(lines, lines, lines)
@settings(max_examples=100)
def test_edit_is_accepted_unchanged_and_applied_once(base, version, other):
    if merged(base, [version])[1]:
        assert merged(base, [version]) == (version, (0,))
        assert merged(base, [version, version]) == (version, (0, 1))
    content, taken = merged(base, [version, other])
    if taken == (0, 1):
        assert merged(base, [other, version]) == (content, (0, 1))


@given(lines, lines)
@settings(max_examples=100)
def test_an_unchanged_line_is_followed_to_the_same_text(before, after):
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    line_map = LineMap(before, after)
    kept = [line for line in range(1, len(new) + 1) if not line_map.is_changed_after(line)]
    assert [old[line_map.to_before(line) - 1] for line in kept] == [new[line - 1] for line in kept]
    followed = [line_map.to_before(line) for line in kept]
    assert followed == [
        line for line in range(1, len(old) + 1) if line_map.range_start(line) is None
    ]
    assert all(1 <= line_map.to_before(line) <= max(len(old), 1) for line in range(1, len(new) + 1))


def test_a_diff_is_read_in_the_encoding_of_the_file():
    base = "# -*- coding: latin-1 -*-\nname = 'é'\n".encode("latin-1")
    assert "-name = 'é'\n" in unified(base, base.replace(b"name", b"title"), "é.py")
    assert "b/é.py" in unified(base, base.replace(b"name", b"title"), "é.py")
    marked = b"\xef\xbb\xbfa = '\xc3\xa9'\n"
    assert unified(marked, marked[3:], "m.py").encode() == unified_bytes(marked, marked[3:], "m.py")


@for_each("first", [b"# coding: nonsense\n", b"# coding: ascii\n", b""])
def test_file_with_a_wrong_encoding_is_still_shown(first):
    base = first + b"name = '\xff'\n"
    shown = unified(base, base.replace(b"name", b"title"), "m.py")
    assert "+title = '\udcff'\n" in shown
    assert shown.encode("utf-8", "surrogateescape") == unified_bytes(
        base, base.replace(b"name", b"title"), "m.py"
    )


PAIRS = {
    "a change": (BASE, edited(FIRST)),
    "several": (BASE * 5, edited(IMPORT, FIRST) + BASE * 2 + edited(THIRD) + BASE),
    "CRLF": (BASE.replace(b"\n", b"\r\n"), edited(FIRST, THIRD).replace(b"\n", b"\r\n")),
    "mixed newlines": (b"a\r\nb\nc\rd\r\ne\n", b"a\r\nb\nC\rd\r\nf\n"),
    "form feeds": (b"a\n\x0c\nb\x1cc\n", b"a\n\x0c\nB\x1cc\n"),
    "no newline before": (b"a\nb", b"a\nb\n"),
    "no newline after": (b"a\nb\n", b"a\nb"),
    "no newline at all": (b"a\nb", b"c\nb"),
    "no newline, last line changed": (b"a\nb", b"a\nc"),
    "latin-1": (b"# coding: latin-1\na = '\xe9'\n", b"# coding: latin-1\nb = '\xe9'\n"),
    "empty before": (b"", b"a\nb\n"),
    "first line removed": (b"a\nb\nc\n", b"b\nc\n"),
    "a line added in front": (BASE, b"import torch\n" + BASE),
    "a line added behind": (BASE, BASE + b"x\n"),
}
NAMES = [
    "m.py",
    "pkg/m.py",
    "a folder/my model.py",
    "tab\there.py",
    'quo"te.py',
    "é.py",
    "back\\slash.py",
    "bell\x07.py",
]


def applied(command: list[str], tmp_path: Path, before: bytes, name: str, diff: bytes) -> bytes:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]} here")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(before)
    done = subprocess.run(
        command, cwd=tmp_path, input=diff, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return path.read_bytes()


@pytest.mark.parametrize(
    "command", [["git", "apply"], ["patch", "-p1"]], ids=lambda command: command[0]
)
class TestApplying:
    @pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
    def test_git_and_patch_take_a_diff(self, command, pair, tmp_path):
        before, after = pair
        assert (
            applied(command, tmp_path, before, "m.py", unified_bytes(before, after, "m.py"))
            == after
        )

    @pytest.mark.parametrize("name", NAMES)
    def test_git_and_patch_take_its_name(self, command, name, tmp_path):
        after = edited(IMPORT, THIRD)
        assert applied(command, tmp_path, BASE, name, unified_bytes(BASE, after, name)) == after

    def test_git_and_patch_take_several_files_in_one(self, command, tmp_path):
        (tmp_path / "other.py").write_bytes(BASE)
        diff = unified_bytes(BASE, edited(FIRST), "m.py") + unified_bytes(
            BASE, edited(THIRD), "other.py"
        )
        assert applied(command, tmp_path, BASE, "m.py", diff) == edited(FIRST)
        assert (tmp_path / "other.py").read_bytes() == edited(THIRD)


NUMBERS = b"".join(b"a%d = %d\n" % (number, number) for number in range(1, 10))


def doubling(path: Path, *lines: int, base: bytes = NUMBERS) -> Candidate:
    """An edit that doubles what lines assign."""
    texts = base.splitlines(keepends=True)
    for line in lines:
        texts[line - 1] = texts[line - 1].replace(b"\n", b" * 2\n")
    edits = (FileChange(path, base, b"".join(texts)),)
    return Candidate(f"Double {lines}", "code", is_safe=True, edits=edits)


def setting(name: str) -> Candidate:
    change = RunChange(settings=(Setting(name=name, value=True),), setup=("import a",))
    return Candidate(name, "config", is_safe=True, change=change)


def test_fixes_of_a_program_are_put_together(tmp_path):
    path, other = tmp_path / "model.py", tmp_path / "other.py"
    fixes = (doubling(path, 2), setting("x"), doubling(path, 7), setting("y"))
    program = with_fixes(Program({other: b"kept = 1\n"}), fixes)
    content = NUMBERS.replace(b"= 2\n", b"= 2 * 2\n").replace(b"= 7\n", b"= 7 * 2\n")
    assert program.content == {other: b"kept = 1\n", path: content}
    assert program.change.config == {"x": True, "y": True}
    assert program.change.lines == ("import a",)
    # An edit on top of another stands for both.
    program = with_fixes(program, (doubling(path, 2, 3, base=content),))
    assert program.content[path].splitlines()[1:3] == [b"a2 = 2 * 2 * 2", b"a3 = 3 * 2"]


def test_first_of_overlapping_edits_is_kept_per_file(tmp_path):
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    proposals = [
        doubling(one, 2, 3), setting("x"), doubling(one, 3), doubling(other, 3), doubling(one, 8)
    ]  # fmt: skip
    assert compatible(proposals) == [*proposals[:2], *proposals[3:]]

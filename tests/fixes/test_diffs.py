"""Diffs that people and programs write: where their hunks go, and why one can't be tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.fixes.diffs import DiffError, changes_of
from graphdoctor.fixes.patch import unified

MODEL = """import torch


def f(x):
    y = x * 2
    print(y)
    return y


def g(x):
    y = x * 2
    print(y)
    return y
"""


def apply(diff: str, tmp_path: Path, *, text: str | bytes = MODEL, name: str = "model.py") -> bytes:
    """Return the new content of a diff's only file."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    [change] = changes_of(diff, tmp_path, Path.read_bytes)
    assert (change.path, change.before) == (path, path.read_bytes())
    return change.after


def diff_of(
    *lines: str, head: str = "@@ -5,3 +5,2 @@", old: str = "a/model.py", new: str = "b/model.py"
) -> str:
    """A diff of one hunk."""
    return "\n".join([f"--- {old}", f"+++ {new}", head, *lines, ""])


DROPPED = (" def f(x):", "     y = x * 2", "-    print(y)", "     return y")
WITHOUT = MODEL.replace("    print(y)\n", "", 1).encode()


@pytest.mark.parametrize(
    "head",
    ["@@ -4,4 +4,3 @@", "@@ -40,9 +99,1 @@ def f(x):", "@@ -1 +1 @@", "@@ ... @@", "@@ def f(x):"],
)
def test_a_hunk_goes_where_its_lines_are(tmp_path, head):
    assert apply(diff_of(*DROPPED, head=head), tmp_path) == WITHOUT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("model.py", "model.py"),
        ("a/model.py\t2026-01-01 00:00:00", "b/model.py\t2026-01-02 00:00:00"),
        ('"a/model.py"', '"b/model.py"'),
    ],
)
def test_names_may_be_written_in_several_ways(tmp_path, old, new):
    assert apply(diff_of(*DROPPED, old=old, new=new), tmp_path) == WITHOUT


def test_a_folder_that_is_called_a_is_one(tmp_path):
    diff = diff_of(*DROPPED, old="a/model.py", new="a/model.py")
    path = tmp_path / "a" / "model.py"
    assert apply(diff, tmp_path, name="a/model.py") == WITHOUT
    path.unlink()


def test_what_stands_around_a_diff_is_no_part_of_it(tmp_path):
    for before, after in (
        ("Here it is:\n```diff\n", "```\nIt drops the print.\n"),
        ("From 1234 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] Drop it\n---\n model.py | 1 -\n\ndiff --git a/m b/m\n",
         "-- \n2.39.2\n\n"),
    ):  # fmt: skip
        assert apply(before + diff_of(*DROPPED) + after, tmp_path) == WITHOUT


def test_of_equal_lines_those_nearest_to_the_header_are_meant(tmp_path):
    lines = ("     y = x * 2", "-    print(y)", "     return y")
    second = MODEL.replace("    print(y)\n", "", 2).replace(
        "    y = x * 2\n", "    y = x * 2\n    print(y)\n", 1
    )
    assert apply(diff_of(*lines, head="@@ -11,3 +11,2 @@"), tmp_path) == second.encode()
    with pytest.raises(DiffError, match="fits in 2 places"):
        apply(diff_of(*lines, head="@@ ... @@"), tmp_path)


def test_the_file_keeps_its_newlines_its_encoding_and_its_end(tmp_path):
    lines = ("-# ä", "+# äö")
    diff = diff_of(*lines, head="@@ -2 +2 @@")
    assert apply(diff, tmp_path, text="# coding: latin-1\r\n# ä\r\n".encode("latin-1")) == (
        "# coding: latin-1\r\n# äö\r\n".encode("latin-1")
    )
    with pytest.raises(DiffError, match="encoded in iso-8859-1, which can't encode the edit"):
        apply(diff_of("-# ä", "+# €"), tmp_path, text="# coding: latin-1\n# ä\n".encode("latin-1"))
    added = diff_of(" x = 1", "+y = 2", head="@@ -1 +1,2 @@")
    assert apply(added, tmp_path, text=b"x = 1") == b"x = 1\ny = 2\n"


def test_spaces_at_the_ends_of_lines_decide_nothing(tmp_path):
    text = "x = 1  \n\ny = 2\n"
    assert (
        apply(diff_of(" x = 1", "", "-y = 2", "+y = 3"), tmp_path, text=text)
        == b"x = 1  \n\ny = 3\n"
    )


@pytest.mark.parametrize(
    ("diff", "reason"),
    [
        ("I'd remove the print.", "it holds no diff"),
        ("--- a/model.py\n+++ b/model.py\n", "it holds no diff"),
        ("", "it holds no diff"),
        (diff_of(*DROPPED, old="/dev/null"), "it adds a file"),
        (diff_of(*DROPPED, new="/dev/null"), "it deletes a file"),
        ("rename from model.py\nrename to other.py\n", "it renames a file"),
        (
            "diff --git a/x b/x\nBinary files a/x and b/x differ\n",
            "it changes a file that isn't text",
        ),
        (diff_of(*DROPPED, old="a/other.py", new="b/other.py"), "there is no file other.py"),
        (
            diff_of("-    print(z)", "+    pass"),
            "of model.py doesn't fit: line 5 is `y = x * 2`, not `print(z)`",
        ),
        (
            diff_of(" import torch", "-import os"),
            "hunk 1 of model.py doesn't fit: line 2 is ``, not `import os`",
        ),
        (
            diff_of(*(f" {line}" for line in MODEL.splitlines()), " more"),
            "the file ends before it does",
        ),
        (
            diff_of(" def f(x):", "-    y = x * 2", "+    y = ("),
            "model.py isn't Python with it: '(' was never closed",
        ),
        (diff_of(" def f(x):", "     y = x * 2"), "it changes nothing"),
        (
            diff_of("+x = 1", head="@@ f @@"),
            "hunk 1 of model.py says neither where it goes nor what is there",
        ),
        ("x" * 1_000_001, "it is longer than 1,000,000 characters"),
    ],
)
def test_why_a_diff_is_refused(tmp_path, diff, reason):
    with pytest.raises(DiffError) as raised:
        apply(diff, tmp_path)
    assert reason in raised.value.reason


def test_only_python_is_tried(tmp_path):
    with pytest.raises(DiffError, match=r"notes.txt isn't a Python file"):
        apply(
            diff_of("-a", "+b", old="a/notes.txt", new="b/notes.txt"),
            tmp_path,
            text="a\n",
            name="notes.txt",
        )


LINES = st.lists(st.sampled_from(["x = 1", "y = 2", "", "z = [1]", "# é", "    "]), max_size=12)


@given(before=LINES, after=LINES, newline=st.sampled_from(["\n", "\r\n"]))
def test_what_difflib_writes_is_read_back(tmp_path_factory, before, after, newline):
    texts = ["".join(line + newline for line in lines).encode() for lines in (before, after)]
    if texts[0] == texts[1] or not texts[0] or not texts[1]:
        return
    try:
        for text in texts:
            compile(text, "model.py", "exec")
    except SyntaxError:
        return
    diff = unified(*texts, "model.py")
    folder = tmp_path_factory.mktemp("diff")
    assert apply(diff, folder, text=texts[0]) == texts[1]

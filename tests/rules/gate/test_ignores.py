"""Ignore comments and path patterns: which findings they cover, and which of them cover none."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.gate.ignores import (
    PathIgnore,
    comments_in,
    ignored_by,
    read_comments,
    unused_ignores,
)
from tests.each import for_each
from tests.rules.gate.diagnoses import with_prints

LINE_FIVE = "\n" * 4


def only(text):
    (comment,) = comments_in(text)
    return comment


@for_each(
    "comment, codes, reason",
    [
        ("# graphdoctor: ignore", None, None),
        ("#graphdoctor:ignore", None, None),
        ("# graphdoctor: ignore once an epoch", None, "once an epoch"),
        ("# graphdoctor: ignore[GD101] why", ("GD101",), "why"),
        ("# graphdoctor: ignore[gd101, GD2 GD101]: why", ("GD101", "GD2"), "why"),
        ("# noqa: E501  # graphdoctor: ignore[GD1] see #12  # type: ignore", ("GD1",), "see #12"),
        ("# Graphdoctor: Ignore [GD1]", ("GD1",), None),
    ],
)
def test_a_comment_is_read_as_people_write_it(comment, codes, reason):
    found = only(f"x = 1  {comment}\n")
    assert (found.codes, found.reason, found.line, found.why_void) == (codes, reason, 1, None)


@for_each(
    "comment, why",
    [
        ("# graphdoctor: ignore[GD101 why", "isn't closed"),
        ("# graphdoctor: ignore[] why", "empty"),
        ("# graphdoctor: ignore[E501]", "no rule code starts with E501"),
    ],
)
def test_ineffective_comment_ignores_nothing_and_says_why(comment, why):
    text = f"{LINE_FIVE}x = 1  {comment}\n"
    assert why in (only(text).why_void or "")
    diagnosis = with_prints((5, "a"))
    comments = read_comments({"model.py": text})
    assert (
        ignored_by(diagnosis.findings[0], comments=comments, paths=(), selection=Selection())
        is None
    )
    (unused,) = unused_ignores([(comments, diagnosis.findings)], (), pyproject="p")
    assert why in (unused.why or "")


def test_a_string_is_no_comment():
    assert comments_in('x = "# graphdoctor: ignore"\ny = """\n# graphdoctor: ignore\n"""\n') == ()


def test_a_comment_covers_the_lines_above_that_can_have_none():
    text = 'a = 1\nb = f("""\n{x}\n""", 1)  # graphdoctor: ignore\nc = 1 + \\\n    2  # graphdoctor: ignore\n'
    assert [(comment.first_line, comment.line) for comment in comments_in(text)] == [(2, 4), (5, 6)]
    assert [
        (found.first_line, found.line)
        for found in comments_in("f(\n  a,\n  b)  # graphdoctor: ignore\n")
    ] == [(3, 3)]


def test_unparsable_file_gives_what_precedes_the_error():
    assert [found.line for found in comments_in("x  # graphdoctor: ignore\ny = (\n")] == [1]


@settings(max_examples=200)
@given(st.text(alphabet="#gG[]:,\n\\\"' \tx1(){}é", max_size=40), st.text(max_size=30))
def test_no_text_makes_the_reader_fail_or_ignore_other_lines(before, reason):
    text = f"{before}# graphdoctor: ignore{reason}"
    lines = text.count("\n") + text.count("\r") + 1
    for found in comments_in(text):
        assert 1 <= found.first_line <= found.line <= lines


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(["GD1", "GD101", "GD2", "GD301"]), min_size=1, max_size=4),
    st.text(st.characters(categories=["L", "N"], include_characters=" ,.!"), max_size=30),
)
def test_codes_and_reason_come_back(codes, reason):
    found = only(f"x = 1  # graphdoctor: ignore[{','.join(codes)}] {reason}\n")
    assert found.codes == tuple(dict.fromkeys(codes))
    assert (found.reason or "") == reason.strip().lstrip(":- ").strip()


@for_each(
    "pattern, path, covers",
    [
        ("model.py", "a/b/model.py", True),
        ("*.py", "a/model.py", True),
        ("a/*.py", "a/b/model.py", False),
        ("a/**", "a/b/model.py", True),
        ("a/**/*.py", "a/model.py", True),
        ("a/", "a/b/model.py", True),
        ("./a/model.py", "a/model.py", True),
        ("b/model.py", "a/b/model.py", False),
        ("m?del.py", "model.py", True),
        ("mod[e]l.py", "model.py", False),
        ("a", "a/model.py", False),
    ],
)
def test_a_pattern_covers_paths_as_people_expect(pattern, path, covers):
    assert PathIgnore(pattern, ("GD1",)).covers(path) is covers


def test_ignores_apply_by_comment_then_path_then_setting():
    (finding,) = with_prints((5, "a")).findings
    comments = read_comments(
        {"model.py": f"{LINE_FIVE}print()  # graphdoctor: ignore[GD1] on purpose\n"}
    )
    paths, selection = (PathIgnore("*.py", ("GD101",)),), Selection(ignore=("GD1",))

    def by(comments, paths, selection):
        found = ignored_by(finding, comments=comments, paths=paths, selection=selection)
        return None if found is None else (found.by, found.reason)

    assert by(comments, paths, selection) == ("comment", "on purpose")
    assert by({}, paths, selection) == ("path", None)
    assert by({}, (), selection) == ("setting", None)
    assert by({}, (), Selection()) is None
    other = read_comments({"model.py": "print()  # graphdoctor: ignore\n"})
    assert by(other, (PathIgnore("*.py", ("GD2",)),), Selection()) is None


def test_unused_ignores_are_reported_with_remaining_codes():
    findings = with_prints((1, "a")).findings
    comments = read_comments(
        {
            "model.py": "a  # graphdoctor: ignore[GD101,GD2]\nb  # graphdoctor: ignore\n",
            "other.py": "c  # graphdoctor: ignore[GD101]\n",
        }
    )
    paths = (PathIgnore("model.py", ("GD101", "GD3")), PathIgnore("elsewhere/**", ("GD1",)))
    found = unused_ignores([(comments, findings)], paths, pyproject="pyproject.toml")
    assert [(ignore.file, ignore.line, ignore.codes) for ignore in found] == [
        ("model.py", 1, ("GD2",)),
        ("model.py", 2, ()),
        ("other.py", 1, ("GD101",)),
        ("pyproject.toml", None, ("GD3",)),
    ]

"""The tokenizer of guard texts: nothing is lost, nothing raises, long texts are no trouble."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.trace.guards import text as tokens
from graphdoctor.trace.guards.text import (
    Call,
    Comparison,
    is_source,
    read_call,
    read_comparison,
    split_list,
    take_apart,
    tokenize,
)
from tests.each import for_each

TEXTS = st.one_of(st.text(), st.text(alphabet="'\"\\\n#()[]{}, =<>!isnot_a1."))


@given(TEXTS)
def test_the_tokens_are_the_text(text: str) -> None:
    found = list(tokenize(text))
    assert "".join(token.text for token in found) == text
    assert [token.start for token in found] == [sum(len(each.text) for each in found[:at]) for at in range(len(found))]
    assert all(token.text and token.depth >= 0 for token in found)


@given(TEXTS)
def test_no_question_raises(text: str) -> None:
    is_source(text)
    split_list(text)
    read_comparison(text)
    read_call(f"f({text}")


VALUES = st.one_of(st.text(), st.integers(), st.tuples(st.text(), st.binary()), st.dictionaries(st.text(), st.text()))


@given(st.lists(VALUES))
def test_what_python_prints_is_cut_as_python_reads_it(values: list[object]) -> None:
    printed = ", ".join(map(repr, values))
    assert split_list(f"[{printed}]") == [repr(value) for value in values]
    assert read_call(f"f({printed}), rest") == Call("f", tuple(map(repr, values)), ", rest")
    assert read_comparison(f"L['x'] == [{printed}]") == Comparison("L['x']", "==", f"[{printed}]")


ADVERSE = [
    "'",
    '"',
    "\\'",
    "'\"",
    "(",
    ")",
    "# ",
    "a ",
    " is ",
    "\\",
    "'\\\\",
    "'\n",
    "\"'\n\\",
    ":1 in f (",
    " (HINT: ",
]


@pytest.mark.slow
@pytest.mark.parametrize("piece", ADVERSE)
def test_a_long_text_is_read_in_linear_time(piece: str) -> None:
    # Quadratic work on it would take minutes.
    text = piece * 30_000
    assert sum(len(token.text) for token in tokenize(text)) == len(text)
    read_comparison(text)
    take_apart(text)


@for_each(
    "text, expected",
    [
        ("x == 1", Comparison("x", "==", "1")),
        ("x is not None", Comparison("x", "is not", "None")),
        ("x is nothing", Comparison("x", "is", "nothing")),
        ("2 <= x.size()[0] <= 10", Comparison("2", "<=", "x.size()[0] <= 10")),
        ("d[' == '] == f(a < b)", Comparison("d[' == ']", "==", "f(a < b)")),
        ("f(a == b)", None),
        ("___check_type_id(x, 1), type=<class 'a.B'>", None),
        ("x ==", None),
        ("this is", None),
    ],
)
def test_the_first_comparison_outside_brackets(text: str, expected: Comparison | None) -> None:
    assert read_comparison(text) == expected


@for_each(
    "text, expected",
    [
        ("L['x'].size()[0]", True),
        ("list(dict.keys(L['d']))[0]", True),
        ("L['a b']", True),
        ("2", False),
        ("x.size()[0] % 2", False),
        ("x.size()[0]*2", False),
        ("'text'", False),
    ],
)
def test_a_source_is_one_value(text: str, *, expected: bool) -> None:
    assert is_source(text) is expected


def test_a_comment_is_one_token() -> None:
    (*_, last) = tokenize("x == 'a # b'  # it's  # f.py:1 in f")
    assert (last.kind, last.text) == ("comment", "# it's  # f.py:1 in f")
    assert tokens.is_source("x#1") is False

"""One guard's text to its tokens, its pieces and what it expects: nothing is lost, and nothing
raises."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.trace.guards.forms import changes_of, meaning_of
from graphdoctor.trace.guards.text import (
    Comparison,
    is_source,
    read_comparison,
    take_apart,
    tokenize,
)
from tests.each import for_each


def test_each_guard_that_torch_prints_reads_as_it_should(snapshot):
    texts = (Path(__file__).parent / "printed.txt").read_text().strip().split("\n\n")
    told = []
    for text in texts:
        guard = take_apart(text)
        changes = (
            {name: value for name, value in vars(change).items() if value}
            for change in changes_of(guard)
        )
        form = meaning_of(guard)
        meaning = f"Meaning(kind={form.kind!r}, source={form.source!r}, expected={form.expected!r})"
        told += [text, str(guard), meaning, *map(str, changes), ""]
    assert "\n".join(told) == snapshot


@for_each(
    "expression",
    [
        "L['name'] == 'a # b'",
        "L['name'] == 'a  # b.py:3 in f'",
        "L['name'] == \"it's # 1\"",
        "L['name'] == 'it\\'s # 1'",
        "L['names'] == ['a # b', {'c  # d': (1, 2)}]",
        "L['name'] == 'x (HINT: y)'",
        "L['m'] == <Mode.A: '#  # '>",
    ],
)
@for_each("tail", ["", "  # f('# ')  # a.py:3 in f", "  # a.py:3 in f (HINT: why)", " (HINT: why)"])
def test_a_string_of_the_guard_is_no_comment(expression, tail):
    guard = take_apart(expression + tail)
    assert guard.expression == expression
    assert (guard.place is not None) == ("a.py" in tail)
    assert guard.hint == ("why" if "HINT" in tail else None)


@given(st.lists(st.sampled_from([*"'\"# \\\n(a.", "(HINT: ", "# ", "  # ", "L['x']"])).map("".join))
def test_a_comment_or_hint_begins_outside_strings(text):
    body = f"x{text}".strip()
    ends = [
        token.start
        for token in tokenize(body)
        if token.kind == "comment"
        or (token.text == "(" and body.startswith("(HINT: ", token.start))
    ]
    assert take_apart(body).expression == body[: min(ends, default=len(body))].strip()


_PIECES = st.sampled_from(
    [
        "L['x']",
        "check_tensor(",
        "___check_obj_id(",
        ")",
        "(",
        "'",
        '"',
        " == ",
        "  # ",
        ":3 in f",
        "[",
        "]",
        ", ",
        "is ",
        "not ",
        "HINT: ",
        "size=[4, ",
        "EQUALS_MATCH: ",
        "\n",
        "\\",
        "list(",
        "hasattr(",
        "___check_global_state() against {",
    ]
)


@given(st.one_of(st.text(), st.lists(_PIECES | st.text(max_size=3)).map("".join)))
def test_no_text_raises_and_none_is_lost(text):
    guard = take_apart(text)
    assert guard.expression in text
    expected = meaning_of(guard).expected
    assert expected is None or len(expected) <= 120
    assert all(change.expression is not None for change in changes_of(guard))


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
def test_the_first_comparison_outside_brackets(text, expected):
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
def test_a_source_is_one_value(text, *, expected):
    assert is_source(text) is expected

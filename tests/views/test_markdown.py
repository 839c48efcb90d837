"""The gate's answer and a comparison as a comment on a pull request."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from graphdoctor.facts.check import CheckReport, Ignored
from graphdoctor.facts.fixes import Fix
from graphdoctor.views.check import check_view
from graphdoctor.views.markdown_text import (
    MAX_CHARACTERS,
    code,
    html_code,
    one_line,
    plain,
    render_view_markdown,
    sentence,
)
from tests.each import for_each
from tests.views.check_reports import finding, report, target

READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
HOSTILE = (
    "a|b `c` <img src=x> @someone #12 **b** [l](http://x) ~~s~~ $x$ :100: \\| www.x.org\n# h\n- i"
)


def flat(tokens: list[Token]) -> list[Token]:
    return [token for found in tokens for token in (found, *flat(found.children or []))]


def shown(markdown: str) -> str:
    """What a person reads of one line, less the empty characters; nothing but text and code may be
    in it."""
    tokens = flat(READER.parse(f"x {markdown} y"))
    kinds = {token.type for token in tokens} - {
        "paragraph_open", "paragraph_close", "inline", "text", "text_special", "code_inline", "html_inline",
    }  # fmt: skip
    assert not kinds, kinds
    assert {token.content for token in tokens if token.type == "html_inline"} <= {
        "<code>",
        "</code>",
    }
    parts = [
        token.content for token in tokens if token.type in ("text", "text_special", "code_inline")
    ]
    return "".join(parts).replace("\u200b", "").removeprefix("x ").removesuffix(" y").strip()


def cells(table: str) -> list[list[str]]:
    tokens = READER.parse(table)
    rows: list[list[str]] = []
    for at, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        if token.type in ("td_open", "th_open"):
            rows[-1].append(
                "".join(t.content for t in tokens[at + 1].children or [] if t.type != "html_inline")
            )
    return rows


def check_markdown(answer: CheckReport) -> str:
    return render_view_markdown(check_view(answer))


def hostile_report(count: int = 1) -> CheckReport:
    found = finding(message=HOSTILE, fixes=(Fix(title=HOSTILE, kind="code"),)).replace(
        location=finding().location.replace(file=HOSTILE, function=HOSTILE)
    )
    ignored = Ignored(finding=found, by="comment", reason=HOSTILE)
    return report(
        *[target(HOSTILE, state="failed", new=(found,), ignored=(ignored,)) for _ in range(count)]
    )


def test_hostile_text_stays_in_its_cell_and_mentions_nobody():
    text = check_markdown(hostile_report())
    (table,) = [block for block in text.split("\n\n") if block.startswith("| target")]
    assert [len(row) for row in cells(table)] == [8, 8]
    assert cells(table)[1][0] == one_line(HOSTILE, 200)
    # Bare, outside code, none of these is left.
    bare = re.sub(r"`[^`]*`|<code>.*?</code>", "", text)
    assert not re.search(r"@\w|(?<!&)#\d|<img|(?<!\\)\[l|https?://|www\.|:100:", bare)
    assert "\n# h" not in text


@pytest.mark.slow
def test_comment_fits_githubs_limit_and_reports_cuts():
    ((hostile,),) = (each.new for each in hostile_report().targets)
    many = tuple(hostile.replace(fingerprint=str(number), reasons=()) for number in range(900))
    for answer in (hostile_report(400), report(target(state="failed", new=many))):
        text = check_markdown(answer)
        assert 0.9 * MAX_CHARACTERS < len(text) <= MAX_CHARACTERS
        assert text.count("<details>") == text.count("</details>")
        assert re.search(r"_\d+ more \w.*, left out to keep the comment short enough\._", text)


TEXT = st.text(st.characters() | st.sampled_from("`|\\*_[]()<>&@#:~$!1.- \n"))


@given(TEXT)
def test_code_is_read_as_it_is(text):
    assert shown(code(text)) == one_line(text, 200)
    assert shown(html_code(text)) == one_line(text, 200)


@given(TEXT)
@example("0 `")
def test_a_sentence_is_read_as_it_is(text):
    # Spaces beside a backtick are at an end once it is left out.
    assert (
        shown(sentence(text)).replace("`", "").strip()
        == one_line(text, 300).replace("`", "").strip()
    )


@for_each("text", ["@a", "#1", "GH-1", "https://x", "www.x", ":100:", "a@b.c"])
def test_nothing_is_linked(text):
    assert "&#8203;" in plain(text)


@for_each(
    "text, expected",
    [
        ("`print(x)` has a side effect", "`print(x)` has a side effect"),
        (
            '`print(f"`{x}`")` has a side effect',
            '<code>print(f"&#96;{x}&#96;")</code> has a side effect',
        ),
        ("`a` and `b`, not `c`.", "`a` and `b`, not `c`."),
        ("`x`'s size (`x.shape[0]`)", "`x`'s size (`x.shape[0]`)"),
        ("a lone ` stays", r"a lone \` stays"),
    ],
)
def test_code_with_backticks_is_one_piece_of_code(text, expected):
    assert sentence(text) == expected

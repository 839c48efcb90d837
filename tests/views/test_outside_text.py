"""Text from outside, such as paths, source lines and torch's messages, never controls a terminal in
any format."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.api.report import Report
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.picture import Picture
from graphdoctor.facts.profile import ProfileResult
from graphdoctor.studies.bundle.bundle import issue_text
from graphdoctor.studies.bundle.script import Script
from graphdoctor.views.formats import CHECK
from graphdoctor.views.json import KINDS
from graphdoctor.views.printable import printable, printable_lines
from graphdoctor.wording import without_middle
from tests.each import for_each
from tests.views.hostile import CODE_POINTS, EVIL, FORGED, spoiled, spoiled_result
from tests.views.html.test_page_safety import decoded
from tests.views.test_formats import DOCUMENTS, rendered

SURROGATES = tuple(range(0xD800, 0xE000))
SCRIPT = re.compile(r"<script>.*?</script>", re.DOTALL)
FORBIDDEN = frozenset(map(chr, (*CODE_POINTS, *SURROGATES)))
MODELS = {
    name.split()[0].replace("-", "_").upper(): model
    for model, name in KINDS.items()
    if model is not Diagnosis
}


@cache
def hostile_content(name: str, variant: int, evil: str = EVIL) -> Any:
    if name not in MODELS:
        return spoiled_result(variant, evil=evil)
    found = spoiled(MODELS[name], variant, evil=evil)
    return (
        ProfileResult(found, spoiled(Picture, variant, evil=evil)) if name == "PROFILE" else found
    )


SAME = ("RECOMPILES", "VARIATIONS", "GUARDS", "FIXES")
"""Views of a diagnosis: only their text and Markdown are their own."""
# The rules' documentation is our own.
FORMATS = [
    (name, each)
    for name, document in DOCUMENTS.items()
    for each in document.formats
    if name != "RULES"
    and not each.is_binary
    and (name not in SAME or each.name in ("text", "markdown"))
]
ON_A_TERMINAL = [(name, each) for name, each in FORMATS if each.is_text]
LONG = "ab c" * 15_000


def test_a_character_that_controls_is_replaced() -> None:
    found = {
        printable(f"a{chr(code_point)}b") for code_point in (*CODE_POINTS, 0xD800, 0xDC9D, 0xDFFF)
    }
    assert found == {"a�b"}


def test_other_text_stays_as_it_is() -> None:
    text = "tab\there, naïve Größe 長い עברית العربية 🎉 a\u0301 \u00a0 \u200c\u200d"
    assert printable(text) == text
    assert printable_lines(f"{text}\r\n{text}\n") == f"{text}\n{text}\n"


def test_newline_begins_no_second_line() -> None:
    assert printable("one.py\nGD101 forged\r\n") == "one.py↵GD101 forged"


@given(st.text(st.characters() | st.sampled_from(sorted(FORBIDDEN))))
def test_what_is_printable_can_be_printed(text: str) -> None:
    safe = printable(text)
    assert not FORBIDDEN & set(safe)
    assert printable(safe) == safe
    assert {unicodedata.category(character) for character in safe} & {"Cc", "Cs"} <= {"Cc"}
    assert {character for character in safe if unicodedata.category(character) == "Cc"} <= {"\t"}
    safe.encode()
    lines = printable_lines(text)
    assert not FORBIDDEN & set(lines)
    assert printable_lines(lines) == lines


@pytest.mark.slow
@for_each("variant", range(4))
def test_no_format_lets_a_control_character_through(variant: int) -> None:
    wrong = []
    for name, each in FORMATS:
        if each.is_text or (each.name == "svg" and variant):
            continue  # the next test reads text, of which a picture is made
        text = rendered(hostile_content(name, variant), each)
        # A page's own scripts are ours.
        found = FORBIDDEN & set(SCRIPT.sub("", decoded(text)))
        wrong += [(name, each.name, hex(ord(one)), text[: text.index(one)][-60:]) for one in found][
            :3
        ]
        wrong += (
            [] if "�" in text or "\\u009d" in text else [(name, each.name, "nothing replaced", "")]
        )
    assert wrong == []


@pytest.mark.slow
@for_each("width, is_verbose", [(40, True), (80, False)])
def test_no_name_begins_a_line_on_the_terminal(width: int, is_verbose: bool) -> None:
    wrong = []
    for name, each in ON_A_TERMINAL:
        for variant in range(4):
            text = rendered(
                hostile_content(name, variant), each, is_verbose=is_verbose, width=width
            )
            assert not FORBIDDEN & set(text), (name, variant)
            # Headings of findings are at the margin; what has several lines, such as torch's own
            # message, is indented.
            wrong += [
                (name, variant, line) for line in text.splitlines() if line.startswith(FORGED)
            ]
            wrong += (
                [] if "[bold]" in "".join(text.split()) else [(name, variant, "markup was obeyed")]
            )
    assert wrong == []


@pytest.mark.slow
@for_each("is_verbose", [False, True])
def test_long_value_is_cut_on_terminals_with_a_notice(is_verbose: bool) -> None:
    wrong = []
    for name, each in ON_A_TERMINAL:
        text = rendered(hostile_content(name, 1, LONG), each, is_verbose=is_verbose, width=80)
        # Less than two of the hundred values: of code, as much as can be pasted is whole.
        if len(text) >= 2 * len(LONG) or not re.search(
            r"… 59,\d\d\d\s+characters\s+left\s+out\s+…", text
        ):
            wrong.append((name, len(text)))
    assert wrong == []


def test_a_text_that_is_too_long_keeps_its_ends() -> None:
    for text, most in (("a" * 100, 100), ("a" * 100, 60), ("", 1)):
        assert without_middle(text, most) == text
    assert without_middle("a" * 1000 + "z" * 1000, 8) == "aaaaaa … 1,992 characters left out … zz"


@for_each("variant", range(4))
def test_no_name_begins_an_annotation(variant: int) -> None:
    text = rendered(hostile_content("CHECK", variant), CHECK.named("github"))
    assert {line[:2] for line in text.splitlines()} == {"::"}
    titles = [line.split("title=")[1].split("::")[0] for line in text.splitlines()]
    assert any(FORGED in title for title in titles)
    assert not any("%0A" in title for title in titles)


@for_each("variant", range(4))
def test_a_report_of_the_api_lets_none_through_as_text(variant: int) -> None:
    report = object.__new__(Report)
    report._diagnosis = spoiled_result(variant).diagnosis
    for text in (str(report), repr(report)):
        assert "�" in text
        assert not FORBIDDEN & set(text)


@for_each("variant", range(4))
def test_an_issue_lets_none_through_and_mentions_nobody(variant: int) -> None:
    diagnosis = spoiled_result(variant).diagnosis
    mention = diagnosis.findings[0].replace(message="ask @torch about #1")
    diagnosis = diagnosis.replace(findings=(mention, *diagnosis.findings))
    text = issue_text(diagnosis, Script(None, reason="the calls are unknown"), None)
    assert "�" in text
    assert not FORBIDDEN & set(text)
    assert "@torch" not in text
    assert "#1" not in text


def test_json_keeps_every_character() -> None:
    documents = {
        name: rendered(hostile_content(name, 0), each)
        for name, each in FORMATS
        if each.name == "json"
    }
    assert [name for name, text in documents.items() if EVIL not in strings(json.loads(text))] == []


def strings(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {value for each in value.items() for value in strings(list(each))}
    if isinstance(value, list):
        return {found for each in value for found in strings(each)}
    return {value} if isinstance(value, str) else set()

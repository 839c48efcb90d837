"""What holds for every recipe on any program: it parses afterwards, nothing of a person's is lost,
no is a no."""

from __future__ import annotations

import ast
import codecs
import io
import re
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import libcst as cst
import pytest
from hypothesis import HealthCheck, currently_in_test_context, given, note, settings
from hypothesis import strategies as st

from graphdoctor.fixes.moves.registry import RECIPES
from graphdoctor.fixes.recipe import Edit, Place, Recipe
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile
from tests.each import for_each
from tests.fixes.recipes.places import cases, finding, place_of
from tests.fixes.recipes.programs import programs

PATH = Path("model.py")
WRONG_PLACES_COUNT = 4
EDITS_COUNT = 3
"""Edits looked at in one program."""
EXAMPLES_COUNT = max(10, min(100, 320 // len(RECIPES)))

Columns = tuple[int, int | None] | None

quick = settings(
    max_examples=EXAMPLES_COUNT,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)

CASES = [(recipe, path) for recipe in RECIPES for path in cases(recipe.name)]
# What torch says in the cases is what recipes look for.
_REASONS = (reason for _, path in CASES for reason in place_of(path).finding.reasons)
contexts = st.sampled_from(
    sorted({"", "step", "self.step", "x", "WORD\nmore", *(it.context or "" for it in _REASONS)})
)


def columns_of(source: SourceFile, node: cst.CSTNode) -> Columns:
    """Return the columns that torch would give for an expression."""
    place = source.position(node)
    return (
        place.start.column + 1,
        place.end.column + 1 if place.start.line == place.end.line else None,
    )


def likely_places(source: SourceFile) -> list[tuple[int, Columns]]:
    """Each statement's line alone, and with the expression that torch would point to."""
    places: list[tuple[int, Columns]] = []
    for node in source._positions:
        line = source.position(node).start.line
        if isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            places.append((line, None))
        pointed = (
            getattr(node, "value", None)
            or getattr(node, "test", None)
            or getattr(node, "func", None)
        )
        if isinstance(pointed, cst.BaseExpression):
            places.append((source.position(pointed).start.line, columns_of(source, pointed)))
        if isinstance(node, cst.Call):
            places.append((line, columns_of(source, node)))
    return places


@st.composite
def any_place(draw: st.DrawFn, source: SourceFile) -> tuple[int, Columns]:
    """A place that may be wrong."""
    line = draw(st.integers(0, source.content.count(b"\n") + 2))
    return line, draw(st.none() | st.tuples(st.integers(1, 30), st.none() | st.integers(1, 40)))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
@quick
@given(content=programs(), data=st.data())
def test_an_edit_loses_nothing_and_declining_does_nothing(recipe, content, data):
    note(content.decode("latin-1"))
    source, fresh = SourceFile.parse(PATH, content), SourceFile.parse(PATH, content)
    code = data.draw(st.sampled_from(sorted(recipe.codes)))
    context = data.draw(contexts)
    places = likely_places(source)
    first = data.draw(st.integers(0, len(places) - 1))
    wrong = data.draw(st.lists(any_place(source), max_size=WRONG_PLACES_COUNT))
    edited_count = 0
    for line, columns in [*wrong, *places[first:], *places[:first]]:
        generated = finding(code, line, columns, context=context)
        edited_count += check(recipe, Place(source, generated), Place(fresh, generated))
        if edited_count == EDITS_COUNT:
            break
    assert source.content == content
    assert source.edited(source.tree) == content


def check(recipe: Recipe, place: Place, same: Place) -> bool:
    """Check an edit or a refusal; return True for an edit."""
    edit = outcome(recipe, place)
    if isinstance(edit, str):
        assert edit == edit.strip()
        assert edit
        assert not edit.endswith(".")
    elif isinstance(edit, Edit):
        if currently_in_test_context():
            note(f"{recipe.name} at {place.finding.location}:\n{edit.content.decode('latin-1')}")
        assert edit == outcome(recipe, same) == outcome(recipe, place), (
            "what was tried before must not matter"
        )
        check_edit(place.source.content, edit)
    return isinstance(edit, Edit)


def outcome(recipe: Recipe, place: Place) -> Edit | str | None:
    """The edit, or the reason why there is none; None where the file's encoding lacks a letter."""
    try:
        return recipe.edit(place)
    except DeclinedError as declined:
        return declined.reason
    except UnicodeEncodeError:
        assert not place.source.tree.encoding.startswith("utf-8")
        return None


def check_edit(before: bytes, edit: Edit) -> None:
    assert edit.title
    assert edit.title == edit.title.strip()
    assert not edit.title.endswith(".")
    assert "\n" not in edit.title
    after = edit.content
    assert after != before
    assert ast.dump(parsed(after)) != ast.dump(parsed(before)), (
        "an edit that changes nothing but the looks"
    )
    SourceFile.parse(PATH, after)
    assert coding(after) == coding(before)
    assert after.startswith(codecs.BOM_UTF8) == before.startswith(codecs.BOM_UTF8)
    assert newlines(after) <= newlines(before) or not newlines(before)
    for comment in comments(before) - comments(after):
        assert statements_with(before, comment) - statements(after), (
            f"{comment} is lost, and its statement is not"
        )


def parsed(content: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(content)


def coding(content: bytes) -> tuple[str, list[bytes]]:
    """The encoding, and the lines that may name it where they do."""
    encoding, lines = tokenize.detect_encoding(
        io.BytesIO(content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")).readline
    )
    return encoding, [line for line in lines if b"coding" in line]


def newlines(content: bytes) -> set[bytes]:
    return set(re.findall(rb"\r\n|\r|\n", content))


def comments(content: bytes) -> Counter[str]:
    """Every comment and how often it stands there."""
    text = content.decode(coding(content)[0]).replace("\r\n", "\n").replace("\r", "\n")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return Counter(token.string.rstrip() for token in tokens if token.type == tokenize.COMMENT)


def lines_of(content: bytes) -> list[str]:
    return re.split(r"\r\n|\r|\n", content.decode(coding(content)[0]))


def statements(content: bytes) -> Counter[str]:
    """Each line's code, without indentation and comment."""
    return Counter(line.partition("#")[0].strip() for line in lines_of(content))


def statements_with(content: bytes, comment: str) -> Counter[str]:
    """The code that a comment stands beside, or above: it may go with that code and no other
    way."""
    lines = lines_of(content)
    counted: Counter[str] = Counter()
    for number, line in enumerate(lines):
        if comment in line:
            code = (rest.partition("#")[0].strip() for rest in lines[number:])
            text = next((text for text in code if text), "")
            counted[text] = statements(content)[text]
    return counted


def with_tabs(content: bytes) -> bytes:
    return re.sub(
        rb"^(?: {4})+", lambda indent: b"\t" * (len(indent[0]) // 4), content, flags=re.MULTILINE
    )


RESPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda content: content.replace(b"\n", b"\r\n"),
    "mark": lambda content: codecs.BOM_UTF8 + content,
    "no last newline": lambda content: content.rstrip(b"\n"),
    "tabs": with_tabs,
}


@pytest.mark.slow
@for_each("respell", RESPELLINGS.values())
@for_each("recipe, path", CASES)
def test_a_case_in_another_spelling_is_mended_too(recipe, path, respell):
    place = place_of(path)
    respelled, content = place.finding, respell(place.source.content)
    if respell is with_tabs and respelled.location.column is not None:
        line = content.split(b"\n")[respelled.location.line - 1]
        moved = 3 * (len(line) - len(line.lstrip(b"\t")))
        end = respelled.location.end_column
        columns = (respelled.location.column - moved, None if end is None else end - moved)
        said = respelled.reasons[0].context
        respelled = finding(respelled.code, respelled.location.line, columns, context=said)
    # What equaled a number is known of the file.
    sizes = {(str(PATH), *rest): equal for (_, *rest), equal in place.equal_sizes.items()}
    check_edit(content, recipe.edit(Place(SourceFile.parse(PATH, content), respelled, sizes)))


@pytest.mark.slow
@settings(quick, max_examples=60)
@given(programs())
def test_any_program_is_read_and_written_back_as_it_is(content):
    parsed(content)
    source = SourceFile.parse(PATH, content)
    assert source.edited(source.tree) == content
    assert source.replaced() == content


@pytest.mark.slow
@settings(quick, max_examples=40)
@given(programs())
def test_an_added_import_is_all_that_an_added_import_changes(content):
    after = SourceFile.parse(PATH, content).replaced(imports=("zlib",))
    assert [ast.dump(line) for line in parsed(after).body if "zlib" not in ast.dump(line)] == [
        ast.dump(line) for line in parsed(content).body
    ]
    assert SourceFile.parse(PATH, after).imports("zlib")
    assert comments(after) == comments(content)
    assert coding(after) == coding(content)
    assert ast.get_docstring(parsed(after)) == ast.get_docstring(parsed(content))
    lines = parsed(after).body
    added = next(line.lineno for line in lines if "zlib" in ast.dump(line))
    assert all(
        line.lineno <= added
        for line in lines
        if isinstance(line, ast.ImportFrom) and line.module == "__future__"
    )


@pytest.mark.slow
@settings(quick, max_examples=40)
@given(programs())
def test_every_expression_is_found_at_its_place(content):
    source = SourceFile.parse(PATH, content)
    for node in [node for node in source._positions if isinstance(node, cst.BaseExpression)][:60]:
        place = source.position(node)
        is_on_line = place.start.line == place.end.line
        innermost = source.expression_at(
            place.start.line, place.start.column + 1, place.end.column + 1 if is_on_line else None
        )
        assert innermost is not None
        assert source.position(innermost).start == place.start
        assert source.statement_at(place.start.line) is not None

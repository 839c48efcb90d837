"""What recipes make of small programs, and why they leave others as they are; a file of ``edits``
for each recipe.

A program stands below the code of its finding, and what torch said, what changed or what a number
equaled (``equal: x = y``), as in a case's first line. ``«`` and ``»`` are around the expression
that torch points to, ``«`` alone where it ends on a later line, and ``«»`` begins the line where
torch gives no columns. ``␍`` is a carriage return, ``␃`` the end of a file without a last newline.
Below ``=>`` lies what came of it; ``--snapshot-update`` writes that.
"""

from __future__ import annotations

import ast
import difflib
import re
from pathlib import Path

import pytest

from graphdoctor.facts.stack import StackEntry
from graphdoctor.fixes.moves.registry import RECIPES
from graphdoctor.fixes.recipe import Place, Recipe
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile
from tests.fixes.recipes.places import placed

EDITS = Path(__file__).with_name("edits")
_CASE = re.compile(
    r"^(?P<head>GD\d+.*)\n(?P<program>(?:.*\n)+?)=>.*\n(?:[-+@ ].*\n)*", re.MULTILINE
)


def place_at(head: str, marked: str) -> Place:
    """The place that marks in a program show."""
    text = marked.replace("␍", "\r").removesuffix("␃\n")
    before, _, behind = text.partition("«")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    expression, end, _ = behind.partition("»")
    columns = (column, column + len(expression) if end else None) if expression else None
    text = text.replace("«", "").replace("»", "")
    return placed(head, SourceFile.parse(Path("model.py"), text.encode()), line, columns)


def outcome(recipe: Recipe, place: Place) -> str:
    """Return why a recipe declines, or the title of its edit, whether that is safe, and the
    difference.
    """
    try:
        edit = recipe.edit(place)
    except DeclinedError as declined:
        return f"declined: {declined.reason}\n"
    ast.parse(edit.content)
    before, after = (
        text.decode().replace("\r", "␍").split("\n")
        for text in (place.source.content, edit.content)
    )
    traits = (
        f"{'safe' if edit.is_safe else 'unsafe'}{', drops output' if edit.drops_output else ''}"
    )
    _, _, *lines = difflib.unified_diff(before, after, n=1, lineterm="")
    return "".join(f"{line}\n" for line in (f"{traits}: {edit.title}", *lines))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_small_programs_are_edited_or_left(recipe, request):
    path = EDITS / f"{recipe.name}.txt"

    def tried(case: re.Match[str]) -> str:
        head, program = case["head"], case["program"]
        return f"{head}\n{program}=> {outcome(recipe, place_at(head, program))}"

    expected = path.read_text(encoding="utf-8")
    updated, count = _CASE.subn(tried, expected)
    assert count == expected.count("\n=>") > 0
    if request.config.option.update_snapshots:
        path.write_text(updated, encoding="utf-8")
        expected = updated
    assert updated.splitlines() == expected.splitlines()


def test_functions_on_the_way_are_those_of_the_file_below_the_project(tmp_path):
    place = place_at("GD101", "def f(x):\n    return g(x)\n\ndef g(x):\n    «log(x)»\n")
    file = str(tmp_path / "model.py")
    lines = [("other.py", 1), (file, 2), (file, 5)]
    stack = tuple(
        StackEntry(file=name, line=line, function="f", origin="user") for name, line in lines
    )
    source = SourceFile.parse(Path(file), place.source.content)
    moved = Place(source, place.finding.replace(user_stack=stack))
    assert [function.name.value for function in moved.path_here] == ["f", "g"]

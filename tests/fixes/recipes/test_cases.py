"""Each recipe's programs: the edit is the text beside it, the break is really there before and gone after it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.fixes.recipe import Recipe
from graphdoctor.fixes.recipes import RECIPES
from tests.conftest import clean_environment
from tests.fixes.recipes.places import cases, place_of

PAIRS = [
    pytest.param(recipe, path, id=f"{recipe.name}-{path.stem}") for recipe in RECIPES for path in cases(recipe.name)
]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_recipe_has_a_case(recipe: Recipe) -> None:
    assert cases(recipe.name)


@pytest.mark.parametrize(("recipe", "path"), PAIRS)
def test_a_recipe_writes_what_a_person_would(recipe: Recipe, path: Path) -> None:
    edit = recipe.edit(place_of(path))
    assert edit.content.decode() == path.with_suffix(".fixed.py").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "path"), PAIRS)
def test_the_break_is_there_before_and_gone_or_smaller_after(
    recipe: Recipe, path: Path, explain_json: Callable[..., dict[str, Any]]
) -> None:
    place = place_of(path).finding
    options = ["--no-coverage"] if recipe.removes else []
    before = explain_json(path, *options)
    columns = (place.location.column, place.location.end_column)
    found = [finding for finding in before["findings"] if finding["code"] == place.code]
    assert (place.location.line, columns) in [
        (f["location"]["line"], (f["location"]["column"], f["location"]["end_column"])) for f in found
    ]
    after = explain_json(path.with_suffix(".fixed.py"), *options)
    if recipe.removes:
        assert place.code not in {finding["code"] for finding in after["findings"]}
    else:
        assert after["summary"]["coverage"] > before["summary"]["coverage"]


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "path"), PAIRS)
def test_eager_mode_computes_the_same_outputs_gradients_and_state(recipe: Recipe, path: Path) -> None:
    script = Path(__file__).with_name("same_in_eager.py")
    process = subprocess.run(
        [sys.executable, script, path, path.with_suffix(".fixed.py")],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr

"""Each recipe's programs: the edit is the text beside it, the break is really there before and gone after it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.fixes.recipe import Recipe
from graphdoctor.fixes.recipes import RECIPES
from graphdoctor.fixes.source.tree import DeclinedError
from tests.conftest import clean_environment, run_command
from tests.fixes.recipes.places import cases, place_of

PAIRS = [
    pytest.param(recipe, path, id=f"{recipe.name}-{path.stem}") for recipe in RECIPES for path in cases(recipe.name)
]


CHANGES_GRADIENTS = "drop-item"
"""The recipe that lets gradients through a read that cut them; trials are there to tell."""

NEEDS_A_GPU = {"create-on-device"}
"""Recipes whose findings only a program on a GPU has; their edits and what they compute are tested on any machine."""

TORCH = tuple(map(int, version("torch").split(".")[:2]))
HAS_COLUMNS = TORCH > (2, 11)
"""2.11 tells the line of a break and no columns."""

OTHERWISE_ON_2_15 = {"hoist-read/random"}
OTHERWISE_ON_2_11 = {"hoist-read/unused", "iterable-to-list/iterator"}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_recipe_has_a_case(recipe: Recipe) -> None:
    assert cases(recipe.name)


@pytest.mark.parametrize(("recipe", "path"), PAIRS)
def test_a_recipe_writes_what_a_person_would(recipe: Recipe, path: Path) -> None:
    edit = recipe.edit(place_of(path))
    assert edit.content.decode() == path.with_suffix(".fixed.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(("recipe", "path"), PAIRS)
def test_a_recipe_that_knows_the_line_alone_writes_the_same_or_declines(recipe: Recipe, path: Path) -> None:
    place = place_of(path)
    location = place.finding.location.model_copy(update={"column": None, "end_column": None})
    line_alone = replace(place, finding=place.finding.model_copy(update={"location": location}))
    with contextlib.suppress(DeclinedError):
        wanted = path.with_suffix(".fixed.py").read_text(encoding="utf-8")
        assert recipe.edit(line_alone).content.decode() == wanted


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The findings in each program and each mended one, by path: all compiled in one process."""
    paths = [path for recipe in RECIPES if recipe.removes for path in cases(recipe.name)]
    both = [str(way) for path in paths for way in (path, path.with_suffix(".fixed.py"))]
    folder = tmp_path_factory.mktemp("found")
    script = Path(__file__).with_name("compile_all.py")
    done = run_command("run", "--quiet", "--report", "found.json", script, *both, cwd=folder)
    assert done.returncode == 0, done.stderr
    findings: dict[str, list[dict[str, Any]]] = {path: [] for path in both}
    for finding in json.loads((folder / "found.json").read_text())["findings"]:
        findings.setdefault(finding["location"]["file"], []).append(finding)
    return findings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "path"),
    [pair for pair in PAIRS if pair.values[0].removes and pair.values[0].name not in NEEDS_A_GPU],
)
def test_the_finding_is_there_before_and_gone_after(
    recipe: Recipe, path: Path, found: dict[str, list[dict[str, Any]]]
) -> None:
    if not HAS_COLUMNS and f"{recipe.name}/{path.stem}" in OTHERWISE_ON_2_11:
        pytest.skip("2.11 raises an error of its own, or names the break by another rule")
    if TORCH > (2, 13) and f"{recipe.name}/{path.stem}" in OTHERWISE_ON_2_15:
        pytest.skip("2.15 breaks at the expression around it, by another rule")
    location = place_of(path).finding.location
    code = place_of(path).finding.code
    places = [
        (one["location"]["line"], one["location"]["column"], one["location"]["end_column"])
        for one in found[str(path)]
        if one["code"] == code
    ]
    columns = (location.column, location.end_column) if HAS_COLUMNS else (None, None)
    assert (location.line, *columns) in places
    assert code not in {one["code"] for one in found[str(path.with_suffix(".fixed.py"))]}


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "path"), [pair for pair in PAIRS if not pair.values[0].removes])
def test_less_runs_eagerly_where_a_break_stays(
    recipe: Recipe, path: Path, explain_json: Callable[..., dict[str, Any]]
) -> None:
    before, after = explain_json(path), explain_json(path.with_suffix(".fixed.py"))
    assert place_of(path).finding.code in {finding["code"] for finding in before["findings"]}
    assert after["summary"]["coverage"] > before["summary"]["coverage"]


@pytest.fixture(scope="session")
def eager_differences() -> dict[str, str | None]:
    """What differs in eager mode between each program and the mended one, by path."""
    script = Path(__file__).with_name("same_in_eager.py")
    paths = [str(path) for recipe in RECIPES for path in cases(recipe.name)]
    process = subprocess.run(
        [sys.executable, script, *paths], env=clean_environment(), capture_output=True, text=True, check=True
    )
    differences: dict[str, str | None] = json.loads(process.stdout)
    return differences


@pytest.mark.slow
@pytest.mark.parametrize(("recipe", "path"), [pair for pair in PAIRS if pair.values[0].name != CHANGES_GRADIENTS])
def test_eager_mode_computes_the_same_outputs_gradients_and_state(
    recipe: Recipe, path: Path, eager_differences: dict[str, str | None]
) -> None:
    assert eager_differences[str(path)] is None

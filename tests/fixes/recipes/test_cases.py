"""Each recipe's programs: the edit is as it was read, the break is really there before and gone
after it."""

from __future__ import annotations

import contextlib
import difflib
import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.fixes.moves.registry import RECIPES, recipes_for
from graphdoctor.fixes.recipe import Recipe
from graphdoctor.fixes.source.tree import DeclinedError
from graphdoctor.rules.catalog import RULES
from tests.conftest import clean_environment, run_command, run_script
from tests.fixes.recipes.places import CASES, cases, mended, place_of

Pairs = dict[str, tuple[Recipe, Path, Path]]
"""Recipe, program and mended program by a case's name."""

PAIRS = [(recipe, path) for recipe in RECIPES for path in cases(recipe.name)]

TORCH = tuple(map(int, version("torch").split(".")[:2]))
HAS_COLUMNS = TORCH > (2, 11)
"""2.11 tells the line of a break and no columns."""

OTHERWISE = {"hoist-read/random"} if TORCH > (2, 13) else set()
"""2.15 breaks at the expression around it, by another rule."""


def name_of(recipe: Recipe, path: Path) -> str:
    return f"{recipe.name}/{path.stem}"


def test_the_registry_and_the_cases_have_the_same_recipes():
    assert sorted(path.name for path in CASES.iterdir()) == sorted(
        recipe.name for recipe in RECIPES
    )
    codes = {rule.code for rule in RULES}
    for recipe in RECIPES:
        assert recipe.codes <= codes
        assert all(recipe in recipes_for(code) for code in recipe.codes)


@pytest.mark.slow
def test_a_recipe_writes_what_a_person_would(snapshot):
    edits = []
    for recipe, path in PAIRS:
        edit = recipe.edit(place_of(path))
        before, after = (text.decode().splitlines() for text in (path.read_bytes(), edit.content))
        traits = (
            f"{'safe' if edit.is_safe else 'unsafe'}{', drops output' if edit.drops_output else ''}"
        )
        lines = difflib.unified_diff(before, after, name_of(recipe, path), traits, "", "", 2, "")
        edits.append("\n".join([edit.title, *lines]))
    assert "\n\n".join(edits) == snapshot


@pytest.mark.slow
def test_line_only_recipe_writes_the_same_or_declines():
    wrong = []
    for recipe, path in PAIRS:
        place = place_of(path)
        location = place.finding.location.replace(column=None, end_column=None)
        line_alone = replace(place, finding=place.finding.replace(location=location))
        with contextlib.suppress(DeclinedError):
            if recipe.edit(line_alone).content != mended(recipe, path):
                wrong.append(name_of(recipe, path))
    assert wrong == []


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    """Each case's recipe, program and mended program, by name."""
    folder = tmp_path_factory.mktemp("mended")
    cases = {}
    for recipe, path in PAIRS:
        after = folder / f"{recipe.name}-{path.name}"
        after.write_bytes(mended(recipe, path))
        cases[name_of(recipe, path)] = recipe, path, after
    return cases


def found_in(pairs: Pairs, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Findings by file, of each program before and after, in one process."""
    both = [str(way) for _, *ways in pairs.values() for way in ways]
    script = Path(__file__).with_name("compile_all.py")
    run_command("run", "-q", "--report", "all.json", script, *both, cwd=folder, status=0)
    findings: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads((folder / "all.json").read_text())["findings"]:
        findings.setdefault(str(folder / finding["location"]["file"]), []).append(finding)
    return findings


@pytest.mark.slow
def test_the_finding_is_there_before_and_gone_after(pairs, tmp_path):
    findings = found_in(pairs, tmp_path)
    wrong = []
    for name, (_, before, after) in pairs.items():
        finding = place_of(before).finding
        location = finding.location
        there = [
            shown["location"]
            for shown in findings.get(str(before), ())
            if shown["code"] == finding.code
        ]
        places = [
            (location["line"], location["column"], location["end_column"]) for location in there
        ]
        columns = (location.column, location.end_column) if HAS_COLUMNS else (None, None)
        if (location.line, *columns) not in places:
            wrong.append(f"{name}: not there before")
        if finding.code in {shown["code"] for shown in findings.get(str(after), ())}:
            wrong.append(f"{name}: still there after")
    assert [line for line in wrong if line.partition(":")[0] not in OTHERWISE] == []


@pytest.mark.slow
def test_eager_mode_computes_the_same_outputs_gradients_and_state(pairs):
    script = Path(__file__).with_name("same_in_eager.py")
    both = [str(way) for _, *ways in pairs.values() for way in ways]
    process = run_script(script, *both, cwd=script.parent, env=clean_environment())
    differences: dict[str, str | None] = json.loads(process.stdout)
    wrong = {
        name: differences[str(path)]
        for name, (_, path, _) in pairs.items()
        if differences[str(path)]
    }
    assert wrong == {}

"""The registry of recipes: every recipe is in it once, under one name everywhere."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import pytest

from graphdoctor.fixes import recipes
from graphdoctor.fixes.recipe import Recipe
from graphdoctor.fixes.recipes import RECIPES, recipes_for
from graphdoctor.rules.catalog import RULES

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_module_class_and_name_are_the_same(recipe: Recipe) -> None:
    words = recipe.name.split("-")
    assert type(recipe).__module__ == f"{recipes.__name__}.{'_'.join(words)}"
    assert type(recipe).__name__ == "".join(map(str.capitalize, words))


def test_every_module_of_the_folder_holds_one_registered_recipe() -> None:
    modules = [module.name for module in pkgutil.iter_modules(recipes.__path__)]
    assert sorted(recipe.name.replace("-", "_") for recipe in RECIPES) == sorted(modules)


def test_every_folder_of_cases_belongs_to_a_recipe() -> None:
    assert sorted(path.name for path in CASES.iterdir()) == sorted(recipe.name for recipe in RECIPES)


def test_every_code_of_a_recipe_is_a_rule_and_finds_the_recipe() -> None:
    codes = {rule.code for rule in (*RULES.breaks, *RULES.recompiles, *RULES.recordings)}
    for recipe in RECIPES:
        assert recipe.codes <= codes
        assert all(recipe in recipes_for(code) for code in recipe.codes)

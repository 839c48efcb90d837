"""The recipes, in the order in which they are tried for a finding."""

from __future__ import annotations

from graphdoctor.fixes.recipe import Recipe
from graphdoctor.fixes.recipes.clone import Clone
from graphdoctor.fixes.recipes.guard_output import GuardOutput
from graphdoctor.fixes.recipes.hoist import Hoist
from graphdoctor.fixes.recipes.keep_tensor import DropItem, KeepTensor
from graphdoctor.fixes.recipes.mask import Mask
from graphdoctor.fixes.recipes.numpy_to_torch import NumpyToTorch
from graphdoctor.fixes.recipes.one_hot import OneHot

RECIPES: tuple[Recipe, ...] = (
    GuardOutput(),
    KeepTensor(),
    DropItem(),
    OneHot(),
    Mask(),
    Clone(),
    NumpyToTorch(),
    Hoist(),
)


def recipes_for(code: str) -> tuple[Recipe, ...]:
    """The recipes that may take away findings of a rule, best first."""
    return tuple(recipe for recipe in RECIPES if code in recipe.codes)

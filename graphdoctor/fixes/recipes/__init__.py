"""The recipes, in the order in which they are tried for a finding."""

from __future__ import annotations

from graphdoctor.fixes.recipe import Recipe
from graphdoctor.fixes.recipes.backward_out import BackwardOut
from graphdoctor.fixes.recipes.check import Check
from graphdoctor.fixes.recipes.clone import Clone
from graphdoctor.fixes.recipes.guard_output import GuardOutput
from graphdoctor.fixes.recipes.hoist import Hoist
from graphdoctor.fixes.recipes.iterable_to_list import IterableToList
from graphdoctor.fixes.recipes.keep_tensor import DropItem, KeepTensor
from graphdoctor.fixes.recipes.local_parameter import LocalParameter
from graphdoctor.fixes.recipes.mask import Mask
from graphdoctor.fixes.recipes.module_buffer import ModuleBuffer
from graphdoctor.fixes.recipes.narrow_lock import NarrowLock
from graphdoctor.fixes.recipes.no_grad import NoGrad
from graphdoctor.fixes.recipes.numpy_to_torch import NumpyToTorch
from graphdoctor.fixes.recipes.one_hot import OneHot
from graphdoctor.fixes.recipes.own_function import OwnFunction
from graphdoctor.fixes.recipes.remove_break import RemoveBreak
from graphdoctor.fixes.recipes.remove_disable import RemoveDisable
from graphdoctor.fixes.recipes.sort_in_graph import SortInGraph
from graphdoctor.fixes.recipes.where import Where

RECIPES: tuple[Recipe, ...] = (
    GuardOutput(),
    Where(),
    Check(),
    RemoveBreak(),
    RemoveDisable(),
    NoGrad(),
    KeepTensor(),
    DropItem(),
    Mask(),
    OneHot(),
    Clone(),
    NumpyToTorch(),
    Hoist(),
    BackwardOut(),
    IterableToList(),
    LocalParameter(),
    ModuleBuffer(),
    NarrowLock(),
    OwnFunction(),
    SortInGraph(),
)


def recipes_for(code: str) -> tuple[Recipe, ...]:
    """The recipes that may take away findings of a rule, best first."""
    return tuple(recipe for recipe in RECIPES if code in recipe.codes)

"""The registry of recipes, in the order in which they are tried for a finding."""

from __future__ import annotations

from graphdoctor.fixes.recipe import Recipe
from graphdoctor.fixes.recipes.backward_out_of_region import BackwardOutOfRegion
from graphdoctor.fixes.recipes.bincount_to_scatter import BincountToScatter
from graphdoctor.fixes.recipes.branch_where import BranchWhere
from graphdoctor.fixes.recipes.check_instead_of_raise import CheckInsteadOfRaise
from graphdoctor.fixes.recipes.choose_at_return import ChooseAtReturn
from graphdoctor.fixes.recipes.clone_instead_of_deepcopy import CloneInsteadOfDeepcopy
from graphdoctor.fixes.recipes.condition_without_read import ConditionWithoutRead
from graphdoctor.fixes.recipes.create_on_device import CreateOnDevice
from graphdoctor.fixes.recipes.drop_empty_check import DropEmptyCheck
from graphdoctor.fixes.recipes.drop_item import DropItem
from graphdoctor.fixes.recipes.guard_output import GuardOutput
from graphdoctor.fixes.recipes.guard_report import GuardReport
from graphdoctor.fixes.recipes.hoist_read import HoistRead
from graphdoctor.fixes.recipes.in_place_where import InPlaceWhere
from graphdoctor.fixes.recipes.iterable_to_list import IterableToList
from graphdoctor.fixes.recipes.keep_tensor import KeepTensor
from graphdoctor.fixes.recipes.list_argument import ListArgument
from graphdoctor.fixes.recipes.local_parameter_to_tensor import LocalParameterToTensor
from graphdoctor.fixes.recipes.mask_without_indexing import MaskWithoutIndexing
from graphdoctor.fixes.recipes.module_number_to_buffer import ModuleNumberToBuffer
from graphdoctor.fixes.recipes.narrow_lock import NarrowLock
from graphdoctor.fixes.recipes.no_grad_for_inference_mode import NoGradForInferenceMode
from graphdoctor.fixes.recipes.numpy_to_torch import NumpyToTorch
from graphdoctor.fixes.recipes.one_hot_classes import OneHotClasses
from graphdoctor.fixes.recipes.own_function import OwnFunction
from graphdoctor.fixes.recipes.record_outside import RecordOutside
from graphdoctor.fixes.recipes.remove_disable import RemoveDisable
from graphdoctor.fixes.recipes.remove_graph_break import RemoveGraphBreak
from graphdoctor.fixes.recipes.report_apart import ReportApart
from graphdoctor.fixes.recipes.sort_in_graph import SortInGraph
from graphdoctor.fixes.recipes.statistics_outside import StatisticsOutside
from graphdoctor.fixes.recipes.tuple_where import TupleWhere

_OF_ONE_PLACE: tuple[Recipe, ...] = (
    GuardOutput(),
    BranchWhere(),
    TupleWhere(),
    DropEmptyCheck(),
    InPlaceWhere(),
    ChooseAtReturn(),
    GuardReport(),
    CheckInsteadOfRaise(),
    RemoveGraphBreak(),
    RemoveDisable(),
    NoGradForInferenceMode(),
    KeepTensor(),
    DropItem(),
    MaskWithoutIndexing(),
    BincountToScatter(),
    OneHotClasses(),
    CloneInsteadOfDeepcopy(),
    NumpyToTorch(),
    HoistRead(),
    RecordOutside(),
    BackwardOutOfRegion(),
    IterableToList(),
    ListArgument(),
    LocalParameterToTensor(),
    ModuleNumberToBuffer(),
    NarrowLock(),
    OwnFunction(),
    SortInGraph(),
    StatisticsOutside(),
    CreateOnDevice(),
)

_BRANCHES = tuple(recipe for recipe in _OF_ONE_PLACE if "GD102" in recipe.codes and "GD103" not in recipe.codes)

_REPORT_APART = ReportApart(_BRANCHES)

RECIPES: tuple[Recipe, ...] = (*_OF_ONE_PLACE, _REPORT_APART, ConditionWithoutRead((*_BRANCHES, _REPORT_APART)))


def recipes_for(code: str) -> tuple[Recipe, ...]:
    """The recipes that may fix findings of a rule, best first."""
    return tuple(recipe for recipe in RECIPES if code in recipe.codes)

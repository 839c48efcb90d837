"""The registry of recipes, in the order in which they are tried for a finding."""

from __future__ import annotations

from graphdoctor.fixes.recipe import Recipe
from graphdoctor.fixes.recipes.choices import branch_where, choose_at_return, tuple_where
from graphdoctor.fixes.recipes.copies import clone_instead_of_deepcopy, create_on_device
from graphdoctor.fixes.recipes.guarded_lines import check_instead_of_raise, drop_empty_check, in_place_where
from graphdoctor.fixes.recipes.library_calls import bincount_to_scatter, numpy_to_torch, one_hot_classes, sort_in_graph
from graphdoctor.fixes.recipes.masks import mask_without_indexing
from graphdoctor.fixes.recipes.outlined import backward_out_of_region, narrow_lock, own_function, statistics_outside
from graphdoctor.fixes.recipes.output import (
    condition_without_read,
    guard_output,
    guard_report,
    hoist_read,
    report_apart,
)
from graphdoctor.fixes.recipes.record_outside import record_outside
from graphdoctor.fixes.recipes.removals import no_grad_for_inference_mode, remove_disable, remove_graph_break
from graphdoctor.fixes.recipes.scalar_reads import drop_item, keep_tensor
from graphdoctor.fixes.recipes.state import (
    iterable_to_list,
    list_argument,
    local_parameter_to_tensor,
    module_number_to_buffer,
)

_BRANCHES = (
    branch_where,
    tuple_where,
    drop_empty_check,
    in_place_where,
    choose_at_return,
    guard_report,
    check_instead_of_raise,
)
_REPORT_APART = report_apart(_BRANCHES)

RECIPES: tuple[Recipe, ...] = (
    guard_output,
    *_BRANCHES,
    remove_graph_break,
    remove_disable,
    no_grad_for_inference_mode,
    keep_tensor,
    drop_item,
    mask_without_indexing,
    bincount_to_scatter,
    one_hot_classes,
    clone_instead_of_deepcopy,
    numpy_to_torch,
    hoist_read,
    record_outside,
    backward_out_of_region,
    iterable_to_list,
    list_argument,
    local_parameter_to_tensor,
    module_number_to_buffer,
    narrow_lock,
    own_function,
    sort_in_graph,
    statistics_outside,
    create_on_device,
    _REPORT_APART,
    condition_without_read((*_BRANCHES, _REPORT_APART)),
)


def recipes_for(code: str) -> tuple[Recipe, ...]:
    """The recipes that may fix findings of a rule, best first."""
    return tuple(recipe for recipe in RECIPES if code in recipe.codes)

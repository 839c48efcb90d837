"""The registry of recipes, in the order in which they are tried for a finding."""

from __future__ import annotations

from graphdoctor.fixes.recipe import Recipe
from graphdoctor.fixes.recipes import (
    choices,
    copies,
    early_outs,
    guarded_lines,
    library_calls,
    masks,
    outlined,
    output,
    removals,
    scalar_reads,
    state,
)
from graphdoctor.fixes.recipes.hoisted import hoist_value
from graphdoctor.fixes.recipes.loop_outside import grad_outside, line_outside, loop_outside
from graphdoctor.fixes.recipes.record_outside import record_outside
from graphdoctor.fixes.recipes.traced_backward import trace_backward

_BRANCHES = (
    choices.branch_where,
    choices.tuple_where,
    guarded_lines.drop_empty_check,
    guarded_lines.in_place_where,
    choices.choose_at_return,
    output.guard_report,
    guarded_lines.check_instead_of_raise,
    early_outs.drop_early_out,
    early_outs.drop_shortcuts,
)
_REPORT_APART = output.report_apart(_BRANCHES)

RECIPES: tuple[Recipe, ...] = (
    output.guard_output,
    *_BRANCHES,
    removals.remove_graph_break,
    removals.remove_disable,
    removals.no_grad_for_inference_mode,
    scalar_reads.keep_tensor,
    scalar_reads.drop_item,
    scalar_reads.keep_number,
    scalar_reads.equal_number,
    masks.mask_without_indexing,
    library_calls.bincount_to_scatter,
    library_calls.repeat_to_known_size,
    library_calls.one_hot_classes,
    copies.clone_instead_of_deepcopy,
    library_calls.numpy_to_torch,
    output.without_progress_bar,
    output.hoist_read,
    record_outside,
    trace_backward,
    outlined.backward_out_of_region,
    grad_outside,
    state.iterable_to_list,
    state.list_argument,
    state.local_parameter_to_tensor,
    state.module_number_to_buffer,
    _REPORT_APART,
    output.condition_without_read((*_BRANCHES, _REPORT_APART)),
    hoist_value,
    loop_outside,
    outlined.narrow_lock,
    outlined.own_function,
    library_calls.sort_in_graph,
    outlined.statistics_outside,
    copies.create_on_device,
    line_outside,
)


def recipes_for(code: str) -> tuple[Recipe, ...]:
    """The recipes that may fix findings of a rule, best first."""
    return tuple(recipe for recipe in RECIPES if code in recipe.codes)

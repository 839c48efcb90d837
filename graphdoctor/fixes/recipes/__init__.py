"""The registry of recipes, in the order in which they are tried for a finding."""

from __future__ import annotations

from graphdoctor.fixes.moves import contain, dense, drop, operators, report, select, stay, vectorize
from graphdoctor.fixes.recipe import Recipe
from graphdoctor.fixes.recipes import removals, state

_BRANCHES = (drop.drop, select.select, drop.check_in_graph, removals.guard_report)
_REPORT_APART = removals.report_apart(_BRANCHES)

RECIPES: tuple[Recipe, ...] = (
    vectorize.vectorize,
    report.print_in_graph,
    report.report_in_operator,
    removals.guard_output,
    *_BRANCHES,
    removals.remove_graph_break,
    removals.remove_disable,
    removals.no_grad_for_inference_mode,
    stay.keep_number,
    stay.keep_tensor,
    dense.mask_without_indexing,
    dense.rows_without_indexing,
    dense.count_unique,
    dense.first_place,
    operators.bincount_to_scatter,
    operators.repeat_to_known_size,
    operators.one_hot_classes,
    operators.index_listed_tensor,
    removals.without_progress_bar,
    removals.hoist_read,
    contain.trace_backward,
    state.iterable_to_list,
    state.list_argument,
    state.local_parameter_to_tensor,
    state.module_number_to_buffer,
    _REPORT_APART,
    removals.condition_without_read((*_BRANCHES, _REPORT_APART)),
    removals.condition_without_read((select.select,), "read-after-choice"),
    contain.own_function,
)


def recipes_for(code: str) -> tuple[Recipe, ...]:
    """The recipes that may fix findings of a rule, best first."""
    return tuple(recipe for recipe in RECIPES if code in recipe.codes)

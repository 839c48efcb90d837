"""The registry of recipes, in the order in which they are tried for a finding."""

from __future__ import annotations

from graphdoctor.fixes.moves import (
    collect,
    copies,
    dense,
    drop,
    move,
    operators,
    report,
    rows,
    select,
    stay,
    vectorize,
)
from graphdoctor.fixes.recipe import Recipe

_BRANCHES = (drop.drop, select.select, drop.check_in_graph)
_REPORT_APART = move.report_apart(_BRANCHES)

RECIPES: tuple[Recipe, ...] = (
    vectorize.vectorize,
    collect.count_some_turns,
    report.print_in_graph,
    report.report_in_operator,
    move.guard_output,
    rows.all_rows,
    *_BRANCHES,
    drop.check_all_in_graph,
    move.remove_graph_break,
    move.remove_disable,
    rows.draw_for_all_rows,
    stay.keep_number,
    stay.keep_tensor,
    dense.mask_without_indexing,
    dense.rows_without_indexing,
    dense.first_place,
    operators.bincount_to_scatter,
    operators.repeat_to_known_size,
    operators.device_of_new_tensor,
    operators.index_listed_tensor,
    copies.clone_instead_of_deepcopy,
    move.hoist_read,
    operators.trace_backward,
    _REPORT_APART,
    move.report_apart((select.select,), "report-before-choice"),
    move.condition_without_read((*_BRANCHES, _REPORT_APART)),
    move.condition_without_read((select.select,), "read-after-choice"),
)


def recipes_for(code: str) -> tuple[Recipe, ...]:
    """The recipes that may fix findings of a rule, best first."""
    return tuple(recipe for recipe in RECIPES if code in recipe.codes)

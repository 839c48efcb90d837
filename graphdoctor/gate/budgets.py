"""Budgets: limits on what a run may count."""

from __future__ import annotations

from collections.abc import Mapping

from graphdoctor.model.check import Budget, BudgetName
from graphdoctor.model.diagnosis import Summary

Limits = Mapping[BudgetName, float]
"""The limits that are set."""


def budgets(limits: Limits, summary: Summary) -> tuple[Budget, ...]:
    """What was measured beside each limit.

    Everything counts, findings that are ignored or in the baseline too: a budget is on what torch did.

    Args:
        limits: The limits that are set.
        summary: The counts. A coverage that is not known keeps no budget.
    """
    values: dict[BudgetName, float | None] = {
        "max-breaks": summary.break_sites,
        "max-recompiles": summary.recompiles,
        "max-graphs": summary.graphs,
        "min-coverage": summary.coverage,
    }
    return tuple(_budget(name, limits[name], value) for name, value in values.items() if name in limits)


def _budget(name: BudgetName, limit: float, value: float | None) -> Budget:
    is_kept = value is not None and (value >= limit if name == "min-coverage" else value <= limit)
    return Budget(name=name, limit=limit, value=value, is_kept=is_kept)

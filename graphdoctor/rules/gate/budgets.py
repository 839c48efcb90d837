"""Budgets: limits on a run's counts. Comes in: limits and a summary. Goes out: a ``Budget`` for each limit.

Values are kept exact; how many digits to show is up to whoever shows them.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphdoctor.facts.check import Budget, BudgetName
from graphdoctor.facts.counts import Counts

Limits = Mapping[BudgetName, float]
"""The configured limits."""


def budgets(limits: Limits, summary: Counts) -> tuple[Budget, ...]:
    """Compare each limit with what was measured.

    Ignored findings and findings in the baseline count too: a budget limits what torch did.

    Args:
        limits: The configured limits.
        summary: The counts. Unknown coverage breaks its budget.
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

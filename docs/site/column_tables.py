"""The columns of a survey's table -> the tables of the columns page."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoctor.studies.survey.table import CAUSE_COLUMNS, COLUMNS, Column


def columns_table(of: str = "row") -> str:
    """Each column with its type, whether it can be null, and what it holds.

    Args:
        of: ``row``, or ``cause`` for the members of a cause.
    """
    columns: Sequence[Column] = {"row": COLUMNS, "cause": CAUSE_COLUMNS}[of]
    lines = ["| column | type | can be null | what it holds |", "|---|---|---|---|"]
    for column in columns:
        null = "yes" if column.is_nullable else ""
        lines.append(f"| `{column.name}` | `{column.type}` | {null} | {column.description} |")
    return "\n".join(lines)

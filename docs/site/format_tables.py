"""The registry of formats -> the table of the formats page."""

from __future__ import annotations

from typing import Any

from graphdoctor.studies.documents import JOB, SURVEY, SURVEY_COMPARISON
from graphdoctor.views.formats import (
    BENCH,
    CHECK,
    COMPARISON,
    DIAGNOSIS,
    FIXES,
    LINT,
    RECOMPILES,
    RULES,
    Document,
)

_DOCUMENTS: dict[str, Document[Any]] = {
    "explain, report": DIAGNOSIS,
    "report of several ranks": JOB,
    "recompiles, guards": RECOMPILES,
    "fix": FIXES,
    "diff": COMPARISON,
    "check": CHECK,
    "bench": BENCH,
    "survey": SURVEY,
    "diff of two surveys": SURVEY_COMPARISON,
    "lint": LINT,
    "rule": RULES,
}
"""What the commands write, by their names."""


def formats_table() -> str:
    """For each group of commands its formats, and the file endings that choose one."""
    lines = ["| command | `--format` | ending of the file |", "|---|---|---|"]
    for commands, document in _DOCUMENTS.items():
        shown = ", ".join(f"`{name}`" for name in commands.split(", "))
        for found in document.formats:
            endings = ", ".join(f"`{ending}`" for ending in found.endings)
            lines.append(f"| {shown} | `{found.name}` | {endings} |")
            shown = ""
    return "\n".join(lines)

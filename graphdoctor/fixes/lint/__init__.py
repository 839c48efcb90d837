"""Finds causes of graph breaks and recompiles from source alone, inside functions that torch
compiles.

Reports only what is certain. Never imports libcst, which would cost it its start-up.
"""

from __future__ import annotations

from graphdoctor.facts.check import LintReport
from graphdoctor.fixes.lint.run import RecordedNames, lint_files, python_files, recorded_in

__all__ = ["lint_files", "python_files", "LintReport", "RecordedNames", "recorded_in"]

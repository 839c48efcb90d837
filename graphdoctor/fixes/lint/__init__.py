"""Finds causes of graph breaks and recompiles from source alone, inside functions that torch compiles.

Reports only what is certain. May import ``model``, ``diagnosis``, ``rules``, ``errors`` and ``gate``; never
torch, rich or the command line.
"""

from __future__ import annotations

from graphdoctor.facts.lint import LintReport
from graphdoctor.fixes.lint.recorded import Recorded, recorded_in
from graphdoctor.fixes.lint.run import lint_files, python_files

__all__ = ["lint_files", "python_files", "LintReport", "Recorded", "recorded_in"]

"""The causes of breaks and recompiles that can be told from source, inside functions that torch compiles.

Conservative: what is not certain is not told. May import ``model``, ``rules``, ``errors`` and the gate's comments;
never torch, rich or the command line.
"""

from __future__ import annotations

from graphdoctor.lint.recorded import Recorded, recorded_in
from graphdoctor.lint.run import lint_files, python_files
from graphdoctor.model.lint import LintReport

__all__ = ["lint_files", "python_files", "LintReport", "Recorded", "recorded_in"]

"""Codes of rules, and what they begin with, that decide how a finding is treated."""

from __future__ import annotations

BREAK = "GD1"
"""What codes of graph breaks begin with."""

RECOMPILE = "GD2"
"""What codes of recompiles begin with."""

SKIPPED_FRAME = "GD111"
"""A function that torch skips because of a break in it; the break has its own finding."""

RECOMPILE_LIMIT = "GD201"
"""A function over its recompile limit; the values that changed have their own findings."""

SIZE_CHANGES = frozenset({"GD202", "GD206", "GD207"})
"""Recompiles because a size changed: dynamic shapes may help."""

CUDA_GRAPHS = "GD504"
"""Graphs that torch doesn't record as CUDA graphs."""

REPEATED_BLOCKS = "GD401"
"""Modules that repeat in one graph; about the time of compiling, which counts don't show."""

"""Codes of the rules, and what they begin with, that decide how a finding is treated."""

from __future__ import annotations

BREAK = "GD1"
"""Beginning of the codes of graph breaks."""

RECOMPILE = "GD2"
"""Beginning of the codes of recompiles."""

SKIPPED_FRAME = "GD111"
"""A function that a break in it makes torch skip; the break has a finding of its own."""

RECOMPILE_LIMIT = "GD201"
"""A function over its recompile limit; what changed has findings of its own."""

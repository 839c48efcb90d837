"""What breaks a graph or makes torch recompile, one file for each kind of cause.

A check looks at one node of a traced function and yields a ``Spot`` where torch 2.13 certainly breaks. ``tests/lint``
compiles a program for each.
"""

from __future__ import annotations

from graphdoctor.fixes.lint.checks.base import Check, Site, Spot
from graphdoctor.fixes.lint.checks.branches import branches
from graphdoctor.fixes.lint.checks.calls import calls
from graphdoctor.fixes.lint.checks.gradients import gradients
from graphdoctor.fixes.lint.checks.managers import managers
from graphdoctor.fixes.lint.checks.modules import modules
from graphdoctor.fixes.lint.checks.reads import reads
from graphdoctor.fixes.lint.checks.shapes import shapes

CHECKS: tuple[Check, ...] = (calls, branches, reads, shapes, managers, gradients, modules)
"""Every check."""

__all__ = ["CHECKS", "Check", "Site", "Spot"]

"""What breaks a graph or makes torch recompile, one file for each kind of cause.

A check looks at one node of a traced function and yields a ``Spot`` where torch 2.13 certainly breaks. ``tests/lint``
compiles a program for each.
"""

from __future__ import annotations

from graphdoctor.lint.checks.base import Check, Site, Spot
from graphdoctor.lint.checks.branches import branches
from graphdoctor.lint.checks.calls import calls
from graphdoctor.lint.checks.gradients import gradients
from graphdoctor.lint.checks.managers import managers
from graphdoctor.lint.checks.modules import modules
from graphdoctor.lint.checks.reads import reads
from graphdoctor.lint.checks.shapes import shapes

CHECKS: tuple[Check, ...] = (calls, branches, reads, shapes, managers, gradients, modules)
"""Every check."""

__all__ = ["CHECKS", "Check", "Site", "Spot"]

"""Renders what commands write: one module for each view or format, all registered in ``formats``.

May import ``model``, ``errors`` and the rules' documentation; never torch, the probe, capture,
trace, fixes or the CLI. Only the terminal's views import rich.
"""

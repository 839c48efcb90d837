"""The HTML report: one file, worked out from a ``Diagnosis`` and a ``Picture`` by pure functions.

Imports model and the rules' documentation; never torch, capture or probe.
"""

"""A ``Diagnosis`` to what people and programs read: one file a format.

May import ``model`` and the rules' documentation; never torch, capture or the probe.
"""

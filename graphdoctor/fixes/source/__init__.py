"""Reading and editing source, which recipes and lint share.

``program``, ``values``, ``flow`` and ``torch_names`` stand on ``ast`` and start quickly, the others
on libcst.
"""

"""Reading and editing source: what recipes and lint share. Knows no recipe and no check.

Half of it stands on ``ast`` and starts quickly (``program``, ``values``, ``flow``, ``torch_names``), the
other half on libcst, which keeps formatting and comments.
"""

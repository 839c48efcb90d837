"""The vocabulary: facts (``recording``) and opinions (``diagnosis``). Imports pydantic and nothing
of ours.
"""

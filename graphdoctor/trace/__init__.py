"""Turns torch's structured trace log on disk into a ``Recording``: grammar, reader, parsers of torch's texts.

May import ``model``, ``errors`` and ``probe/wire.py``; never torch, rules or renderers.
"""

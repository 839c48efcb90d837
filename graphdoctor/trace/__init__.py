"""Turns torch's structured trace log on disk into a ``Recording``: grammar, reader, parsers of
torch's texts.
"""

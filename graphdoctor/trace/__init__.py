"""From torch's structured trace log on disk to a ``Recording``: grammar, reader, parsers of torch's texts.

May import ``model`` and ``errors``; never torch, rules or renderers.
"""

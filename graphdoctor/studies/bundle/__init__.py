"""The file to attach to a PyTorch issue: one zip with a recording and everything derived from it.

Comes in: a recording. Goes out: the zip's bytes; ``cli`` writes them. ``redact/`` removes source, paths, values and the
program's own names.
"""

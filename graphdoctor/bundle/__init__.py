"""What is attached to a PyTorch issue: one zip of a recording and all that is made of it.

Comes in: a recording. Goes out: the zip's bytes; ``cli`` writes them. ``redact/`` takes source, paths, values and the
program's own names out.
"""

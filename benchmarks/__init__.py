"""What the performance figures in docs/benchmarks.md are measured with: ``python -m benchmarks``.

Every comparison is paired: baseline and graphdoctor take turns, so that a busy machine slows both,
and what is reported is the median of the pairs' ratios with its spread. Nothing here asserts
anything.
"""

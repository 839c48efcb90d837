"""The file to attach to a PyTorch issue: one zip with a recording and everything derived from
it.
"""

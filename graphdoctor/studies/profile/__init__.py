"""Interprets a profiled call: whose its kernels are, what binds it, and what fusion, memory and
graphs do for it.
"""

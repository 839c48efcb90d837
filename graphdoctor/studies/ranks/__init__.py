"""Comparison of a job's ranks: a recording and a diagnosis of each rank in, a ``Job`` out."""

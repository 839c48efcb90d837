"""Ranks of a job, side by side: a recording and a diagnosis of each rank in, a ``Job`` out."""

"""Runs one function over many pieces of work: here, in worker processes, or on a Ray cluster."""

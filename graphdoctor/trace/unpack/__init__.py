"""Writes each artifact of a trace log to a file of its own."""

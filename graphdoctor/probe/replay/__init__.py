"""Calls repeated under a change, and their results."""

"""Measurements of a call."""

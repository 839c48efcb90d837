"""Fixes and their trials: which changes could help, and what the same calls do under each."""

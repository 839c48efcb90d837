"""Looks for the fastest correct way to run a program, and says what must change for it."""

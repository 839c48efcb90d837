"""Removes the program's own content from a recording and its diagnosis.

Everything is left out except what a table in ``redaction.py`` lets through. Each value passes a
reader in ``public.py`` that keeps torch's and Python's own words, numbers, dtypes and shapes, and
replaces every other name with a pseudonym.
"""

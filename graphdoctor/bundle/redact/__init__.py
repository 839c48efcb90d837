"""Takes out of a recording and its diagnosis what is the program's own.

Nothing is searched for: everything is left out but what a table here lets through (``facts.py``, ``records.py``,
``events.py``), each value through a reader in ``public.py`` that gives torch's own words, Python's, numbers, dtypes and
shapes, and stands a pseudonym in for every other name.
"""

"""Catalogs: the architectures of a library, and a small program of each.

Runs in the child process, beside the probe: it imports torch and the library, and is loaded by path
with relative imports alone. Its parent is ``graphdoctor/trials/launch/catalog.py``.
"""

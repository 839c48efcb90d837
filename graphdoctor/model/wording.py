"""Words that every room writes alike. Comes in: a number and a noun. Goes out: text. Imports nothing."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number with its noun: ``1 graph``, ``2 graphs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

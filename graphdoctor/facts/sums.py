"""Adds up numbers of which some are unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

_Number = TypeVar("_Number", int, float)


def sum_of_known(values: Iterable[_Number | None]) -> _Number | None:
    """The sum of those that are known; None if none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def whole_sum(values: Iterable[_Number | None]) -> _Number | None:
    """The sum of all; None if one is unknown."""
    every = list(values)
    known = [value for value in every if value is not None]
    return sum(known) if len(known) == len(every) else None

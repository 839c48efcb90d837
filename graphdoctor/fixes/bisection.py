"""Finds which of several changes a program fails with. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_Fault = TypeVar("_Fault")


def first_failing(
    count: int,
    whole: _Fault,
    examine: Callable[[Sequence[int]], Sequence[_Fault | None]],
    *,
    width: int = 1,
) -> tuple[int, _Fault]:
    """Find the first of so many changes with which a program fails, beside all of those before it,
    and how it does.

    Args:
        count: How many there are; without any, the program holds.
        whole: How it fails with all of them.
        examine: Says how it fails with the first so many changes, for each of a few numbers; None
            if it holds.
        width: How many numbers to ask for at once.
    """
    held, failing, fault = 0, count, whole
    while failing - held > 1:
        parts = width + 1
        middle = {held + (failing - held) * part // parts for part in range(1, parts)}
        asked = sorted(middle - {held}) or [held + 1]
        for number, found in zip(asked, examine(asked), strict=True):
            if found is not None:
                failing, fault = number, found
                break
            held = number
    return failing - 1, fault

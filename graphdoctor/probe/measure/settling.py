"""Repeats a call until it is steady: until it compiles nothing and no function goes over its recompile limit.

A program whose guarded values change in every call recompiles in every repetition too. After ``recompile_limit`` of
them torch runs the function eagerly without a word, so a quiet call after that isn't a steady one: the repetitions
brought it about, not the program's own calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

MAX_WARM_UPS = 6
"""Repetitions until a call is given up; automatic dynamic shapes and numbers settle in two or three."""

_MAX_TO_LIMIT = 24
_TO_LIMIT_S = 5.0
"""More of them, while they are quick, show that the function ends up over its limit, which is 8 by default."""


class Activity(NamedTuple):
    """What torch has done so far in this process."""

    compiles: int
    limits: int


@dataclass(frozen=True)
class Settling:
    """What torch did in the repetitions of a call."""

    compiles: tuple[int, ...]
    is_over_limit: bool

    @property
    def is_settled(self) -> bool:
        """The last repetition was steady."""
        return not self.compiles[-1] and not self.is_over_limit


def settle(call: Callable[[], Any], activity: Callable[[], Activity]) -> Settling:
    """Repeat a call until it is steady, or never will be."""
    compiles: list[int] = []
    is_over_limit = False
    ends = time.perf_counter() + _TO_LIMIT_S
    while len(compiles) < MAX_WARM_UPS or (len(compiles) < _MAX_TO_LIMIT and time.perf_counter() < ends):
        before = activity()
        call()
        after = activity()
        compiles.append(after.compiles - before.compiles)
        is_over_limit = after.limits > before.limits
        if is_over_limit or not compiles[-1]:
            break
    return Settling(tuple(compiles), is_over_limit)

"""Values that depend on each other, in circles too. Knows nothing about what they are.

A value that depends on itself is resolved from the bottom up until it doesn't change. What was derived meanwhile from a
value that isn't settled is kept only until that value changes or is settled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_MAX_ROUNDS = 8
_MAX_DEPTH = 60
_MAX_EFFORT = 5_000


class Solver(Generic[T]):
    """Resolves values by key, each once."""

    def __init__(self) -> None:
        self._effort = 0
        self._under_way: list[object] = []
        self._settled: dict[object, T] = {}
        self._derived: dict[object, tuple[T, set[object]]] = {}
        self._assumed: dict[object, T] = {}
        self._depends: dict[object, set[object]] = {}

    def value(self, key: object, bottom: T, step: Callable[[T], tuple[T, bool]], *, unknown: T) -> T:
        """The value of a key.

        Args:
            key: Its name.
            bottom: What is assumed of it at first.
            step: From what is assumed, what follows and whether that differs.
            unknown: What it is if it doesn't settle.
        """
        if key in self._settled:
            return self._settled[key]
        if key in self._derived:
            value, depends = self._derived[key]
            for one in depends:
                self._note(one)
            return value
        if key in self._assumed:
            self._note(key)
            return self._assumed[key]
        self._effort += 1
        if len(self._under_way) > _MAX_DEPTH or self._effort > _MAX_EFFORT:
            return unknown
        return self._resolved(key, bottom, step, unknown)

    def _resolved(self, key: object, bottom: T, step: Callable[[T], tuple[T, bool]], unknown: T) -> T:
        self._assumed[key] = bottom
        self._depends[key] = set()
        self._under_way.append(key)
        value = bottom
        for _ in range(_MAX_ROUNDS):
            value, is_changed = step(value)
            self._assumed[key] = value
            self._drop(key)
            if not is_changed:
                break
        else:
            value = unknown
        self._under_way.pop()
        del self._assumed[key]
        depends = self._depends.pop(key) - {key}
        if depends:
            self._derived[key] = value, depends
        else:
            self._settled[key] = value
        return value

    def _note(self, key: object) -> None:
        """Everything that was begun after a key depends on it now."""
        for one in self._under_way[self._under_way.index(key) + 1 :]:
            self._depends[one].add(key)

    def _drop(self, key: object) -> None:
        """Forget what was derived from what was assumed of a key."""
        self._derived = {one: found for one, found in self._derived.items() if key not in found[1]}

"""Counts the calls of compiled functions in which code ran eagerly, and torch writes no record.

Under a stance that forbids compiling, and for code over its recompile limit, Dynamo looks for
compiled code that fits, and where none does it runs the function as Python would.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident

from ...facts.counts import EagerReason
from ..torch_private import torch_api
from ..torch_private.torch_hooks import watch_lookups

Place = tuple[int, int]
"""A function's number, and which of its calls is in progress."""


class EagerCalls:
    """Counts them by function and reason; ``place`` is asked for the call that this thread is in.

    Looking on costs a Python call for each search of Dynamo's, so it begins with the first call in
    which code can run eagerly.
    """

    def __init__(self, place: Callable[[], Place | None]) -> None:
        self._place = place
        self._end: Callable[[], object] | None = None
        self.forget()

    def forget(self) -> None:
        """Count from 0."""
        self.counts: defaultdict[int, Counter[EagerReason]] = defaultdict(Counter)
        self.is_over_limit = False
        self._latest: dict[int, int] = {}
        self._missed: dict[int, tuple[Place, EagerReason]] = {}

    def look_on(self, *, is_needed: bool = True) -> None:
        """Begin to look on, or end it unless something is over its limit."""
        if is_needed and self._end is None:
            with suppress(AttributeError, ImportError):
                self._end = watch_lookups(self._look)
        elif self._end is not None and not (is_needed or self.is_over_limit):
            self.close()

    def close(self) -> None:
        """Look on no more, and count what was seen last."""
        end = self._end
        self._end = None
        if end is not None:
            end()
        for thread in list(self._missed):
            self._count(thread)

    def on_compile(self, compile_id: str) -> None:
        """A compile begins: torch has a record of what the last search didn't find."""
        if not compile_id.endswith("/0"):
            self._missed.pop(get_ident(), None)

    def on_limit(self) -> None:
        """A function hits its recompile limit, and runs eagerly in this call."""
        self.is_over_limit = True
        if self._place() is not None:
            self.look_on()
            self._look(is_found=False)

    def add(self, function: int, reason: EagerReason, count: int = 1) -> None:
        """Count calls that certainly ran eagerly."""
        if count > 0:
            self.counts[function][reason] += count

    def _look(self, is_found: bool) -> None:
        self._count(get_ident())
        if is_found or (place := self._place()) is None:
            return
        if torch_api.stance() == "eager_on_recompile":
            self._missed[get_ident()] = place, "eager_on_recompile"
        elif self.is_over_limit:
            self._missed[get_ident()] = place, "limit"

    def _count(self, thread: int) -> None:
        if (missed := self._missed.pop(thread, None)) is not None:
            (function, call), reason = missed
            if self._latest.get(function) != call:
                self._latest[function] = call
                self.counts[function][reason] += 1

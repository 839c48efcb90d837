"""Repeats a call until it is steady, and times it then, by itself or in turns with another probe.

Steady: it compiles nothing, and no function goes over its recompile limit: after that torch runs it
    eagerly without a
word, so a quiet call is no steady one. In turns: a socket asks, and several programs share the
machine's noise.
"""

from __future__ import annotations

import contextlib
import json
import math
import resource
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...facts.recording import Settling
from ..torch_private import torch_api

_MIN_RUNS = 3
BLOCK_S = 0.001
"""How long a block of calls takes at least."""

ROW_S = 0.02
"""The same for calls in a row on a GPU: only the last is waited for, which takes some of them as
long as they run."""

_MAX_NUMBER = 10_000
_REST_S = 0.002
"""How long the threads of another process may look for work after its turn."""

_WARM_CALL_S = 0.1
"""Calls that are shorter are made once before a turn's first block."""


def time_calls(
    call: Callable[[], Any],
    *,
    seconds: float,
    most: int | None = None,
    least: int = _MIN_RUNS,
    restore: Callable[[], None] = lambda: None,
    is_own_only: bool = False,
    number: int = 1,
) -> list[float]:
    """Seconds of a call, started within ``seconds``; what one launches on a GPU counts to its own
    time only.

    ``restore``: puts back what a call changed in its arguments, outside the timed span.
    ``is_own_only``: leave out calls in which the system took a processor from the process, if
    enough others remain. ``number``: calls that are timed together, as in a loop of calls.
    """
    times: list[float] = []
    own: list[float] = []
    ends = time.perf_counter() + seconds
    while len(times) < least or (
        time.perf_counter() < ends and (most is None or len(times) < most)
    ):
        torch_api.synchronize()
        before = preemptions()
        started = time.perf_counter()
        for _ in range(number):
            call()
        torch_api.synchronize()
        times.append((time.perf_counter() - started) / number)
        if preemptions() == before:
            own.append(times[-1])
        restore()
    return own if is_own_only and len(own) >= least else times


@dataclass
class Block:
    """Calls that are timed together: the device is waited for once, as in a loop of calls.

    ``seconds``: of one call. ``restore`` puts back what a call changed in its arguments, outside
    the timed span; then each is timed alone. ``least_s``: how long the block takes at least.
    """

    seconds: float
    restore: Callable[[], None] | None = None
    least_s: float = BLOCK_S

    @property
    def number(self) -> int:
        """How many calls it has."""
        if self.restore is not None:
            return 1
        return min(max(1, math.ceil(self.least_s / max(self.seconds, 1e-9))), _MAX_NUMBER)


def time_block(call: Callable[[], Any], block: Block, *, seconds: float) -> list[float]:
    """Times of blocks of calls in one turn, started within ``seconds``, at least one; in
    microseconds for one call.
    """
    restore = block.restore or (lambda: None)
    # Another process had the machine meanwhile: its caches are cold, and what it does outside the
    # time is over.
    time.sleep(_REST_S)
    restore()
    if block.seconds < _WARM_CALL_S:
        call()
        restore()
    return [
        each * 1e6
        for each in time_calls(call, seconds=seconds, least=1, restore=restore, number=block.number)
    ]


def questions(connection: socket.socket) -> Iterator[str]:
    """Lines until the other end is closed."""
    # The other end may close with an answer unread: that is a reset, not an end.
    with contextlib.suppress(ConnectionError), connection.makefile(encoding="utf-8") as lines:
        yield from lines


def answer(connection: socket.socket, values: Mapping[str, Any]) -> None:
    """Write one line; the other end may have closed."""
    with contextlib.suppress(ConnectionError):
        connection.sendall((json.dumps(values) + "\n").encode())


def preemptions() -> int:
    """How often the system took a processor from a thread of this process that had more to do;
    others wait for it.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


MAX_WARM_UPS = 6
"""Repetitions until a call is given up; automatic dynamic shapes and numbers settle in two or
three."""

_MAX_TO_LIMIT = 24
_TO_LIMIT_S = 5.0
"""More of them, while they are quick, show that the function ends up over its limit, which is 8 by
default."""


class Activity(NamedTuple):
    """What torch has done so far in this process."""

    compiles: int
    limits: int


def settle(call: Callable[[], Any], activity: Callable[[], Activity]) -> Settling:
    """Repeat a call until it is steady, or never will be."""
    compiles: list[int] = []
    is_over_limit = False
    ends = time.perf_counter() + _TO_LIMIT_S
    while len(compiles) < MAX_WARM_UPS or (
        len(compiles) < _MAX_TO_LIMIT and time.perf_counter() < ends
    ):
        before = activity()
        call()
        after = activity()
        compiles.append(after.compiles - before.compiles)
        is_over_limit = after.limits > before.limits
        if is_over_limit or not compiles[-1]:
            break
    return Settling(compiles=tuple(compiles), is_over_limit=is_over_limit)

"""Times a call that no longer compiles anything, by itself or in turns with another probe.

In turns: a socket asks ``{"seconds": …}`` and gets ``{"median_us": …, "calls": …}``, so that two programs on one
machine share its noise. The parent closes the socket when it has enough answers.
"""

from __future__ import annotations

import contextlib
import json
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..torch_private import torch_api
from .settling import Activity, settle

_STEADY_S = 0.5
_STEADY_RUNS = 50
_MIN_RUNS = 3


def steady_us(call: Callable[[], Any], activity: Callable[[], Activity]) -> float | None:
    """Median time of a steady call, in microseconds; None when it never gets steady.

    Args:
        call: Makes it.
        activity: Returns what torch has done so far.
    """
    if not settle(call, activity).is_settled:
        return None
    times = time_calls(call, seconds=_STEADY_S, most=_STEADY_RUNS)
    return statistics.median(times) * 1e6


def time_calls(
    call: Callable[[], Any], *, seconds: float, most: int | None = None, least: int = _MIN_RUNS
) -> list[float]:
    """Seconds of single calls; work that a call launches on a GPU counts to its own time only.

    Args:
        call: Makes one.
        seconds: Start no other call after this time.
        most: Most calls, or None.
        least: Fewest calls.
    """
    times: list[float] = []
    ends = time.perf_counter() + seconds
    while len(times) < least or (time.perf_counter() < ends and (most is None or len(times) < most)):
        torch_api.synchronize()
        started = time.perf_counter()
        call()
        torch_api.synchronize()
        times.append(time.perf_counter() - started)
    return times


def serve(call: Callable[[], Any], activity: Callable[[], Activity], descriptor: int) -> None:
    """Answer requests for times until the socket is closed.

    Args:
        call: Makes the call.
        activity: Returns what torch has done so far.
        descriptor: The socket's file descriptor.
    """
    with socket.socket(fileno=descriptor) as connection:
        is_settled = settle(call, activity).is_settled
        _answer(connection, {"is_steady": is_settled})
        for line in _questions(connection) if is_settled else ():
            times = time_calls(call, seconds=float(json.loads(line)["seconds"]), least=1)
            _answer(connection, {"median_us": statistics.median(times) * 1e6, "calls": len(times)})


def _questions(connection: socket.socket) -> Iterator[str]:
    """Lines until the other end is closed."""
    # The other end may close with an answer unread: that is a reset, not an end.
    with contextlib.suppress(ConnectionError), connection.makefile(encoding="utf-8") as lines:
        yield from lines


def _answer(connection: socket.socket, values: dict[str, Any]) -> None:
    with contextlib.suppress(ConnectionError):
        connection.sendall((json.dumps(values) + "\n").encode())

"""A probe that times the last call of its program in turns with others, so that all see the same noise.

Comes in: a program. Goes out: the times of its calls, a turn at a time, whenever somebody asks.
"""

from __future__ import annotations

import contextlib
import json
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from graphdoctor.replay.program import Program
from graphdoctor.replay.replays import Replays

TURN_S = 0.04
"""How long each program repeats its call in a turn, or one call that takes longer."""


class TimedProbe:
    """A probe that times its last call when asked.

    Args:
        replays: Starts it.
        program: What it runs.
        name: The replay's name.
        backend: The backend.
        pool: Where to wait until it ends.
    """

    def __init__(self, replays: Replays, program: Program, name: str, backend: str, pool: ThreadPoolExecutor) -> None:
        ours, theirs = socket.socketpair()
        self._connection = ours

        def run() -> str | None:
            try:
                return replays.serve_times(program, name, backend=backend, descriptor=theirs.fileno())
            finally:
                # The other end then stops waiting for an answer.
                theirs.close()

        self._ended: Future[str | None] = pool.submit(run)
        self._stream = ours.makefile("rw", encoding="utf-8")

    def is_steady(self) -> bool:
        """Wait until the calls are made; whether the last one no longer compiles anything."""
        answer = self._answer()
        return bool(answer and answer["is_steady"])

    def median_us(self) -> float | None:
        """The median time of one turn, in microseconds; None if the probe has ended."""
        try:
            self._stream.write(json.dumps({"seconds": TURN_S}) + "\n")
            self._stream.flush()
        except OSError:
            return None
        answer = self._answer()
        return None if answer is None else float(answer["median_us"])

    def _answer(self) -> dict[str, Any] | None:
        try:
            line = self._stream.readline()
        except OSError:
            return None
        return dict(json.loads(line)) if line else None

    def close(self) -> None:
        """Let the probe end."""
        with contextlib.suppress(OSError):  # the probe may have ended, which is an error on some systems only
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def error(self) -> str | None:
        """Wait until it ends; why it ended early, or None."""
        return self._ended.result()

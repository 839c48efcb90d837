"""Probes that time the last call of their program whenever they are asked, so that several share the machine's noise.

Comes in: what starts a probe. Goes out: its answers, and in the end how it ended.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays

TURN_S = 0.04
"""How long each program repeats its call in a turn, or one call that takes longer."""

E = TypeVar("E")


class ServedProbe(Generic[E]):
    """A probe at the other end of a socket, from its start.

    Args:
        start: Starts it with the descriptor of its end, and waits until it ends; returns how.
        pool: Where to wait.
    """

    def __init__(self, start: Callable[[int], E], pool: ThreadPoolExecutor) -> None:
        ours, theirs = socket.socketpair()
        self._connection = ours

        def run() -> E:
            try:
                return start(theirs.fileno())
            finally:
                # The other end then stops waiting for an answer.
                theirs.close()

        self._ended: Future[E] = pool.submit(run)
        self._stream = ours.makefile("rw", encoding="utf-8")

    def answer(self) -> dict[str, Any] | None:
        """Wait for what it says next; None if it has ended."""
        try:
            line = self._stream.readline()
        except OSError:
            return None
        return dict(json.loads(line)) if line else None

    def ask(self, question: Mapping[str, object]) -> dict[str, Any] | None:
        """Ask something, and wait for the answer; None if it has ended."""
        try:
            self._stream.write(json.dumps(question) + "\n")
            self._stream.flush()
        except OSError:
            return None
        return self.answer()

    def close(self) -> None:
        """Let it end."""
        with contextlib.suppress(OSError):  # it may have ended, which is an error on some systems only
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def end(self) -> E:
        """Let it end, and wait for that; how it ended."""
        self.close()
        return self._ended.result()


class TimedProbe(ServedProbe[str | None]):
    """A probe that times its last call when asked; it ends with why it ended early, or None.

    Args:
        replays: Starts it.
        program: What it runs.
        name: The replay's name.
        backend: The backend.
        pool: Where to wait until it ends.
    """

    def __init__(self, replays: Replays, program: Program, name: str, backend: str, pool: ThreadPoolExecutor) -> None:
        super().__init__(
            lambda descriptor: replays.serve_times(program, name, backend=backend, descriptor=descriptor), pool
        )

    def is_steady(self) -> bool:
        """Wait until the calls are made; whether the last one no longer compiles anything."""
        answer = self.answer()
        return bool(answer and answer["is_steady"])

    def median_us(self) -> float | None:
        """The median time of one turn, in microseconds; None if the probe has ended."""
        answer = self.ask({"seconds": TURN_S})
        return None if answer is None else float(answer["median_us"])

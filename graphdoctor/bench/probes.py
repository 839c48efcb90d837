"""A process that runs a program as its user would, and times its steady call whenever it is asked."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from graphdoctor.model.run import ProbeExit
from graphdoctor.probe.wire import BenchStart, BenchTurn
from graphdoctor.replay.program import Program
from graphdoctor.replay.replays import Replays


class BenchProbe:
    """The process, from its start.

    Args:
        replays: Starts it.
        program: What it runs.
        name: The replay's name.
        is_eager: It runs without torch.compile.
        cache: Inductor's folder on disk.
        spec: Fields of the request's ``spec`` with other values.
        pool: Where to wait until it ends.
    """

    def __init__(
        self,
        replays: Replays,
        program: Program,
        name: str,
        *,
        is_eager: bool,
        cache: Path,
        spec: Mapping[str, object],
        pool: ThreadPoolExecutor,
    ) -> None:
        ours, theirs = socket.socketpair()
        self._connection = ours

        def run() -> ProbeExit:
            try:
                return replays.serve_bench(
                    program, name, is_eager=is_eager, cache=cache, descriptor=theirs.fileno(), spec=spec
                )
            finally:
                # The other end then stops waiting for an answer.
                theirs.close()

        self._ended: Future[ProbeExit] = pool.submit(run)
        self._stream = ours.makefile("rw", encoding="utf-8")

    def start(self) -> BenchStart | None:
        """Wait until its calls are steady, or never will be; None if it ended before."""
        return cast("BenchStart | None", self._answer())

    def turn(self, seconds: float) -> BenchTurn | None:
        """Time its call for a while; None if it has ended."""
        try:
            self._stream.write(json.dumps({"seconds": seconds}) + "\n")
            self._stream.flush()
        except OSError:
            return None
        return cast("BenchTurn | None", self._answer())

    def end(self) -> ProbeExit:
        """Let it end, and wait for that."""
        with contextlib.suppress(OSError):  # it may have ended, which is an error on some systems only
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        return self._ended.result()

    def _answer(self) -> dict[str, Any] | None:
        try:
            line = self._stream.readline()
        except OSError:
            return None
        return dict(json.loads(line)) if line else None

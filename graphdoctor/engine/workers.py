"""Works on pieces in several processes of this machine.

Comes in: work and pieces. Goes out: outcomes, as they come. Workers are forked where that is safe, so that they start
in milliseconds with all that is imported here; elsewhere they are started anew. Each has a pipe of its own, so the end
of one says which piece it had, and at most one result waits in each.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

from graphdoctor.engine.work import (
    Failed,
    Failure,
    Outcome,
    packed_attempt,
    unpacked,
)

_ATTEMPTS = 2
"""How many workers may end over one piece."""

_END_S = 3.0
_PARENT_POLL_S = 1.0


@dataclass
class _Worker:
    """A process with a pipe to it, and the index of the piece that it has."""

    process: BaseProcess
    pipe: Connection
    index: int | None = None


class Workers:
    """Processes that work on pieces.

    Args:
        work: As for ``Engine.run``, and the next two.
        pieces: Those to work on.
        ahead: How far from the first one without an outcome a piece may begin.
    """

    def __init__(self, work: Callable[[Any], object], pieces: Sequence[Any], ahead: int | None) -> None:
        self._work = work
        self._pieces = pieces
        self._ahead = len(pieces) if ahead is None else ahead
        self._waiting = deque(range(len(pieces)))
        # Tried again when there is nothing new: by then less memory may be in use.
        self._again: deque[int] = deque()
        self._attempts: dict[int, int] = {}
        self._workers: dict[Connection, _Worker] = {}
        self._context = _context()

    def outcomes(self, jobs: int) -> Iterator[Outcome[Any]]:
        """All outcomes, with at most so many processes."""
        for _ in range(min(jobs, len(self._pieces), self._ahead + 1)):
            self._begin()
        while busy := [worker.pipe for worker in self._workers.values() if worker.index is not None]:
            for pipe in wait(busy):
                assert isinstance(pipe, Connection)
                yield from self._outcome(self._workers[pipe])
            self._hand_out()

    def end(self) -> None:
        """End all workers."""
        for worker in self._workers.values():
            worker.process.terminate()
        for worker in self._workers.values():
            worker.process.join(_END_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()
        self._workers.clear()

    def _begin(self) -> None:
        here, there = self._context.Pipe()
        others = (here, *self._workers) if self._context.get_start_method() == "fork" else ()
        process: BaseProcess = self._context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(there, self._work, os.getpid(), others), daemon=True
        )
        process.start()
        there.close()
        worker = _Worker(process, here)
        self._workers[here] = worker
        self._give(worker)

    def _hand_out(self) -> None:
        """Give pieces to workers that had to wait for earlier ones."""
        for worker in list(self._workers.values()):
            if worker.index is None:
                self._give(worker)

    def _give(self, worker: _Worker) -> None:
        worker.index = self._next()
        if worker.index is not None:
            # A worker that has ended says so when it is waited for.
            with contextlib.suppress(OSError):
                worker.pipe.send_bytes(pickle.dumps(self._pieces[worker.index], pickle.HIGHEST_PROTOCOL))

    def _next(self) -> int | None:
        busy = [worker.index for worker in self._workers.values() if worker.index is not None]
        first = min([*busy, *self._again, *list(self._waiting)[:1]], default=0)
        if self._waiting and self._waiting[0] <= first + self._ahead:
            return self._waiting.popleft()
        return self._again.popleft() if self._again else None

    def _outcome(self, worker: _Worker) -> Iterator[Outcome[Any]]:
        index = worker.index
        assert index is not None
        try:
            packed = worker.pipe.recv_bytes()
        except (EOFError, OSError):
            yield from self._after_end(worker, index)
            return
        # It works on while the caller takes this outcome.
        worker.index = None
        self._give(worker)
        yield unpacked(index, packed)

    def _after_end(self, worker: _Worker, index: int) -> Iterator[Outcome[Any]]:
        del self._workers[worker.pipe]
        worker.pipe.close()
        worker.process.join(_END_S)
        self._attempts[index] = self._attempts.get(index, 0) + 1
        if self._attempts[index] < _ATTEMPTS:
            self._again.append(index)
            self._begin()
            return
        self._begin()
        yield Failed(index, _end_of(worker.process.exitcode))


def _end_of(exitcode: int | None) -> Failure:
    """How the last of the processes that had a piece ended."""
    if exitcode == -signal.SIGKILL:
        words = "its process was killed twice (SIGKILL), as the system does when memory runs out"
        return Failure("ended", words)
    if exitcode is not None and exitcode < 0:
        return Failure("ended", f"its process ended twice ({signal.Signals(-exitcode).name})")
    return Failure("ended", f"its process ended twice (exit status {exitcode})")


def _context() -> BaseContext:
    """How workers start: a fork of a process with threads, or with torch, can hang."""
    is_alone = threading.active_count() == 1 and "torch" not in sys.modules
    return multiprocessing.get_context("fork" if sys.platform == "linux" and is_alone else "spawn")


def _serve(pipe: Connection, work: Callable[[Any], object], parent: int, others: Sequence[Connection]) -> None:
    """What a worker does: one piece after the other.

    Args:
        pipe: Pieces come in, outcomes go out.
        work: The work.
        parent: Process id of the one that started it.
        others: What a fork inherits of other workers' pipes, which would keep them open.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its workers.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:
        other.close()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            piece = pickle.loads(pipe.recv_bytes())
            pipe.send_bytes(packed_attempt(work, piece))


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, however that did."""
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_S)
    os._exit(1)

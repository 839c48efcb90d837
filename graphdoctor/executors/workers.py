"""Works on pieces in several processes of this machine.

Comes in: work and pieces. Goes out: outcomes, as they come. Each worker has a pipe of its own, so the end of one says
which piece it had, and at most one result waits in each. Those that need nothing for themselves are forked where that
is safe, so that they start in milliseconds with all that is imported here; elsewhere they are started anew. Those in a
slot are keepers (``keeper.py``).
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
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from graphdoctor.executors.work import (
    ATTEMPTS,
    Failed,
    OnBegin,
    Outcome,
    failure_of_end,
    packed_attempt,
    unpacked,
)

if TYPE_CHECKING:
    from graphdoctor.executors.slots import Slot

_END_S = 3.0
_PARENT_POLL_S = 1.0


class WorkerProcess(Protocol):
    """A process that takes pieces from its pipe."""

    def ask_to_end(self) -> None:
        """Have it end soon; its pipe is closed."""

    def end(self) -> int | None:
        """Wait for its end, not for long; its exit status, negative for a signal."""


Hire: TypeAlias = Callable[["Slot | None", Sequence[Connection]], tuple[WorkerProcess, Connection]]
"""Starts a worker in a slot; the other argument is the pipes to the others, which it must not keep open."""


@dataclass
class _Worker:
    """A process with a pipe to it, its slot, and the index of the piece that it has."""

    process: WorkerProcess
    pipe: Connection
    slot: Slot | None
    index: int | None = None


class Workers:
    """Processes that work on pieces.

    Args:
        hire: Starts one.
        pieces: As for ``Engine.run``, and the next three.
        ahead: How far from the first one without an outcome a piece may begin.
        attempts: How many processes may end over one piece.
        on_begin: Told when a piece begins.
        has_room: Whether one more piece may begin while others are worked on.
    """

    def __init__(
        self,
        hire: Hire,
        pieces: Sequence[Any],
        *,
        ahead: int | None = None,
        attempts: int = ATTEMPTS,
        on_begin: OnBegin | None = None,
        has_room: Callable[[], bool] | None = None,
    ) -> None:
        self._hire = hire
        self._pieces = pieces
        self._ahead = len(pieces) if ahead is None else ahead
        self._most_attempts = attempts
        self._on_begin = on_begin
        self._has_room = has_room
        self._waiting = deque(range(len(pieces)))
        # Tried again when there is nothing new: by then less memory may be in use.
        self._again: deque[int] = deque()
        self._attempts: dict[int, int] = {}
        self._workers: dict[Connection, _Worker] = {}

    def outcomes(self, slots: Sequence[Slot | None]) -> Iterator[Outcome[Any]]:
        """All outcomes, with at most one process for each slot."""
        for slot in slots[: min(len(self._pieces), self._ahead + 1)]:
            self._begin(slot)
        while busy := self._busy():
            for pipe in wait([worker.pipe for worker in busy]):
                assert isinstance(pipe, Connection)
                yield from self._outcome(self._workers[pipe])
            self._hand_out()

    def end(self) -> None:
        """End all workers."""
        for worker in self._workers.values():
            worker.pipe.close()
            worker.process.ask_to_end()
        for worker in self._workers.values():
            worker.process.end()
        self._workers.clear()

    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._workers.values() if worker.index is not None]

    def _begin(self, slot: Slot | None) -> None:
        process, pipe = self._hire(slot, list(self._workers))
        self._workers[pipe] = worker = _Worker(process, pipe, slot)
        self._give(worker)

    def _hand_out(self) -> None:
        """Give pieces to workers that had to wait for earlier ones."""
        for worker in list(self._workers.values()):
            if worker.index is None:
                self._give(worker)

    def _give(self, worker: _Worker) -> None:
        worker.index = self._next()
        if worker.index is None:
            return
        if self._on_begin is not None:
            self._on_begin(worker.index, None if worker.slot is None else worker.slot.name)
        # A worker that has ended says so when it is waited for.
        with contextlib.suppress(OSError):
            worker.pipe.send_bytes(pickle.dumps(self._pieces[worker.index], pickle.HIGHEST_PROTOCOL))

    def _next(self) -> int | None:
        busy = [worker.index for worker in self._workers.values() if worker.index is not None]
        if busy and self._has_room is not None and not self._has_room():
            return None
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
            del self._workers[worker.pipe]
            worker.pipe.close()
            outcome: Outcome[Any] | None = self._after_end(index, worker.process.end())
            self._begin(worker.slot)
        else:
            outcome = unpacked(index, packed)
            if isinstance(outcome, Failed) and outcome.failure.kind == "ended":
                outcome = self._after_end(index, outcome.failure.status)
            # It works on while the caller takes this outcome.
            worker.index = None
            self._give(worker)
        if outcome is not None:
            yield outcome

    def _after_end(self, index: int, status: int | None) -> Failed | None:
        """The end of a process that had this piece; None if another one is to try it."""
        self._attempts[index] = count = self._attempts.get(index, 0) + 1
        if count < self._most_attempts:
            self._again.append(index)
            return None
        return Failed(index, failure_of_end(status, count))


@dataclass(frozen=True)
class Alike:
    """Starts workers that need nothing for themselves.

    Args:
        work: What they do with a piece.
    """

    work: Callable[[Any], object]

    def hire(self, _slot: Slot | None, others: Sequence[Connection]) -> tuple[WorkerProcess, Connection]:
        """See ``Hire``."""
        context = _context()
        here, there = context.Pipe()
        inherited = (here, *others) if context.get_start_method() == "fork" else ()
        process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(there, self.work, os.getpid(), inherited), daemon=True
        )
        process.start()
        there.close()
        return _Process(process), here


@dataclass(frozen=True)
class _Process:
    process: BaseProcess

    def ask_to_end(self) -> None:
        self.process.terminate()

    def end(self) -> int | None:
        self.process.join(_END_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return self.process.exitcode


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

"""Works on pieces on this machine: in this process, or in several.

Pieces that need nothing for themselves go to a ``ProcessPoolExecutor``, whose workers are forked where that is safe, so
that they start in milliseconds with all that is imported here. Those with a share each have a process that a
supervisor starts (``supervisor.py``).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from graphdoctor.executors.executor import (
    ATTEMPTS,
    Failed,
    OnBegin,
    Outcome,
    Piece,
    Result,
    Share,
    attempt,
    failure_of_end,
    outcome_of,
    packed_attempt,
    unpacked,
)

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor
    from multiprocessing.context import BaseContext

_PARENT_POLL_S = 1.0


@dataclass(frozen=True)
class Local:
    """This machine."""

    jobs: int

    @property
    def elsewhere(self) -> None:
        """See ``Executor.elsewhere``."""
        return None

    def run(
        self,
        work: Callable[[Piece], Result],
        pieces: Sequence[Piece],
        *,
        ahead: int | None = None,
        share: Share | None = None,
        attempts: int = ATTEMPTS,
        on_begin: OnBegin | None = None,
    ) -> Iterator[Outcome[Result]]:
        """See ``Executor.run``."""
        begins = on_begin or _ignore
        if share is not None:
            from graphdoctor.executors.machine import has_memory, slots_for, this_machine
            from graphdoctor.executors.supervisor import Supervisors

            slots = slots_for(share, this_machine(), most=self.jobs)
            has_room = partial(has_memory, share.memory_bytes)
            yield from Supervisors(work, pieces, attempts, begins, has_room).outcomes(slots)
        elif min(self.jobs, len(pieces)) > 1:
            yield from _in_pool(work, pieces, self.jobs, len(pieces) if ahead is None else ahead, begins)
        else:
            for index, piece in enumerate(pieces):
                begins(index, None)
                yield outcome_of(index, attempt(work, piece))


ALONE = Local(1)
"""This process."""


def _ignore(_index: int, _place: str | None) -> None:
    """Nobody looks on."""


def _in_pool(
    work: Callable[[Any], object], pieces: Sequence[Any], jobs: int, ahead: int, on_begin: OnBegin
) -> Iterator[Outcome[Any]]:
    from concurrent.futures import FIRST_COMPLETED, wait
    from concurrent.futures.process import BrokenProcessPool

    waiting = deque(range(len(pieces)))
    while waiting:
        pending: dict[Future[bytes], int] = {}

        def begin(pool: ProcessPoolExecutor, pending: dict[Future[bytes], int] = pending) -> None:
            first = min(pending.values(), default=len(pieces))
            while waiting and len(pending) < jobs and waiting[0] <= first + ahead:
                future = pool.submit(packed_attempt, work, pieces[waiting[0]])
                first = min(first, waiting[0])
                on_begin(waiting[0], None)
                pending[future] = waiting.popleft()

        with _pool(min(jobs, len(waiting))) as pool, contextlib.suppress(BrokenProcessPool):
            begin(pool)
            while pending:
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    packed = future.result()
                    index = pending.pop(future)
                    # Its worker works on while the caller takes this outcome.
                    begin(pool)
                    yield unpacked(index, packed)
        # A process ended over one of these: each is tried once more, alone, when less memory is in use.
        for index in pending.values():
            on_begin(index, None)
            yield _alone(work, index, pieces[index])


def _alone(work: Callable[[Any], object], index: int, piece: object) -> Outcome[Any]:
    from concurrent.futures.process import BrokenProcessPool

    with _pool(1) as pool:
        future = pool.submit(packed_attempt, work, piece)
        (process,) = pool._processes.values()
        try:
            return unpacked(index, future.result())
        except BrokenProcessPool:
            process.join()
            return Failed(index, failure_of_end(process.exitcode, 2))


@contextlib.contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block, whatever they are at."""
    from concurrent.futures import ProcessPoolExecutor

    pool = ProcessPoolExecutor(jobs, mp_context=_context(), initializer=_begin_worker, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        for process in list(pool._processes.values()):
            process.kill()
        pool.shutdown(cancel_futures=True)


def _context() -> BaseContext:
    """How workers start: a fork of a process with threads, or with torch, can hang."""
    import multiprocessing

    is_alone = threading.active_count() == 1 and "torch" not in sys.modules
    return multiprocessing.get_context("fork" if sys.platform == "linux" and is_alone else "spawn")


def _begin_worker(parent: int) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends its workers.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    import time

    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_S)
    os._exit(1)

"""Works on pieces on this machine: in this process, or in several.

Pieces that need nothing for themselves go to a ``ProcessPoolExecutor``, whose workers are forked
where that is safe. Those with a share each have a process that a supervisor starts.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from graphdoctor.executors.executor import (
    Executor,
    Failure,
    Job,
    Outcome,
    attempt,
    failure_of_end,
    packed_attempt,
    unpacked,
)

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor
    from multiprocessing.context import BaseContext

_PARENT_POLL_S = 1.0


@dataclass(frozen=True)
class Local(Executor):
    """This machine; with one job, no process is started for pieces without a share."""

    jobs: int

    def outcomes(self, job: Job) -> Iterator[Outcome[Any]]:
        """See ``Executor``."""
        if job.share is not None:
            from graphdoctor.executors.machine import has_memory, slots_for, this_machine
            from graphdoctor.executors.supervisor import Supervisors

            slots = slots_for(job.share, this_machine(), most=self.jobs)
            yield from Supervisors(job, partial(has_memory, job.share.memory_bytes)).outcomes(slots)
        elif min(self.jobs, len(job.pieces)) > 1:
            yield from _in_pool(job, self.jobs)
        else:
            for index, piece in enumerate(job.pieces):
                job.begin(index)
                yield index, attempt(job.work, piece)


ALONE = Local(1)


def _in_pool(job: Job, jobs: int) -> Iterator[Outcome[Any]]:
    from concurrent.futures import FIRST_COMPLETED, wait
    from concurrent.futures.process import BrokenProcessPool

    waiting = deque(range(len(job.pieces)))
    while waiting:
        pending: dict[Future[bytes], int] = {}

        def begin(pool: ProcessPoolExecutor, pending: dict[Future[bytes], int] = pending) -> None:
            while len(pending) < jobs and job.may_begin(waiting, pending.values()):
                index = waiting.popleft()
                pending[pool.submit(packed_attempt, job.work, job.pieces[index])] = index
                job.begin(index)

        with _pool(min(jobs, len(waiting))) as pool, contextlib.suppress(BrokenProcessPool):
            begin(pool)
            while pending:
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    packed = future.result()
                    index = pending.pop(future)
                    # Its worker works on while the caller takes this outcome.
                    begin(pool)
                    yield index, unpacked(packed)
        # A process ended over one of these, and which isn't known: each is tried alone, when less
        # memory is in use, and once more if its process ends then. One that had only been waiting
        # has ended no process before.
        for index in pending.values():
            yield index, _alone(job, index)


def _alone(job: Job, index: int) -> Any | Failure:  # noqa: ANN401 - what the work makes
    """What became of a piece that is tried in a process of its own, twice if the first one ends."""
    from concurrent.futures.process import BrokenProcessPool

    for _ in range(2):
        job.begin(index)
        with _pool(1) as pool, contextlib.suppress(BrokenProcessPool):
            future = pool.submit(packed_attempt, job.work, job.pieces[index])
            (process,) = pool._processes.values()
            return unpacked(future.result())
    # The pool has waited for it: two that wait at once may both not be told its status.
    return failure_of_end(process.exitcode, 2)


@contextlib.contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    from concurrent.futures import ProcessPoolExecutor

    pool = ProcessPoolExecutor(
        jobs, mp_context=_context(), initializer=_begin_worker, initargs=(os.getpid(),)
    )
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

    def end_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_POLL_S)
        os._exit(1)

    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the parent, which ends its workers.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=end_with_parent, daemon=True).start()

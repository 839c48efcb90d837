"""Works on pieces on this machine: in this process, or in process pools of the standard library.

Pieces without a share go to one pool, whose workers are forked where that is safe. With a share,
each slot of the machine is a pool of one worker, so that a worker that ends fails its piece alone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.executor import (
    Environment,
    Executor,
    Failure,
    OnBegin,
    Outcome,
    Share,
    attempt,
    failure_of_end,
    packed_attempt,
    unpacked,
)
from graphdoctor.executors.machine import Slot, cores, has_memory, slots_for, this_machine

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

_PARENT_POLL_S = 1.0
_GRACE_S = 10.0
"""How long a piece may take to end what it started."""


@dataclass(frozen=True)
class Local(Executor):
    """This machine; with one job, pieces without a share run in this process."""

    jobs: int

    def run(
        self,
        work: Callable[[Any], Any],
        pieces: Sequence[Any],
        *,
        share: Share | None = None,
        on_begin: OnBegin | None = None,
    ) -> Iterator[Outcome[Any]]:
        """See ``Executor``."""
        jobs = min(self.jobs, len(pieces))
        if share is not None:
            slots = slots_for(share, this_machine(), most=jobs)
            return _in_slots(work, enumerate(pieces), slots, share.memory_bytes, on_begin)
        if jobs > 1:
            return _in_pool(work, pieces, jobs)
        return ((index, attempt(work, piece)) for index, piece in enumerate(pieces))


def _in_pool(
    work: Callable[[Any], Any], pieces: Sequence[Any], jobs: int
) -> Iterator[Outcome[Any]]:
    from concurrent.futures import as_completed
    from concurrent.futures.process import BrokenProcessPool

    pool = _pool(jobs, _start_method())
    running = {
        pool.submit(packed_attempt, work, piece): index for index, piece in enumerate(pieces)
    }
    try:
        for future in as_completed([*running]):
            packed = future.result()
            yield running.pop(future), unpacked(packed)
    except BrokenProcessPool:
        pass
    finally:
        _end([pool])
    # A process ended over one of these, and nothing tells which: each is tried again, alone.
    left = [(index, pieces[index]) for index in running.values()]
    for index, outcome in _in_slots(work, left, [Slot(1, None, None)]):
        # One that had only been waiting ended no process before.
        if isinstance(outcome, Failure) and outcome.kind == "ended":
            yield from _in_slots(work, [(index, pieces[index])], [Slot(1, None, None)])
        else:
            yield index, outcome


def _in_slots(
    work: Callable[[Any], Any],
    pieces: Iterable[tuple[int, Any]],
    slots: Iterable[Slot],
    needed_bytes: int | None = None,
    on_begin: OnBegin | None = None,
) -> Iterator[Outcome[Any]]:
    from concurrent.futures import FIRST_COMPLETED, wait
    from concurrent.futures.process import BrokenProcessPool

    idle = [(slot, _pool(1, "spawn", slot)) for slot in slots]
    pools = [pool for _, pool in idle]
    waiting = deque(pieces)
    running: dict[Future[bytes], tuple[int, Slot, ProcessPoolExecutor]] = {}
    try:
        while waiting or running:
            while idle and waiting and (not running or has_memory(needed_bytes)):
                (index, piece), (slot, pool) = waiting.popleft(), idle.pop(0)
                running[pool.submit(_interruptible_attempt, work, piece)] = index, slot, pool
                if on_begin is not None:
                    on_begin(index, slot.name)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                index, slot, pool = running.pop(future)
                try:
                    outcome = unpacked(future.result())
                except BrokenProcessPool:
                    (process,) = pool._processes.values()
                    _end([pool])
                    outcome = failure_of_end(process.exitcode)
                    pools.remove(pool)
                    pools.append(pool := _pool(1, "spawn", slot))
                idle.append((slot, pool))
                yield index, outcome
    finally:
        _end(pools)


def _pool(jobs: int, start_method: str, slot: Slot | None = None) -> ProcessPoolExecutor:
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context(start_method)
    return ProcessPoolExecutor(jobs, context, _begin_worker, (os.getpid(), slot))


def _end(pools: Iterable[ProcessPoolExecutor]) -> None:
    """End all workers, with some time for what their pieces started."""
    # Waiting for the sentinel leaves the exit status to the pool.
    from multiprocessing.connection import wait

    processes = [process for pool in pools for process in (pool._processes or {}).values()]
    for process in processes:
        process.terminate()
    end = time.monotonic() + _GRACE_S
    for process in processes:
        wait([process.sentinel], max(end - time.monotonic(), 0))
        process.kill()
    for pool in pools:
        pool.shutdown(cancel_futures=True)


def _start_method() -> str:
    """Return how workers start: a fork of a process with threads, or with torch, can hang."""
    is_alone = threading.active_count() == 1 and "torch" not in sys.modules
    return "fork" if sys.platform == "linux" and is_alone else "spawn"


def _begin_worker(parent: int, slot: Slot | None) -> None:
    def end_with_parent() -> None:
        # The main thread gets them: a system call of another one doesn't end for them.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        while os.getppid() == parent:
            time.sleep(_PARENT_POLL_S)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE_S)
        os._exit(1)

    # Ctrl-C reaches the parent, which ends its workers. What they start must not ignore it.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=end_with_parent, daemon=True).start()
    if slot is not None:
        slot.enter()


def _interruptible_attempt(work: Callable[[Any], object], piece: object) -> bytes:
    """Do as ``packed_attempt``; a signal unwinds what the piece has begun."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return packed_attempt(work, piece)
    except KeyboardInterrupt:
        os._exit(1)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


# The choice.


def executor_for(
    *,
    jobs: int | None = None,
    on: str | None = None,
    runtime_env: Environment | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Executor:
    """Return the executor for the options of a command."""
    if on is None:
        if runtime_env is not None:
            raise GraphDoctorError(
                "A runtime environment is for the nodes of a cluster.", hint="Use it with --on ray."
            )
        return Local(jobs or cores())
    from graphdoctor.executors.on_ray import OnRay

    if on == "ray":
        address = environment.get("RAY_ADDRESS") or None
        return OnRay(None if address == "local" else address, jobs, runtime_env)
    if not on.startswith("ray://") or on == "ray://":
        raise GraphDoctorError(
            f"--on {on} names no executor.",
            hint="Executors are ray and ray://HOST:PORT, such as ray://head:10001.",
        )
    return OnRay(on, jobs, runtime_env)

"""Works on pieces in slots, each in a process of its own, and ends what pieces leave running.

A supervisor is an interpreter of its own for each slot, without threads and with nothing but the
work imported, so it forks a process for each piece. On Linux it adopts what pieces start
(``PR_SET_CHILD_SUBREAPER`` of ``prctl(2)``) and ends all of it with the piece. It ends when its
pipe closes, which the system sees to when its parent is gone; a piece ends with its supervisor
(``PR_SET_PDEATHSIG``). Elsewhere what stays in the piece's process group is ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from graphdoctor.executors.executor import (
    Failure,
    Job,
    Outcome,
    attempt,
    failure_of_end,
    packed_attempt,
    unpacked,
)
from graphdoctor.executors.machine import GPU_VARIABLE, Slot

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_GRACE_S = 3.0

_AGAIN_S = 0.3

_POLL_S = 0.5
_REAP_S = 10.0
"""How long to wait for processes that were killed: a driver may hold them."""


@dataclass
class _Supervisor:
    process: subprocess.Popen[bytes]
    pipe: Connection
    slot: Slot
    index: int | None = None

    def end(self) -> int:
        """Have it end, which the end of its pipe tells it; its exit status, negative for a
        signal.
        """
        self.pipe.close()
        try:
            return self.process.wait(_GRACE_S + _REAP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@dataclass
class Supervisors:
    """Processes that work on pieces."""

    _job: Job
    _has_room: Callable[[], bool]
    _waiting: deque[int] = field(default_factory=deque)
    _ends: Counter[int] = field(default_factory=Counter)
    _at_work: dict[Connection, _Supervisor] = field(default_factory=dict)

    def outcomes(self, slots: Sequence[Slot]) -> Iterator[Outcome[Any]]:
        """All outcomes, with one process for each slot; all of them have ended when the iterator
        has.
        """
        self._waiting.extend(range(len(self._job.pieces)))
        try:
            for slot in slots[: len(self._job.pieces)]:
                self._start(slot)
            while busy := [each.pipe for each in self._at_work.values() if each.index is not None]:
                for pipe in wait(busy):
                    assert isinstance(pipe, Connection)
                    if (outcome := self._outcome(self._at_work[pipe])) is not None:
                        yield outcome
                for idle in [each for each in self._at_work.values() if each.index is None]:
                    self._give(idle)
        finally:
            for each in self._at_work.values():
                each.pipe.close()
            for each in self._at_work.values():
                each.end()

    def _start(self, slot: Slot) -> None:
        here, there = Pipe()
        gpus = {} if slot.gpus is None else {GPU_VARIABLE: ",".join(slot.gpus)}
        with there:
            # It imports from where this process does, whatever its working directory and
            # environment.
            call = f"from graphdoctor.executors.supervisor import supervise; supervise({there.fileno()}, {os.getpid()})"
            process = subprocess.Popen(
                [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {call}"],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **gpus},
                # A group of its own: Ctrl-C reaches it through us.
                process_group=0,
                pass_fds=(there.fileno(),),
            )
        self._at_work[here] = started = _Supervisor(process, here, slot)
        with contextlib.suppress(OSError):  # it has ended, as will be seen
            here.send((slot.cores, pickle.dumps(self._job.work, pickle.HIGHEST_PROTOCOL)))
        self._give(started)

    def _give(self, idle: _Supervisor) -> None:
        is_first = all(each.index is None for each in self._at_work.values())
        if not self._waiting or not (is_first or self._has_room()):
            return
        idle.index = self._waiting.popleft()
        self._job.begin(idle.index, idle.slot.name)
        # One that has ended says so when it is waited for.
        with contextlib.suppress(OSError):
            idle.pipe.send_bytes(
                pickle.dumps(self._job.pieces[idle.index], pickle.HIGHEST_PROTOCOL)
            )

    def _outcome(self, one: _Supervisor) -> Outcome[Any] | None:
        index = one.index
        assert index is not None
        try:
            found = unpacked(one.pipe.recv_bytes())
        except (EOFError, OSError):
            del self._at_work[one.pipe]
            outcome = self._after_end(index, one.end())
            self._start(one.slot)
            return outcome
        has_ended = isinstance(found, Failure) and found.kind == "ended"
        outcome = self._after_end(index, found.status) if has_ended else (index, found)
        # It works on while the caller takes this outcome.
        one.index = None
        self._give(one)
        return outcome

    def _after_end(self, index: int, status: int | None) -> tuple[int, Failure] | None:
        self._ends[index] += 1
        if self._ends[index] < self._job.attempts:
            # Behind the others: by then less memory may be in use.
            self._waiting.append(index)
            return None
        return index, failure_of_end(status, self._ends[index])


# What a supervisor does.


def supervise(descriptor: int, parent: int) -> None:
    """Work on pieces until the pipe closes."""
    for number in _ENDING_SIGNALS:
        signal.signal(number, _leave)
    _set_for_process(_PR_SET_CHILD_SUBREAPER, 1)
    os.set_inheritable(descriptor, False)
    pipe = Connection(descriptor)
    try:
        cores, packed_work = pipe.recv()
        if cores is not None:
            os.sched_setaffinity(0, cores)
        # Here, not in the process of each piece: what it imports takes a while.
        work = attempt(pickle.loads, packed_work)
        while True:
            pipe.send_bytes(_worked(work, pipe.recv_bytes(), pipe, parent))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    finally:
        _ignore_endings()
        _end_children()


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    _ignore_endings()
    raise EOFError


def _ignore_endings() -> None:
    for number in _ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _worked(
    work: Callable[[Any], object] | Failure, piece: bytes, pipe: Connection, parent: int
) -> bytes:
    receiving, sending = Pipe(duplex=False)
    supervisor = os.getpid()
    process = os.fork()
    if process == 0:
        # The parent learns from this pipe that the supervisor has ended.
        pipe.close()
        receiving.close()
        _work_and_exit(work, piece, sending, supervisor)
    sending.close()
    try:
        with receiving:
            answer = _answer(process, receiving, pipe, parent)
        status = None if answer else _status(process)
    except EOFError:
        # For a while: what the piece is in the middle of may take a signal for its own.
        end = time.monotonic() + _GRACE_S
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            while time.monotonic() < end:
                os.kill(process, signal.SIGTERM)
                if _status(process, _AGAIN_S) is not None:
                    break
        raise
    finally:
        _end_children(process)
    return answer or pickle.dumps(failure_of_end(status, 1), pickle.HIGHEST_PROTOCOL)


def _work_and_exit(
    work: Callable[[Any], object] | Failure, piece: bytes, sending: Connection, supervisor: int
) -> NoReturn:
    received: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
        _ignore_endings()
        received.append(number)
        raise KeyboardInterrupt

    def unpacked_work(packed: bytes) -> object:
        return work if isinstance(work, Failure) else work(pickle.loads(packed))

    try:
        os.setpgid(0, 0)
        _set_for_process(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)
        # If memory runs out, the system ends a piece, not the one that waits for all of them.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
        # As in the main thread of a program: a signal unwinds what has been begun.
        for number in _ENDING_SIGNALS:
            signal.signal(number, interrupt)
        packed = packed_attempt(unpacked_work, piece)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        sending.send_bytes(packed)
        os._exit(0)
    except KeyboardInterrupt:
        ending = received[-1] if received else signal.SIGINT
        signal.signal(ending, signal.SIG_DFL)
        os.kill(os.getpid(), ending)
    finally:
        os._exit(1)


def _answer(process: int, receiving: Connection, pipe: Connection, parent: int) -> bytes | None:
    """What the process of a piece sends; None if it ends before it does."""
    while True:
        ready = wait([receiving, pipe], _POLL_S)
        if receiving in ready:
            with contextlib.suppress(EOFError, OSError):
                return receiving.recv_bytes()
            return None
        # Nothing comes through this pipe while a piece is at work but its end.
        if pipe in ready or os.getppid() != parent:
            raise EOFError
        # What it left running may hold its pipe.
        if _has_ended(process):
            return None


def _has_ended(process: int) -> bool:
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _status(process: int, within_s: float = _GRACE_S) -> int | None:
    end = time.monotonic() + within_s
    while not _has_ended(process):
        if time.monotonic() > end:
            return None
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _end_children(process: int | None = None) -> None:
    end = time.monotonic() + _REAP_S
    while time.monotonic() < end:
        if sys.platform != "linux" and process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process, signal.SIGKILL)
        for descendant in _descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(descendant, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def _descendants() -> list[int]:
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # A name in parentheses, the state, the parent; the name may be anything.
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rpartition(")")[2].split()[1]
            )
    found = {os.getpid()}
    while added := {process for process, parent in parents.items() if parent in found} - found:
        found |= added
    return sorted(found - {os.getpid()})


def _set_for_process(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)

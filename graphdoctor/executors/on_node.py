"""Works on a piece on a node of a cluster, where it was sent.

Comes in: work and a piece. Goes out: its outcome, packed. With a share, the piece is worked on as on this machine: in a
process of its own, held to cores that no other piece on the node has. The cluster counts cores and doesn't say which
ones, so pieces claim them by locks on files, which the system takes back when a process ends. GPUs are those that the
cluster has given to this process.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphdoctor.executors.executor import Failed, Failure, Share, packed_attempt
from graphdoctor.executors.machine import GPU_VARIABLE, Slot, core_groups, this_machine
from graphdoctor.executors.supervisor import Supervisors


@dataclass(frozen=True)
class Sent:
    """Work that was sent to a node."""

    work: Callable[[Any], object]
    share: Share | None
    attempts: int

    def packed_outcome(self, piece: object, on_begin: Callable[[str | None], None]) -> bytes:
        """What ``packed_attempt`` gives for a piece; ``on_begin`` takes the name of what it has of the node."""
        if self.share is not None:
            with _slot(self.share) as slot:
                return packed_attempt(lambda one: self._apart(one, slot, on_begin), piece)
        on_begin(None)
        return packed_attempt(self.work, piece)

    def _apart(self, piece: object, slot: Slot, on_begin: Callable[[str | None], None]) -> object | Failure:
        one = Supervisors(self.work, [piece], self.attempts, lambda _, name: on_begin(name), lambda: True)
        (outcome,) = one.outcomes([slot])
        return outcome.failure if isinstance(outcome, Failed) else outcome.result


@contextlib.contextmanager
def _slot(share: Share) -> Iterator[Slot]:
    named = os.environ.get(GPU_VARIABLE)
    given = None if named is None else tuple(filter(None, named.split(",")))
    with claimed_cores(share.cpus) as cores:
        yield Slot(1, cores, given if share.gpus else ())


@contextlib.contextmanager
def claimed_cores(count: int | None, folder: Path | None = None) -> Iterator[tuple[int, ...] | None]:
    """So many cores that nobody else who asks here has meanwhile; None where there are none, or none can be pinned."""
    machine = this_machine()
    if count is None or not machine.can_pin:
        yield None
        return
    folder = folder or Path(tempfile.gettempdir()) / f"graphdoctor-cores-{os.getuid()}"
    with contextlib.ExitStack() as locks:
        yield _claim(core_groups(machine.siblings, count), folder, locks)


def _claim(groups: list[tuple[int, ...]], folder: Path, locks: contextlib.ExitStack) -> tuple[int, ...] | None:
    """The first group of which all cores are free."""
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.ExitStack() as turn:
            # One after the other: two that each hold half a group would both go without.
            _lock(folder / "turn", turn, wait=True)
            for group in groups:
                with contextlib.ExitStack() as claim, contextlib.suppress(BlockingIOError):
                    for core in group:
                        _lock(folder / str(core), claim)
                    locks.push(claim.pop_all())
                    return group
    return None


def _lock(path: Path, holder: contextlib.ExitStack, *, wait: bool = False) -> None:
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    holder.callback(os.close, descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))

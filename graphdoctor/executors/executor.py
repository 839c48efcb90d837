"""What an executor is, how a piece of work can come out, and which executor ``--jobs`` and ``--on``
ask for.
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from graphdoctor.errors import GraphDoctorError

Piece = TypeVar("Piece")
Result = TypeVar("Result")

ATTEMPTS = 2
"""How many processes may end over one piece, unless the caller says otherwise."""


@dataclass(frozen=True)
class Failure:
    """Why a piece has no result: a clause, the traceback of an unexpected exception, the exit
    status of what ended.
    """

    kind: Literal["raised", "memory", "ended", "lost"]
    reason: str
    details: str | None = None
    status: int | None = None


Outcome: TypeAlias = tuple[int, Result | Failure]
"""A piece's place among all, from 0, and what the work returned for it, or why it failed for
good."""

OnBegin: TypeAlias = Callable[[int, str | None], None]
"""Takes the index of a piece that begins, and where it does, such as ``cores 0-1``; None if that
has no name."""


@dataclass(frozen=True)
class Share:
    """What a piece has for itself: cores, None for none of its own; GPUs; memory that must be free
    when it begins.

    ``gpus``: 0 hides those of the machine; with None a piece sees all that this process does, and
    none is its own.
    """

    cpus: int | None
    gpus: int | None = 0
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Job:
    """What ``Executor.run`` is asked for."""

    work: Callable[[Any], object]
    pieces: Sequence[Any]
    ahead: int
    share: Share | None
    attempts: int
    on_begin: OnBegin | None

    def may_begin(self, waiting: Sequence[int], at_work: Collection[int]) -> bool:
        """Whether there is a piece that isn't too far ahead."""
        return bool(waiting) and waiting[0] <= min(at_work, default=waiting[0]) + self.ahead

    def begin(self, index: int, place: str | None = None) -> None:
        """Tell whoever wants to know that a piece begins."""
        if self.on_begin is not None:
            self.on_begin(index, place)


class Executor(ABC):
    """Something that works on pieces."""

    jobs: int = 1
    """How many pieces it works on at once in this machine's processes; 1 if none or elsewhere."""

    @property
    def elsewhere(self) -> str | None:
        """What to call it if it isn't this machine's processes, such as "a Ray cluster"; else
        None.
        """
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
        """One outcome for each piece, as they come. Work stops when the iterator is closed.

        Args:
            work: A function of module level that depends on its piece alone.
            pieces: What it is called with, once each.
            ahead: How far a piece may be from the first one without an outcome to be begun, for a
                caller that puts outcomes in order and holds those that come too early; None for any
                distance. Not for a share.
            share: What each piece has for itself. Each is then worked on in a process of its own,
                in the main thread, and whatever it leaves running is ended before its outcome
                comes. None for pieces that disturb nobody.
            attempts: How many processes of a share may end over a piece, from 1. It says nothing of
                nodes that end.
            on_begin: Called here when a piece begins, each time that it does, and before its
                outcome comes.
        """
        distance = len(pieces) if ahead is None else ahead
        return self.outcomes(Job(work, pieces, distance, share, attempts, on_begin))

    @abstractmethod
    def outcomes(self, job: Job) -> Iterator[Outcome[Any]]:
        """All outcomes, as they come."""


def attempt(work: Callable[[Piece], Result], piece: Piece) -> Result | Failure:
    """Call ``work``, and make what it raises a failure."""
    try:
        return work(piece)
    except MemoryError:
        return Failure("memory", "it ran out of memory")
    except GraphDoctorError as error:
        return Failure("raised", error.message)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the other pieces go on
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return Failure("raised", words, "".join(traceback.format_exception(error)))


def failure_of_end(status: int | None, count: int) -> Failure:
    """The failure of a piece over which ``count`` processes ended; ``status`` is the last one's,
    None if unknown.
    """
    times = {1: "", 2: " twice"}.get(count, f" {count} times")
    if status == -signal.SIGKILL:
        how = f"was killed{times} (SIGKILL), as the system does when memory runs out"
    elif status is not None and status < 0:
        known = {each.value: each.name for each in signal.Signals}
        how = f"ended{times} ({known.get(-status, f'signal {-status}')})"
    else:
        how = f"ended{times} (exit status {'unknown' if status is None else status})"
    return Failure("ended", f"its process {how}", status=status)


def packed_attempt(work: Callable[[Any], object], piece: object) -> bytes:
    """As ``attempt``, for another process to unpack."""
    packed = attempt(lambda one: pickle.dumps(attempt(work, one), pickle.HIGHEST_PROTOCOL), piece)
    return packed if isinstance(packed, bytes) else pickle.dumps(packed, pickle.HIGHEST_PROTOCOL)


def unpacked(packed: bytes) -> Any:  # noqa: ANN401
    """The result or the failure that ``packed_attempt`` came to elsewhere."""
    return attempt(pickle.loads, packed)


@dataclass(frozen=True)
class Environment:
    """A runtime environment of Ray's; without ``working_dir``, nodes work in the folder of the same
    path as here.
    """

    working_dir: str | None = None
    pip: tuple[str, ...] = ()
    env_vars: Mapping[str, str] = field(default_factory=dict)
    py_modules: tuple[str, ...] = ()

    def described(self) -> dict[str, object]:
        """As ``ray.init`` takes it; empty for none."""
        for folder in (*filter(None, [self.working_dir]), *self.py_modules):
            if not Path(folder).is_dir():
                raise GraphDoctorError(
                    f"{folder} can't be copied to the nodes of a cluster: it isn't a folder."
                )
        fields = {
            "working_dir": self.working_dir and str(Path(self.working_dir).absolute()),
            "pip": list(self.pip),
            "env_vars": dict(self.env_vars),
            "py_modules": [str(Path(folder).absolute()) for folder in self.py_modules],
        }
        return {name: value for name, value in fields.items() if value}


def executor_for(
    *,
    jobs: int | None = None,
    on: str | None = None,
    runtime_env: Environment | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Executor:
    """The executor that ``--jobs`` and ``--on`` ask for; nothing is started yet, and Ray isn't
    imported.
    """
    if on is None:
        from graphdoctor.executors.local import Local
        from graphdoctor.executors.machine import cores

        if runtime_env is not None:
            raise GraphDoctorError(
                "A runtime environment is for the nodes of a cluster.", hint="Use it with --on ray."
            )
        return Local(cores() if jobs is None else jobs)
    from graphdoctor.executors.on_ray import OnRay

    if on == "ray":
        named = environment.get("RAY_ADDRESS") or None
        return OnRay(None if named == "local" else named, jobs, runtime_env)
    if not on.startswith("ray://") or on == "ray://":
        raise GraphDoctorError(
            f"--on {on} names no executor.",
            hint="Executors are ray and ray://HOST:PORT, such as ray://head:10001.",
        )
    return OnRay(on, jobs, runtime_env)

"""An executor, which runs one function over many pieces of work, and how a piece can come out."""

from __future__ import annotations

import pickle
import signal
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from graphdoctor.errors import GraphDoctorError

Piece = TypeVar("Piece")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Failure:
    """The reason why a piece has no result: a clause, the traceback of an unexpected exception,
    the exit status of the process that ended.
    """

    kind: Literal["raised", "memory", "ended", "lost"]
    reason: str
    details: str | None = None
    status: int | None = None


Outcome: TypeAlias = tuple[int, Result | Failure]
"""The index of a piece, from 0, and its result, or why it failed for good."""

OnBegin: TypeAlias = Callable[[int, str], None]
"""Takes the index of a piece that begins, and the name of its slot, such as ``cores 0-1``."""


@dataclass(frozen=True)
class Share:
    """Resources of one piece: cores, None for none of its own; GPUs; memory that must be free when
    it begins.

    ``gpus``: 0 hides those of the machine, less than 1 is a GPU that several pieces share; with
    None a piece sees all that this process does, and none is its own.
    """

    cpus: int | None
    gpus: float | None = 0
    memory_bytes: int | None = None


class Executor(ABC):
    """Something that works on pieces."""

    jobs: int = 1
    """Processes of this machine that work at once; 1 for none, or on a cluster."""

    cluster: str | None = None
    """A name of the cluster, such as "the Ray cluster at head:6379"; None for this machine."""

    @abstractmethod
    def run(
        self,
        work: Callable[[Piece], Result],
        pieces: Sequence[Piece],
        *,
        share: Share | None = None,
        on_begin: OnBegin | None = None,
    ) -> Iterator[Outcome[Result]]:
        """Yield one outcome for each piece, as they come. Work stops when the iterator is closed.

        Args:
            work: A function of module level that depends on its piece alone.
            pieces: Its arguments, one for each call.
            share: Resources of each piece, which then runs in the main thread of a process; a
                process that ends fails its piece. None for pieces that disturb nobody.
            on_begin: Called when a piece with a share begins on this machine.
        """


def attempt(work: Callable[[Piece], Result], piece: Piece) -> Result | Failure:
    """Call ``work``, and make what it raises a failure."""
    try:
        return work(piece)
    except MemoryError:
        return Failure("memory", "it ran out of memory")
    except GraphDoctorError as error:
        return Failure("raised", error.message)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, other pieces go on
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return Failure("raised", words, "".join(traceback.format_exception(error)))


def failure_of_end(status: int | None) -> Failure:
    """Return the failure of a piece whose process ended; ``status``: None if unknown."""
    if status == -signal.SIGKILL:
        how = "was killed (SIGKILL), as the system does when memory runs out"
    elif status is not None and status < 0:
        names = {number.value: number.name for number in signal.Signals}
        how = f"ended ({names.get(-status, f'signal {-status}')})"
    else:
        how = f"ended (exit status {'unknown' if status is None else status})"
    return Failure("ended", f"its process {how}", status=status)


def packed_attempt(work: Callable[[Any], object], piece: object) -> bytes:
    """Do as ``attempt``, and pickle the outcome for another process."""
    packed = attempt(lambda piece: pickle.dumps(attempt(work, piece)), piece)
    return packed if isinstance(packed, bytes) else pickle.dumps(packed)


def unpacked(packed: bytes) -> Any:  # noqa: ANN401
    """Return the outcome that ``packed_attempt`` pickled elsewhere."""
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

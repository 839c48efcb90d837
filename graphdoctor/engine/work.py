"""What an engine is, and how a piece of work can come out.

Comes in: a function of module level and pieces of work, all picklable. Goes out: one outcome for each piece, in any
order. A piece that fails is an outcome too, so that it costs no other piece.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from graphdoctor.errors import GraphDoctorError

Piece = TypeVar("Piece")
Result = TypeVar("Result")

FailureKind = Literal["raised", "memory", "ended", "lost"]


@dataclass(frozen=True)
class Failure:
    """Why a piece has no result.

    Args:
        kind: ``raised``: the work raised an exception; ``memory``: it ran out of memory; ``ended``: its process ended,
            and so did the one that tried again; ``lost``: the cluster gave it up.
        reason: One clause that says what happened, from outside in part.
        details: The traceback of an unexpected exception, or None.
    """

    kind: FailureKind
    reason: str
    details: str | None = None


@dataclass(frozen=True)
class Done(Generic[Result]):
    """A piece that was worked on.

    Args:
        index: Its place among the pieces, from 0.
        result: What the work returned.
    """

    index: int
    result: Result


@dataclass(frozen=True)
class Failed:
    """A piece that failed for good.

    Args:
        index: Its place among the pieces, from 0.
        failure: Why.
    """

    index: int
    failure: Failure


Outcome: TypeAlias = Done[Result] | Failed


class Engine(Protocol):
    """Something that works on pieces."""

    @property
    def jobs(self) -> int:
        """How many pieces it works on at once in this machine's processes; 1 if none or elsewhere."""

    @property
    def elsewhere(self) -> str | None:
        """What to call it if it isn't this machine's processes, such as "a Ray cluster"; else None."""

    def run(
        self, work: Callable[[Piece], Result], pieces: Sequence[Piece], *, ahead: int | None = None
    ) -> Iterator[Outcome[Result]]:
        """Work on pieces.

        Args:
            work: A function of module level that depends on its piece alone.
            pieces: What it is called with, once each.
            ahead: How far a piece may be from the first one without an outcome to be begun, for a caller that puts
                outcomes in order and holds those that come too early; None for any distance.

        Yields:
            One outcome for each piece, as they come. Work stops when the iterator is closed.

        Raises:
            GraphDoctorError: The engine itself can't be used.
        """


def attempt(work: Callable[[Piece], Result], piece: Piece) -> Result | Failure:
    """Call ``work``, and make what it raises a failure."""
    try:
        return work(piece)
    except MemoryError:
        return Failure("memory", "it ran out of memory")
    except GraphDoctorError as error:
        return Failure("raised", error.message)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the other pieces go on
        return failure_of(error)


def failure_of(error: BaseException) -> Failure:
    """An exception that nobody expected, as a failure."""
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Failure("raised", words, "".join(traceback.format_exception(error)))


def packed_attempt(work: Callable[[Any], object], piece: object) -> bytes:
    """As ``attempt``, for another process to unpack."""
    found = attempt(work, piece)
    try:
        return pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        found = Failure("memory", "it ran out of memory")
    except Exception as error:  # noqa: BLE001 - pickling raises whatever an object's own methods raise
        found = failure_of(error)
    return pickle.dumps(found, pickle.HIGHEST_PROTOCOL)


def outcome_of(index: int, found: Result | Failure) -> Outcome[Result]:
    """What an attempt came to, for the piece with this index."""
    return Failed(index, found) if isinstance(found, Failure) else Done(index, found)


def unpacked(index: int, packed: bytes) -> Outcome[Any]:
    """The outcome that ``packed_attempt`` made elsewhere."""
    return outcome_of(index, attempt(pickle.loads, packed))

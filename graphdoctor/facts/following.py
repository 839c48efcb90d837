"""What is seen of logs while they are being written: facts as they happen, and counts so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class LogBegun:
    """A log that is followed from now on."""

    name: str


@dataclass(frozen=True)
class LogStartedOver:
    """A log whose earlier content is gone; its counts begin anew.

    Args:
        why: ``replaced``: another file or other content is in its place; ``truncated``: it's
            shorter than before; ``gone``: there is no file.
    """

    name: str
    why: Literal["replaced", "truncated", "gone"]


@dataclass(frozen=True)
class Writer:
    """The process that a fact is about, by its log; its rank is None if unknown."""

    log: str
    rank: int | None


@dataclass(frozen=True)
class BreakSeen:
    """The first break at a line; None where torch doesn't say which.

    Args:
        reason: torch's name for it, or its first words.
        is_skip: Whether torch runs the whole frame eagerly.
    """

    writer: Writer
    compile_id: str | None
    file: str | None
    line: int | None
    reason: str
    is_skip: bool


@dataclass(frozen=True)
class RecompileSeen:
    """A recompile, or a call that was over the recompile limit.

    Args:
        resumes_at: The line from which it resumes; None for a function from its beginning.
        expression: The value that changed, in the user's words; None if torch doesn't say.
        is_over_limit: Whether torch gives up and runs the function eagerly from now on.
    """

    writer: Writer
    compile_id: str
    function: str | None
    resumes_at: int | None
    expression: str | None
    old: str | None
    new: str | None
    is_over_limit: bool


Seen = LogBegun | LogStartedOver | BreakSeen | RecompileSeen


@dataclass(frozen=True)
class Counts:
    """What one process has done so far; None if torch told the time of no compile that ended."""

    compiles: int = 0
    graphs: int = 0
    break_sites: int = 0
    recompiles: int = 0
    compile_s: float | None = None


@dataclass(frozen=True)
class SoFar:
    """What so many logs hold so far, by each process that has compiled something."""

    logs: int
    processes: tuple[Counts, ...]

"""What can be compared of one compile with the same compile on another rank, without the texts
themselves.
"""

from __future__ import annotations

from typing import Literal

from .base import Fact

CacheAnswer = Literal["hit", "miss", "bypass"]
"""What a cache says of a graph; ``bypass``: it can't be kept."""


class CompileMark(Fact):
    """What one compile made, as digests of texts in which only what can differ for a reason is
    left.

    Device numbers, addresses and comments are taken out, since each rank has its own.
    """

    compile_id: str
    """As in the recording."""
    operations: str | None = None
    """Digest of the printed graphs without shapes and numbers; None if there is no graph."""
    graph: str | None = None
    """Digest of the printed graphs; None if there is none."""
    guards: str | None = None
    """Digest of the guards; None if the log has none."""
    collectives: tuple[str, ...] | None = None
    """The collectives that Inductor scheduled, in order; None if the log doesn't say."""
    estimates: str | None = None
    """Digest of Inductor's estimate of each operation's run time and tensors, without the times;
    None if the log has none."""
    mismatch: tuple[str, ...] = ()
    """The first difference that torch found when it compared the graphs of all ranks, a line for
    each of two; empty if it found none or wasn't asked for."""
    cache: CacheAnswer | None = None
    """What torch's caches on disk said of its graphs, the worst answer of all; None if they weren't
    asked."""
    began_s: float | None = None
    """When it began, in seconds on the clock of its machine, which has no year; None if its begin
    isn't in the log."""
    ended_s: float | None = None
    """When it ended."""
    graph_text: str | None = None
    """The printed graphs that ``graph`` is of; None unless asked for."""
    guards_text: str | None = None
    """The guards that ``guards`` is of; None unless asked for."""


class LogSpan(Fact):
    """The compiles of one process, and when it wrote its log."""

    marks: tuple[CompileMark, ...] = ()
    """In the order of the compiles."""
    first_s: float | None = None
    """When the first record was written, as ``began_s``; None if the log has none."""
    last_s: float | None = None
    """When the last one was."""
    executed: tuple[str, ...] | None = None
    """Compile ids of the graphs that ran, in the order in which they ran; None if torch didn't log
    it."""
    is_ended: bool | None = None
    """Whether the process ran to its end; None in a log that graphdoctor didn't record."""

"""The facts of ``watch``: what torch.compile does in a program that runs on, event by event."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from .base import Fact

WatchKind = Literal["compile", "recompile", "backward", "cuda_graph", "cuda_graph_skipped", "limit"]
"""``compile``: a function's first; ``recompile``: another one; ``backward``: a backward graph that
was compiled when it was first needed; ``cuda_graph``: one that was recorded; ``limit``: a function
reached its recompile limit, so that new values run eagerly."""

CacheResult = Literal["hit", "miss", "bypass"]


class WatchEvent(Fact):
    """Something that torch.compile did."""

    kind: WatchKind
    time_s: float
    """When it ended, in seconds since the epoch."""
    step: int | None = None
    """The program's step, where it says so; None if it doesn't."""
    trace_id: str | None = None
    """The OpenTelemetry trace in which it happened, as 32 hexadecimal digits; None outside of
    one."""
    rank: int | None = None
    compile_id: str | None = None
    """torch's id of the compile, such as ``0/1``; None if it isn't about one."""
    function: str | None = None
    file: str | None = None
    line: int | None = None
    """First line of the function, or of its part after a graph break, from 1."""
    seconds: float | None = None
    """Of the compile; None if torch doesn't say."""
    reason: str | None = None
    """Why it was compiled again, or the limit that was reached, in torch's words."""
    causes: tuple[str, ...] = ()
    """The values that changed, with the change, such as ``x.shape[0]: 8 → 5``; empty if unknown."""
    graph_breaks: int | None = None
    """Graph breaks of this compile; None if torch doesn't say."""
    cache: dict[str, CacheResult] = field(default_factory=dict)
    """What torch's caches did, by layer; empty if none was asked."""
    is_ok: bool = True
    """False if the compile failed, or was blocked."""
    is_locked: bool = False
    """True if it came after the watch was locked."""
    is_blocked: bool = False
    """True if the lock kept it from compiling: the call raised, or ran eagerly."""

"""What ``graphdoctor.watch`` saw, a line for each event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.watch import WatchEvent, WatchKind
from graphdoctor.views.words import step
from graphdoctor.wording import counted, duration, join_texts

_KINDS: dict[WatchKind, str] = {
    "compile": "compiled",
    "recompile": "recompiled",
    "backward": "compiled the backward of",
    "cuda_graph": "recorded a CUDA graph of",
    "cuda_graph_skipped": "skipped CUDA graphs of",
    "limit": "recompile limit, so new values run eagerly:",
}


def is_warning(event: WatchEvent) -> bool:
    """Return whether it is worth a warning in a program that has been running for a while."""
    return (
        event.is_locked
        or not event.is_ok
        or event.kind not in ("compile", "backward", "cuda_graph")
    )


def event_line(event: WatchEvent) -> str:
    """Say what happened, to which function, when and why, in one line."""
    return "".join(_parts(event))


def _parts(event: WatchEvent) -> Iterator[str]:
    did = _KINDS[event.kind]
    if event.is_blocked:
        did = f"blocked a {event.kind} of"
    elif not event.is_ok and event.kind != "limit":
        did = f"failed: {did}"
    yield did
    yield f" {event.function or 'a function'}"
    if event.file is not None:
        yield f" ({PurePath(event.file).name}:{event.line})"
    if event.step is not None:
        yield f" at step {event.step}"
    if event.rank is not None:
        yield f" on rank {event.rank}"
    if event.seconds is not None:
        yield f" in {duration(event.seconds * 1e6)}"
    if event.graph_breaks:
        yield f", {counted(event.graph_breaks, 'graph break')}"
    if event.is_locked and not event.is_blocked:
        yield ", though locked"
    yield _why(event)


def _why(event: WatchEvent) -> str:
    why = "; ".join(event.causes) or " ".join((event.reason or "").split())
    return why and f": {why}"


def change_text(change: GuardChange) -> str:
    """Return a value's name with what it was and is, such as ``x.shape[0]: 8 → 5``."""
    return join_texts(": ", change.expression, step(change))


def summary_line(
    *, compiles: int, recompiles: int, limit_hits: int, graph_breaks: int, seconds: float
) -> str:
    """Say what a watch has counted, in a line."""
    counts = (
        counted(compiles, "compile"),
        f"{counted(recompiles, 'recompile')} among them" if recompiles else None,
        counted(graph_breaks, "graph break") if graph_breaks else None,
        counted(limit_hits, "limit hit") if limit_hits else None,
        f"{duration(seconds * 1e6)} of compiling" if compiles else None,
    )
    return join_texts(", ", *counts)

"""What ``graphdoctor.watch`` saw, a line for each event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from graphdoctor.facts.watch import WatchEvent, WatchKind
from graphdoctor.wording import counted, duration

_KINDS: dict[WatchKind, str] = {
    "compile": "compiled",
    "recompile": "recompiled",
    "backward": "compiled the backward of",
    "cuda_graph": "recorded a CUDA graph of",
    "cuda_graph_skipped": "skipped CUDA graphs of",
    "limit": "recompile limit: eager from now on",
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
    if event.kind == "lost":
        return f"{counted(event.count, 'event')} lost: the sinks are too slow"
    return "".join(_parts(event))


def _parts(event: WatchEvent) -> Iterator[str]:
    did = _KINDS[event.kind]
    yield did if event.is_ok else f"failed: {did}"
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
    if event.is_locked:
        yield ", though locked"
    if event.causes or event.reason:
        yield f": {'; '.join(event.causes) or ' '.join((event.reason or '').split())}"

"""What torch compiles, and when, from the records of its own trace.

A compile counts as it does in a recording: metrics that claim guarded code and count its guards.
Its start and end are those of the ``chromium_event`` records around it.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..torch_private import torch_api, torch_trace

_ENTRY = re.compile(r"^\d+/\d+: ")


@dataclass
class TimedCompile:
    """One compile, by ``time.perf_counter``; it has no end while it isn't over.

    ``is_frame``: it compiles a frame; False for a backward graph, which a cache can make
    unnecessary.
    """

    compile_id: str | None
    start: float
    end: float | None
    is_frame: bool


@dataclass
class Compiled:
    """What was compiled meanwhile."""

    count: int = 0
    """Compiles that got guarded code."""
    seconds: float = 0.0
    """Time of all compiles as torch measured it, including those without guarded code."""
    is_over_limit: bool = False
    """A frame hit its recompile limit, and runs eagerly from then on."""
    reason: str | None = None
    """The first guard that failed, in torch's words."""
    spans: list[TimedCompile] = field(default_factory=list)


class CompileWatch(torch_trace.TraceLooker):
    """A handler on torch's trace logger."""

    def __init__(self) -> None:
        super().__init__()
        self._compiled = Compiled()
        self._open: dict[tuple[int, str], list[TimedCompile]] = {}

    def taken(self) -> Compiled:
        """What was compiled since the last time."""
        compiled, self._compiled, self._open = self._compiled, Compiled(), {}
        return compiled

    def look_at(self, metadata: dict[str, Any], payload: str | None) -> None:
        """Count a compile, or note where it begins or ends."""
        compiled = self._compiled
        if metadata.get("artifact", {}).get("name") == "recompile_reasons":
            compiled.reason = compiled.reason or _first_reason(str(payload or ""))
        elif "chromium_event" in metadata:
            event = json.loads(payload or "{}")
            if (name := event.get("name")) in (torch_api.FRAME_PHASE, torch_api.BACKWARD_PHASE):
                self._note(metadata, name, event["ph"])
        # A backward graph compiled later has metrics of its own.
        elif (metrics := metadata.get("compilation_metrics", {})) and metrics.get(
            "is_forward"
        ) is not False:
            compiled.count += (
                bool(metrics.get("has_guarded_code")) and metrics.get("guard_count") is not None
            )
            compiled.is_over_limit |= self.is_over_limit(metadata)
            compiled.seconds += (metrics.get("duration_us") or 0) / 1e6

    def _note(self, metadata: dict[str, Any], name: str, phase: str) -> None:
        started = self._open.setdefault((threading.get_ident(), name), [])
        if phase == "B":
            compile_id = torch_trace.compile_id(metadata)
            started.append(
                TimedCompile(compile_id, time.perf_counter(), None, name == torch_api.FRAME_PHASE)
            )
            self._compiled.spans.append(started[-1])
        elif phase == "E":
            started.pop().end = time.perf_counter()


def _first_reason(text: str) -> str | None:
    """The newest cache entry's first failed guard, without its compile id and the place that torch
    adds.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    first = str(value[0] if isinstance(value, list) and value else value)
    return _ENTRY.sub("", first.strip()).split("\n")[0].partition("  #")[0].strip() or None


@contextlib.contextmanager
def watched_compiles() -> Iterator[CompileWatch]:
    """Count compiles, and write none of torch's records to its log, while the context lasts."""
    watch = CompileWatch()
    with torch_trace.trace_files_paused(), watch.listening():
        yield watch

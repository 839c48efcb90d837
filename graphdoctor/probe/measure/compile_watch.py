"""What torch compiles in a call, and when, from the records of its own trace.

``CompileWatch`` counts: a compile is what it is in a recording, metrics that claim guarded code and count its guards.
``CompileTimes`` notes start and end, from the ``chromium_event`` records around each compile.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..torch_private import torch_api, torch_trace

_ENTRY = re.compile(r"^\d+/\d+: ")


@dataclass
class Compiled:
    """What one call compiled."""

    count: int = 0
    """Compiles that got guarded code."""
    seconds: float = 0.0
    """Time of all compiles as torch measured it, including those without guarded code."""
    is_over_limit: bool = False
    reason: str | None = None
    """The first guard that failed, in torch's words."""


class CompileWatch(torch_trace.TraceLooker):
    """A handler on torch's trace logger."""

    def __init__(self) -> None:
        super().__init__()
        self._compiled = Compiled()

    def taken(self) -> Compiled:
        """What was compiled since the last time."""
        compiled, self._compiled = self._compiled, Compiled()
        return compiled

    def look_at(self, metadata: dict[str, Any], payload: str | None) -> None:
        """Count a compile."""
        if metadata.get("artifact", {}).get("name") == "recompile_reasons" and self._compiled.reason is None:
            self._compiled.reason = _first_reason(str(payload or ""))
        # A backward graph compiled later has metrics of its own.
        elif (metrics := metadata.get("compilation_metrics", {})) and metrics.get("is_forward") is not False:
            self._compiled.count += bool(metrics.get("has_guarded_code")) and metrics.get("guard_count") is not None
            self._compiled.is_over_limit |= self.is_over_limit(metadata)
            self._compiled.seconds += (metrics.get("duration_us") or 0) / 1e6


def _first_reason(text: str) -> str | None:
    """The newest cache entry's first failed guard, without its compile id and the place that torch adds."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    first = str(value[0] if isinstance(value, list) and value else value)
    line = _ENTRY.sub("", first.strip()).split("\n")[0].partition("  #")[0].strip()
    return line or None


@contextlib.contextmanager
def watched_compiles() -> Iterator[CompileWatch]:
    """Count compiles, and write none of torch's records to its log, while the context lasts."""
    watch = CompileWatch()
    with torch_trace.trace_files_paused(), watch.listening():
        yield watch


@dataclass(frozen=True)
class TimedCompile:
    """One compile, by ``time.perf_counter``; it has no end while it isn't over."""

    compile_id: str | None
    start: float
    end: float | None
    is_frame: bool
    """It compiles a frame; False for a backward graph, which a cache can make unnecessary."""
    is_begun: bool = False
    """torch began to analyze the frame; False for one over its recompile limit."""

    @property
    def is_over_limit(self) -> bool:
        """The frame is over its recompile limit, and runs eagerly from then on."""
        return self.is_frame and self.end is not None and not self.is_begun


class CompileTimes(torch_trace.TraceLooker):
    """A handler on torch's trace logger that notes start and end of each compile by ``time.perf_counter``."""

    def __init__(self) -> None:
        super().__init__()
        self._spans: list[TimedCompile] = []
        self._open: dict[tuple[int, str], list[int]] = {}

    def taken(self) -> list[TimedCompile]:
        """The compiles since the last time."""
        spans, self._spans, self._open = self._spans, [], {}
        return spans

    def look_at(self, metadata: dict[str, Any], payload: str | None) -> None:
        """Note where a compile begins or ends."""
        if "dynamo_start" in metadata:
            number = self._open[threading.get_ident(), torch_api.FRAME_PHASE][-1]
            self._spans[number] = replace(self._spans[number], is_begun=True)
        elif "chromium_event" in metadata:
            event = json.loads(payload or "{}")
            if (name := event.get("name")) in (torch_api.FRAME_PHASE, torch_api.BACKWARD_PHASE):
                self._note(metadata, name, event["ph"])

    def _note(self, metadata: dict[str, Any], name: str, phase: str) -> None:
        started = self._open.setdefault((threading.get_ident(), name), [])
        if phase == "B":
            started.append(len(self._spans))
            frame, count = torch_trace.compile_key(metadata)
            compile_id = None if frame is None or count is None else f"{frame}/{count}"
            is_frame = name == torch_api.FRAME_PHASE
            self._spans.append(TimedCompile(compile_id, time.perf_counter(), None, is_frame=is_frame))
        elif phase == "E":
            number = started.pop()
            self._spans[number] = replace(self._spans[number], end=time.perf_counter())

"""When torch compiled what, from the ``chromium_event`` records that it writes around each compile."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from dataclasses import dataclass, replace
from typing import Any

from ..torch_private import torch_api


@dataclass(frozen=True)
class TimedCompile:
    """One compile.

    Args:
        compile_id: Such as ``0/1``; None when torch gave none.
        end: By ``time.perf_counter``; None while it isn't over.
        is_frame: It compiles a frame; False for a backward graph, which a cache can make unnecessary.
        is_begun: torch began to analyze the frame; False for one over its recompile limit.
    """

    compile_id: str | None
    start: float
    end: float | None
    is_frame: bool
    is_begun: bool = False

    @property
    def is_over_limit(self) -> bool:
        """The frame is over its recompile limit, and runs eagerly from then on."""
        return self.is_frame and self.end is not None and not self.is_begun


class CompileTimes(logging.Handler):
    """A handler on torch's trace logger that notes start and end of each compile by ``time.perf_counter``."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._spans: list[TimedCompile] = []
        self._open: dict[tuple[int, str], list[int]] = {}

    def taken(self) -> list[TimedCompile]:
        """The compiles since the last time."""
        spans, self._spans, self._open = self._spans, [], {}
        return spans

    def emit(self, record: logging.LogRecord) -> None:
        """Look at one structured record; an error here must never reach the program that is being compiled."""
        metadata = getattr(record, "metadata", None)
        if not isinstance(metadata, dict):
            return
        with contextlib.suppress(TypeError, ValueError, AttributeError, LookupError):
            if "dynamo_start" in metadata:
                number = self._open[threading.get_ident(), torch_api.FRAME_PHASE][-1]
                self._spans[number] = replace(self._spans[number], is_begun=True)
            elif "chromium_event" in metadata:
                self._look_at(metadata, json.loads(getattr(record, "payload", None) or "{}"))

    def _look_at(self, metadata: dict[str, Any], event: dict[str, Any]) -> None:
        name = event.get("name")
        if name not in (torch_api.FRAME_PHASE, torch_api.BACKWARD_PHASE):
            return
        started = self._open.setdefault((threading.get_ident(), name), [])
        if event["ph"] == "B":
            started.append(len(self._spans))
            frame, count = metadata.get("frame_id"), metadata.get("frame_compile_id")
            compile_id = None if frame is None or count is None else f"{frame}/{count}"
            is_frame = name == torch_api.FRAME_PHASE
            self._spans.append(TimedCompile(compile_id, time.perf_counter(), None, is_frame=is_frame))
        elif event["ph"] == "E":
            number = started.pop()
            self._spans[number] = replace(self._spans[number], end=time.perf_counter())

"""When torch compiled what, by the ``chromium_event`` records that it writes around each compile."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from typing import Any

from . import torch_api


class CompileTimes(logging.Handler):
    """A handler on torch's trace logger that notes start and end of each compile by ``time.perf_counter``."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._spans: list[tuple[str | None, float, float | None]] = []
        self._open: dict[tuple[int, str], list[int]] = {}

    def taken(self) -> list[tuple[str | None, float, float | None]]:
        """Compile id, start and end of each compile since the last time; no end for one that is not over."""
        spans, self._spans, self._open = self._spans, [], {}
        return spans

    def emit(self, record: logging.LogRecord) -> None:
        """Look at one structured record; trouble here must never reach the program that is being compiled."""
        metadata = getattr(record, "metadata", None)
        if isinstance(metadata, dict) and "chromium_event" in metadata:
            with contextlib.suppress(TypeError, ValueError, AttributeError, IndexError):
                self._look_at(metadata, json.loads(getattr(record, "payload", None) or "{}"))

    def _look_at(self, metadata: dict[str, Any], event: dict[str, Any]) -> None:
        if event.get("name") not in torch_api.COMPILE_PHASES:
            return
        started = self._open.setdefault((threading.get_ident(), event["name"]), [])
        if event["ph"] == "B":
            started.append(len(self._spans))
            frame, count = metadata.get("frame_id"), metadata.get("frame_compile_id")
            compile_id = None if frame is None or count is None else f"{frame}/{count}"
            self._spans.append((compile_id, time.perf_counter(), None))
        elif event["ph"] == "E":
            number = started.pop()
            self._spans[number] = (*self._spans[number][:2], time.perf_counter())

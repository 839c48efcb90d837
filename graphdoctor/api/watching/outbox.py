"""The way from the program to the sinks: a bounded queue and a daemon thread."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from graphdoctor.api.watching.sinks import LOGGER, Sink
from graphdoctor.facts.watch import WatchEvent

_MOST_WAITING = 4096
_CLOSE_S = 5.0
"""How long the end of a program waits for its sinks."""


class Outbox:
    """Hands events to the sinks in the background; what the sinks do never reaches the program."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks
        self._failed: set[int] = set()
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._queue: queue.Queue[WatchEvent | None] = queue.Queue(_MOST_WAITING)
        self._lost = 0
        self.lost_count = 0
        self._thread = threading.Thread(target=self._work, name="graphdoctor.watch", daemon=True)
        self._thread.start()

    def put(self, event: WatchEvent) -> None:
        """Have an event exported; counts it as lost if too many wait already."""
        if self._pid != os.getpid():
            # A forked process has no thread but the one that forked.
            self._begin()
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self._lost += 1
            self.lost_count += 1

    def close(self) -> None:
        """Export what waits and close the sinks, if they do so within a few seconds."""
        if self._pid != os.getpid():
            return
        with suppress(queue.Full):
            self._queue.put(None, timeout=_CLOSE_S)
            self._thread.join(_CLOSE_S)

    def _work(self) -> None:
        while (event := self._queue.get()) is not None:
            self._export(event)
            if self._lost:
                lost, self._lost = self._lost, 0
                self._export(WatchEvent(kind="lost", time_s=time.time(), count=lost))
        for sink in self._sinks:
            with suppress(Exception):
                sink.close()

    def _export(self, event: WatchEvent) -> None:
        for sink in self._sinks:
            try:
                sink.export(event)
            except Exception:
                if id(sink) not in self._failed:
                    self._failed.add(id(sink))
                    name = type(sink).__qualname__
                    text = "%s can't export an event; later errors of it aren't logged."
                    logging.getLogger(LOGGER).warning(text, name, exc_info=True)

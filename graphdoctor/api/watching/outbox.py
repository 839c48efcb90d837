"""The way from the program to the sinks: a queue and a daemon thread."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue

from graphdoctor.api.watching.sinks import LOGGER, Sink
from graphdoctor.facts.watch import WatchEvent

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
        self._queue: SimpleQueue[WatchEvent | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="graphdoctor.watch", daemon=True)
        self._thread.start()

    def put(self, event: WatchEvent) -> None:
        """Have an event exported."""
        if self._pid != os.getpid():
            # A forked process has no thread but the one that forked.
            self._begin()
        self._queue.put(event)

    def close(self) -> None:
        """Export what waits and close the sinks, if they do so within a few seconds."""
        if self._pid == os.getpid():
            self._queue.put(None)
            self._thread.join(_CLOSE_S)

    def _work(self) -> None:
        while (event := self._queue.get()) is not None:
            for sink in self._sinks:
                try:
                    sink.export(event)
                except Exception:
                    if id(sink) not in self._failed:
                        self._failed.add(id(sink))
                        name = type(sink).__qualname__
                        text = "%s can't export an event; later errors of it aren't logged."
                        logging.getLogger(LOGGER).warning(text, name, exc_info=True)
        for sink in self._sinks:
            with suppress(Exception):
                sink.close()

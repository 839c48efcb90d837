"""What standard error shows while the probe runs: its phase on a terminal, the program's own output always."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from graphdoctor.capture.child import Watching
from graphdoctor.cli.terminal import say
from graphdoctor.render.printable import printable

if TYPE_CHECKING:
    from rich.status import Status


class Progress:
    """A status line that makes way for the program's output.

    Args:
        is_quiet: Show no status; the program's output is passed on all the same.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        self._status: Status | None = None
        self._lock = threading.Lock()
        self._is_line_open = False
        if not is_quiet and sys.stderr.isatty():
            from rich.console import Console

            console = Console(stderr=True)
            if not console.is_dumb_terminal:
                self._status = console.status("starting")

    @property
    def watching(self) -> Watching:
        """What the capture calls."""
        return Watching(on_phase=self._show_phase, on_output=self._pass_on)

    def __enter__(self) -> Progress:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if self._status is not None:
                self._status.stop()
            if self._is_line_open:
                say("")

    def say(self, line: str) -> None:
        """Print a line of our own."""
        with self._lock:
            if self._status is not None:
                self._status.stop()
            # What the program printed last may lack the end of its line.
            say(f"\n{line}" if self._is_line_open else line)
            self._is_line_open = False
            if self._status is not None:
                self._status.start()

    def _show_phase(self, phase: str) -> None:
        from rich.text import Text

        with self._lock:
            if self._status is not None:
                self._status.update(Text(printable(phase)))

    def _pass_on(self, chunk: bytes) -> None:
        with self._lock:
            if self._status is not None:
                self._status.stop()
            sys.stderr.buffer.write(chunk)
            sys.stderr.flush()
            self._is_line_open = not chunk.endswith(b"\n")
            # A half-written line (a program's own progress bar) keeps the terminal until it ends.
            if self._status is not None and not self._is_line_open:
                self._status.start()

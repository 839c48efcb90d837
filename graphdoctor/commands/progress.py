"""What standard error shows while programs run: phases on a terminal, the program's own output and verdicts always."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from graphdoctor.commands.terminal import live_console, say
from graphdoctor.facts.progress import DecidedStep, DecidedTrial, TrialCounts, TrialEvent
from graphdoctor.trials.launch.child import Setup
from graphdoctor.views.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.status import Status


class _Ticking:
    """How far trials are, on one line; the time that is left runs down between events."""

    def __init__(self, counts: TrialCounts) -> None:
        self._counts = counts
        self._since = time.monotonic()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The line."""
        from rich.text import Text

        from graphdoctor.views.progress import counts_text

        left = self._counts.left_s
        now = None if left is None else left - (time.monotonic() - self._since)
        yield Text(counts_text(self._counts, now), no_wrap=True, overflow="ellipsis")


class Progress:
    """A status line that makes way for the program's output."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._counts = TrialCounts(0, 0)
        self._status: Status | None = None
        self._lock = threading.Lock()
        self._is_line_open = False
        if (console := live_console(is_quiet=is_quiet)) is not None:
            self._status = console.status("starting")

    def setup(self, python: str | None, timeout_s: float | None) -> Setup:
        """How processes are run while this shows what they do."""
        return Setup(python, timeout_s, self.show_phase, self._pass_on, self.show_trial)

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
            say(*("",) if self._is_line_open else (), line)
            self._is_line_open = False
            if self._status is not None:
                self._status.start()

    def show_trial(self, event: TrialEvent) -> None:
        """Show how far trials are, and what each showed, on a line of its own."""
        from graphdoctor.views.progress import decided_text, left_text, step_text, timed_text

        if isinstance(event, TrialCounts):
            self._show_counts(event)
            return
        if isinstance(event, DecidedStep):
            if not self._is_quiet:
                self.say(step_text(event))
            return
        counts = self._counts
        line = decided_text(event, counts) if isinstance(event, DecidedTrial) else timed_text(event, counts)
        if self._status is None and (left := left_text(counts.left_s, is_open=counts.is_open)):
            line = f"{line} · {left}"
        if not self._is_quiet:
            self.say(line)

    def _show_counts(self, counts: TrialCounts) -> None:
        with self._lock:
            self._counts = counts
            if self._status is not None:
                self._status.update(_Ticking(counts))

    def show_phase(self, phase: str) -> None:
        """Show what is being done."""
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

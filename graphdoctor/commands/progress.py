"""What standard error shows while programs run: phases on a terminal, the program's own output and
verdicts always.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from graphdoctor.commands.phases import Phases
from graphdoctor.commands.terminal import live_console, say
from graphdoctor.facts.progress import (
    PHASES_VARIABLE,
    DecidedStep,
    DecidedTrial,
    TimedPrograms,
    TrialEvent,
)
from graphdoctor.trials.launch.child import Setup

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.status import Status


_BAR_WIDTH = 20
"""The words come first: where they leave less than half of it, there is no bar."""


class _Line:
    """The phase, the time so far and what is left, on one line, after a bar where something is
    known of that.
    """

    def __init__(self, phases: Phases) -> None:
        self._phases = phases

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The line."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        from graphdoctor.views.progress import phase_text

        share, width = self._phases.share, options.max_width
        left_s, overdue_s = self._phases.left_s, self._phases.overdue_s
        line = phase_text(self._phases.text, self._phases.elapsed_s, left_s, overdue_s, width)
        text = Text(line, no_wrap=True, overflow="ellipsis")
        bar = min(width - len(line) - 1, _BAR_WIDTH)
        if share is None or bar < _BAR_WIDTH // 2:
            yield text
            return
        together = Table.grid(padding=(0, 1, 0, 0))
        together.add_row(ProgressBar(total=1.0, completed=share, width=bar), text)
        yield together


class Progress:
    """A status line that makes way for the program's output."""

    def __init__(self, phases: Phases | None = None, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._phases = phases or Phases()
        self._status: Status | None = None
        self._lock = threading.Lock()
        self._is_line_open = False
        # Not the program's: a graphdoctor in it would write to a descriptor that is something else
        # there.
        self._told = os.environ.pop(PHASES_VARIABLE, None)
        if (console := live_console(is_quiet=is_quiet)) is not None:
            self._status = console.status(_Line(self._phases))

    def setup(self, python: str | None, timeout_s: float | None) -> Setup:
        """How processes are run while this shows what they do."""
        return Setup(
            python,
            timeout_s,
            self.show_phase,
            self._pass_on,
            self.show_trial,
            on_done=self._phases.keep,
        )

    def __enter__(self) -> Progress:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
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
        """Show what a trial showed, on a line of its own."""
        from graphdoctor.views.progress import decided_text, step_text, timed_text

        if self._is_quiet:
            return
        match event:
            case DecidedStep():
                self.say(step_text(event))
            case DecidedTrial():
                self.say(decided_text(event))
            case TimedPrograms():
                self.say(timed_text(event))

    def show_phase(self, phase: str) -> None:
        """Show what is being done."""
        with self._lock:
            self._phases.show(phase)
            if self._told is not None:
                # Whoever asked may be gone.
                with contextlib.suppress(OSError, ValueError):
                    os.write(int(self._told), f"{phase}\n".encode(errors="replace"))

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

"""How far a survey is, on standard error: a board on a terminal, a line for each finished piece
elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

from graphdoctor.commands.terminal import live_console, say

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live

    from graphdoctor.facts.survey import SurveyRow, SurveyStatus
    from graphdoctor.studies.survey.run import Key

_MAX_RUNNING = 8
_MAX_FINISHED = 5
_PER_SECOND = 2
"""How often the board is drawn: benchmarks may run on the same machine."""


class SurveyProgress:
    """The counts of a survey, what is running and what finished last.

    Its methods can be called from any thread; the board is drawn in another one.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        # Not the lock of ``Live``, which is held while the board is drawn.
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._begun = time.monotonic()
        self._count = self._kept = 0
        self._statuses: Counter[SurveyStatus] = Counter()
        self._running: dict[Key, tuple[float, str | None]] = {}
        self._last: deque[tuple[str, bool]] = deque(maxlen=_MAX_FINISHED)
        if (console := live_console(is_quiet=is_quiet)) is not None:
            from rich.live import Live

            self._live = Live(
                self,
                console=console,
                refresh_per_second=_PER_SECOND,
                transient=True,
                redirect_stdout=False,
            )

    def __enter__(self) -> SurveyProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def on_phase(self, phase: str) -> None:
        """Show what happens before pieces run, such as ``listing what transformers has``."""
        self._last.clear()
        self._last.append((phase, True))

    def planned(self, count: int, kept: int) -> None:
        """Set the totals: pieces planned, and pieces kept from an earlier run."""
        self._count, self._kept = count, kept
        self._last.clear()
        if kept:
            self._say(f"{kept}/{count} kept from an earlier run")

    def began(self, key: Key, slot: str | None) -> None:
        """Show that a piece runs; ``slot``: None if it has no resources of its own."""
        with self._lock:
            self._running[key] = time.monotonic(), slot

    def finished(self, row: SurveyRow) -> None:
        """Show a row."""
        from graphdoctor.views.survey import short_text

        with self._lock:
            self._running.pop(row.key, None)
            self._statuses[row.status] += 1
            self._last.append((short_text(row), row.is_passed))
        self._say(f"{self._kept + self._statuses.total()}/{self._count} {short_text(row)}")

    def retrying(self, key: Key, status: SurveyStatus) -> None:
        """Show that a piece failed, and will run again."""
        from graphdoctor.views.survey import STATUS_TEXTS

        text = f"{' '.join(key)}: {STATUS_TEXTS[status]}, running it again"
        with self._lock:
            self._running.pop(key, None)
            self._last.append((text, False))
        self._say(text)

    def _say(self, line: str) -> None:
        if self._live is None and not self._is_quiet:
            say(line)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw as many lines as there is room for, none of them wrapped."""
        from rich.progress_bar import ProgressBar
        from rich.segment import Segment

        from graphdoctor.views.terminal_lines import clean

        with self._lock:
            lines = self._lines()
        height = options.height or console.height
        if self._count and height > 2:
            done = self._kept + self._statuses.total()
            yield ProgressBar(total=self._count, completed=done)
            yield Segment.line()
        for text, style in lines[: max(height - 2, 1)]:
            line = clean(text, style)
            line.no_wrap, line.overflow = True, "ellipsis"
            yield line

    def _lines(self) -> list[tuple[str, str]]:
        """Return lines and their styles."""
        from graphdoctor.views.progress import clock_text
        from graphdoctor.views.survey import STATUS_TEXTS, seconds_of

        now = time.monotonic()
        elapsed = f"{clock_text(now - self._begun)} so far"
        if not self._count:
            return [(" · ".join([*(text for text, _ in self._last), elapsed]), "")]
        statuses = self._statuses.most_common()
        counts = [f"{self._kept + self._statuses.total():,} of {self._count:,}", elapsed]
        counts += [f"{count:,} {STATUS_TEXTS[status]}" for status, count in statuses]
        counts += [f"{self._kept:,} kept"] if self._kept else []
        lines = [(" · ".join(counts), "")]
        for (name, variant), (begun, slot) in list(self._running.items())[:_MAX_RUNNING]:
            where = f" on {slot}" if slot else ""
            elapsed = seconds_of(now - begun)
            lines.append((f"  {name} {variant}{where}: running for {elapsed}", "cyan"))
        if (more := len(self._running) - _MAX_RUNNING) > 0:
            lines.append((f"  and {more} more are running", "cyan"))
        for text, is_passed in reversed(self._last):
            lines.append((f"  {text}", "" if is_passed else "yellow"))
        return lines

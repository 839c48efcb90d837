"""What standard error shows while a survey runs: a board on a terminal, a line for each finished
piece elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

from graphdoctor.commands.terminal import live_console, say

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.live import Live

    from graphdoctor.facts.survey import SurveyRow, SurveyStatus

Key = tuple[str, str]
"""A piece: the names of its target and of its variant."""

_MAX_RUNNING = 8
_MAX_FINISHED = 5
_NARROW = 50
"""Below this width, the bar has a line of its own."""
_PER_SECOND = 2
"""How often the board is drawn: benchmarks may run on the same machine."""


class SurveyProgress:
    """How far a survey is: the bar, the counts, what is running and what has finished last.

    Its methods can be called from any thread; the board is drawn in another one.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        # Not the lock of ``Live``, which is held while the board is drawn.
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._began = self._moved = time.monotonic()
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
        """What is done before pieces run, such as ``listing what transformers has``."""
        with self._lock:
            self._last.clear()
            self._last.append((phase, True))

    def planned(self, count: int, kept: int) -> None:
        """So many pieces are wanted, so many of them an earlier run has."""
        with self._lock:
            self._began = self._moved = time.monotonic()
            self._count, self._kept = count, kept
            self._last.clear()
        if kept:
            self._say(f"{kept}/{count} kept from an earlier run")

    def began(self, key: Key, place: str | None) -> None:
        """A piece runs, and where; None if that needs no saying."""
        with self._lock:
            self._running[key] = time.monotonic(), place

    def finished(self, row: SurveyRow) -> None:
        """A piece has its row."""
        from graphdoctor.views.survey_words import short_text

        text = short_text(row)
        with self._lock:
            self._moved = time.monotonic()
            self._running.pop(row.key, None)
            self._statuses[row.status] += 1
            self._last.append((text, row.is_passed))
            done = self._kept + self._statuses.total()
        self._say(f"{done}/{self._count} {text}")

    def retrying(self, key: Key, status: SurveyStatus) -> None:
        """A piece failed, and will run again."""
        from graphdoctor.views.survey_words import STATUS_TEXTS

        text = f"{' '.join(key)}: {STATUS_TEXTS[status]}, running it again"
        with self._lock:
            self._running.pop(key, None)
            self._last.append((text, False))
        self._say(text)

    def _say(self, line: str) -> None:
        if self._live is None and not self._is_quiet:
            say(line)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As many lines as there is room for, none of them wrapped."""
        height = options.height or console.height
        with self._lock:
            lines = self._lines(options.max_width)
        yield from lines[: max(height - 1, 1)]

    def _lines(self, width: int) -> list[RenderableType]:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        from graphdoctor.views.progress import clock_text
        from graphdoctor.views.survey_words import STATUS_TEXTS, seconds_of

        now = time.monotonic()
        made = self._statuses.total()
        done = self._kept + made
        left = [text] if (text := self._left(made, now)) else []
        so_far = f"{clock_text(now - self._began)} so far"
        if not self._count:
            return [_line(" · ".join([*(text for text, _ in self._last), so_far]))]
        bar = ProgressBar(total=self._count, completed=done, width=max(width // 3, 1))
        head: list[RenderableType] = [
            bar,
            _line(" · ".join([f"{done:,} of {self._count:,}", so_far, *left])),
        ]
        if width >= _NARROW:
            together = Table.grid(padding=(0, 1, 0, 0))
            together.add_row(*head)
            head = [together]
        counts = [
            f"{number:,} {STATUS_TEXTS[status]}" for status, number in self._statuses.most_common()
        ]
        counts += [f"{self._kept:,} kept"] if self._kept else []
        lines = [*head, *([_line(" · ".join(counts), "dim")] if counts else [])]
        oldest = sorted(self._running.items(), key=lambda item: item[1][0])
        for (name, variant), (since, place) in oldest[:_MAX_RUNNING]:
            where = f" on {place}" if place else ""
            lines.append(
                _line(f"  {name} {variant}{where}: running for {seconds_of(now - since)}", "cyan")
            )
        if len(oldest) > _MAX_RUNNING:
            lines.append(_line(f"  and {len(oldest) - _MAX_RUNNING} more are running", "cyan"))
        lines += [
            _line(f"  {text}", "" if is_passed else "yellow")
            for text, is_passed in reversed(self._last)
        ]
        return lines

    def _left(self, made: int, now: float) -> str:
        """How long the rest takes, if pieces go on as they did; it runs down between two of
        them.
        """
        from graphdoctor.views.progress import left_text

        rest = self._count - self._kept - made
        expected = (self._moved - self._began) / made * rest - (now - self._moved) if made else None
        return left_text(expected)


def _line(text: str, style: str = "") -> RenderableType:
    from graphdoctor.views.terminal_lines import clean

    line = clean(text, style)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line

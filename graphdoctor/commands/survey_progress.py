"""How far a survey is, on standard error: a line for each finished piece, and on a terminal a bar
and the pieces that are running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphdoctor.commands.terminal import live_console, say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from graphdoctor.facts.survey import SurveyRow, SurveyStatus
    from graphdoctor.studies.survey.run import Key

_MAX_RUNNING = 8
_PER_SECOND = 2
"""How often the bar is drawn: benchmarks may run on the same machine."""


class SurveyProgress:
    """The count of finished pieces, and what is running.

    Its methods can be called from any thread; the bar is drawn in another one.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._bar: Progress | None = None
        self._all: TaskID | None = None
        self._running: dict[Key, TaskID] = {}
        self._count = self._done = 0
        if (console := live_console(is_quiet=is_quiet)) is not None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TimeElapsedColumn(),
                console=console,
                refresh_per_second=_PER_SECOND,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._all = self._bar.add_task("", total=None)

    def __enter__(self) -> SurveyProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def on_phase(self, phase: str) -> None:
        """Show what happens before pieces run, such as ``listing what transformers has``."""
        if self._bar is not None and self._all is not None:
            self._bar.update(self._all, description=phase)

    def planned(self, count: int, kept: int) -> None:
        """Set the totals: pieces planned, and pieces kept from an earlier run."""
        self._count, self._done = count, kept
        self._advance()
        if kept:
            self._say(f"{kept}/{count} kept from an earlier run")

    def began(self, key: Key, slot: str | None) -> None:
        """Show that a piece runs; ``slot``: None if it has no resources of its own."""
        if self._bar is not None:
            from graphdoctor.views.printable import printable

            text = printable(" ".join(key)) + (f" on {slot}" if slot else "")
            is_shown = len(self._running) < _MAX_RUNNING
            self._running[key] = self._bar.add_task(f"  {text}", total=None, visible=is_shown)

    def finished(self, row: SurveyRow) -> None:
        """Show a row."""
        from graphdoctor.views.survey import short_text

        self._ended(row.key)
        self._done += 1
        self._advance()
        self._say(f"{self._done}/{self._count} {short_text(row)}")

    def retrying(self, key: Key, status: SurveyStatus) -> None:
        """Show that a piece failed, and will run again."""
        from graphdoctor.views.survey import STATUS_TEXTS

        self._ended(key)
        self._say(f"{' '.join(key)}: {STATUS_TEXTS[status]}, running it again")

    def _ended(self, key: Key) -> None:
        if self._bar is not None and (task := self._running.pop(key, None)) is not None:
            self._bar.remove_task(task)

    def _advance(self) -> None:
        if self._bar is not None and self._all is not None:
            text = f"{self._done:,} of {self._count:,}"
            self._bar.update(self._all, description=text, total=self._count, completed=self._done)

    def _say(self, line: str) -> None:
        if self._bar is not None:
            from graphdoctor.views.terminal_lines import clean

            self._bar.console.print(clean(line), soft_wrap=True)
        elif not self._is_quiet:
            say(line)

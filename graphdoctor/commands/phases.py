"""The phases of a command, and how long the same command took for them last time. Nothing is
estimated without that.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import sys
import time
from collections.abc import Callable
from pathlib import Path

from graphdoctor.facts.base import InvalidFactError
from graphdoctor.facts.progress import CommandPhases
from graphdoctor.facts.reading import read_json, write_fact
from graphdoctor.probe.wire import PHASES_FILE
from graphdoctor.trials.launch.store import Store
from graphdoctor.version import __version__


class Phases:
    """What a command does now, and where that is in what it did last time.

    Args:
        command: What makes two runs comparable.
        earlier: The phases of the last run, in order, each with its seconds; empty if there was
            none.
    """

    def __init__(
        self,
        command: tuple[str, ...] = (),
        earlier: tuple[tuple[str, float], ...] = (),
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.command, self._earlier = command, earlier
        self._clock = clock or time.monotonic
        self._began = self._since = self._clock()
        self._took: list[tuple[str, float]] = []
        self._name = ""
        self._at: int | None = None
        self._next = 0
        self.text = "starting"

    def show(self, text: str) -> None:
        """A phase begins, or says something new: what comes after the first comma doesn't tell
        phases apart.
        """
        self.text = text
        if (name := text.partition(", ")[0]) == self._name:
            return
        self._end()
        self._name = name
        places = range(self._next, len(self._earlier))
        self._at = next((place for place in places if self._earlier[place][0] == name), None)
        self._next = self._next if self._at is None else self._at + 1

    def _end(self) -> None:
        now = self._clock()
        if self._name:
            self._took.append((self._name, round(now - self._since, 3)))
        self._since = now

    @property
    def elapsed_s(self) -> float:
        """Seconds since the command began."""
        return self._clock() - self._began

    @property
    def share(self) -> float | None:
        """How much of the last run's time the phases have that are over now, and of this one; None
        without a run.
        """
        total = self._seconds(0)
        return 1 - (self._seconds(self._next) + self._rest()) / total if total else None

    @property
    def left_s(self) -> float | None:
        """Seconds that the last run took from here on; None if it didn't have this phase."""
        return None if self._at is None else self._seconds(self._next) + self._rest()

    @property
    def overdue_s(self) -> float | None:
        """What this phase took last time, in seconds, if it takes more than a second longer now."""
        took = None if self._at is None else self._earlier[self._at][1]
        return took if took is not None and self._clock() - self._since > took + 1 else None

    def _seconds(self, first: int) -> float:
        return sum(seconds for _, seconds in self._earlier[first:])

    def _rest(self) -> float:
        return (
            0.0
            if self._at is None
            else max(self._earlier[self._at][1] - (self._clock() - self._since), 0.0)
        )

    def keep(self, recording: Path) -> None:
        """Keep what the phases took with the recording of a command that did what it was asked
        for.
        """
        self._end()
        self._name, self._at, self._next = "", None, len(self._earlier)
        with contextlib.suppress(OSError):  # only an estimate
            write_fact(
                CommandPhases(command=self.command, phases=tuple(self._took)),
                recording / PHASES_FILE,
            )


def phases_of(command: tuple[str, ...], store: Store, python: str | None) -> Phases:
    """The phases of a command, beside those of the newest recording that the same command made with
    the same torch.
    """
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        # Another interpreter's torch isn't known before that has been started.
        torch = importlib.metadata.version("torch") if python in (None, sys.executable) else ""
        command = (*command, f"graphdoctor {__version__}", f"torch {torch}", f"in {Path.cwd()}")
    for recording in store.newest():
        with contextlib.suppress(OSError, InvalidFactError):
            found = read_json(CommandPhases, (recording / PHASES_FILE).read_bytes())
            if found.command == command:
                return Phases(command, found.phases)
    return Phases(command)

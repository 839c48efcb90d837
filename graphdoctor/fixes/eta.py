"""Counts trials and timings while they run, and knows how long the rest takes from how long those before took."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from graphdoctor.facts.progress import TrialCounts, TrialEvent


@dataclass
class _Work:
    """Tasks of one kind."""

    planned: int = 0
    begun: int = 0
    running: dict[int, float] = field(default_factory=dict)
    took_s: list[float] = field(default_factory=list)

    def left_s(self, now: float, jobs: int) -> float | None:
        """Seconds until all are finished; None until one is."""
        waiting = self.planned - self.begun
        if not waiting and not self.running:
            return 0.0
        if not self.took_s:
            return None
        usual = sum(self.took_s) / len(self.took_s)
        running = sum(max(usual - (now - began), 0.0) for began in self.running.values())
        return (running + waiting * usual) / min(jobs, waiting + len(self.running))


class Pace:
    """How far the trials are."""

    def __init__(
        self, jobs: int, on_event: Callable[[TrialEvent], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._jobs = jobs
        self.report = on_event
        self._clock = clock
        self._lock = threading.Lock()
        self._trials = _Work()
        # What timing takes is mostly compiling, so one backend says nothing of another.
        self._timings: dict[str, _Work] = {}
        self._is_open = True

    def plan_trials(self, count: int) -> int:
        """Note trials that are certain to be made."""
        with self._lock:
            self._is_open = True
            self._trials.planned += count
            return self._trials.planned - count + 1

    def plan_timings(self, backends: Iterable[str]) -> None:
        """Note timings that are certain to be made."""
        with self._lock:
            for backend in backends:
                self._timings.setdefault(backend, _Work()).planned += 1

    def end_trials(self) -> None:
        """Note that no more trials are expected."""
        with self._lock:
            self._is_open = False

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """While a trial runs."""
        with self._running(self._trials):
            yield

    @contextlib.contextmanager
    def timing(self, backend: str) -> Iterator[int]:
        """While two programs are timed under a backend; the number of the timing."""
        with self._running(self._timings[backend]):
            yield sum(work.begun for work in self._timings.values())

    @contextlib.contextmanager
    def _running(self, work: _Work) -> Iterator[None]:
        with self._lock:
            work.begun += 1
            number = work.begun
            work.running[number] = self._clock()
            self._report()
        try:
            yield
        finally:
            with self._lock:
                work.took_s.append(self._clock() - work.running.pop(number))
                self._report()

    def _report(self) -> None:
        # Under the lock, so that counts never come after later ones.
        now = self._clock()
        timings = self._timings.values()
        left = [self._trials.left_s(now, self._jobs), *(work.left_s(now, 1) for work in timings)]
        known = [seconds for seconds in left if seconds is not None]
        counts = TrialCounts(
            trial=self._trials.begun,
            trials=self._trials.planned,
            timing=sum(work.begun for work in timings),
            timings=sum(work.planned for work in timings),
            left_s=sum(known) if len(known) == len(left) else None,
            is_open=self._is_open,
        )
        self.report(counts)

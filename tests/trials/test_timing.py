"""Two probes timed in turns: here threads that speak the probes' words over the socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.facts.fixes import PairedTime, deciding
from graphdoctor.facts.run import ProbeExit
from graphdoctor.trials import timing
from graphdoctor.trials.program import Program
from graphdoctor.trials.timing import LOOKS, faster, is_plain, slower, time_pair
from graphdoctor.views.reasons import reason_text
from tests.each import for_each

TURNS = 64
"""More than are needed."""

BEFORE, AFTER = Program(), Program({Path("model.py"): b"edited"})


class Probes:
    """Stands for ``Replays``: a probe is a script of answers.

    Args:
        before: Median times of the untouched program, microseconds, one a turn.
        after: Those of the other one.
        unsteady: Names of probes whose last call goes on compiling.
        dying: By a probe's name how many turns it lives; negative dies before the first answer.
    """

    def __init__(
        self,
        before: Sequence[float],
        after: Sequence[float],
        *,
        unsteady: Sequence[str] = (),
        dying: dict[str, int] | None = None,
    ) -> None:
        self._times = {"before": before, "after": after}
        self._unsteady = unsteady
        self._dying = dying or {}
        self._lock = threading.Lock()
        self.asked: list[str] = []
        self.seconds: set[float] = set()
        self.backends: dict[str, str] = {}
        self.names: list[str] = []
        self.dropped: list[str] = []
        self.is_cancelled = False

    def drop_trace(self, name: str) -> None:
        self.dropped.append(name)

    def serve(self, program: Program, name: str, descriptor: int, *, backend: str) -> ProbeExit:
        error = self._error(program, name, descriptor, backend)
        return ProbeExit(status=1, reason="finished" if error is None else "error", message=error)

    def _error(self, program: Program, name: str, descriptor: int, backend: str) -> str | None:
        which = "after" if program.content else "before"
        with self._lock:
            self.names.append(name)
            self.backends[which] = backend
        lives = self._dying.get(which, len(self._times[which]))
        # The real probe inherits a copy of the descriptor, as here.
        with socket.fromfd(descriptor, socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            stream = connection.makefile("rw", encoding="utf-8")
            if lives < 0:
                return "The program failed in call 1: NameError: y."
            self._say(stream, {"is_steady": which not in self._unsteady})
            if which in self._unsteady:
                return None
            for turn in range(lives):
                line = stream.readline()
                if not line:
                    return None
                with self._lock:
                    self.asked.append(which)
                    self.seconds.add(json.loads(line)["seconds"])
                self._say(stream, {"times_us": [self._times[which][turn]], "calls": 3})
            if which in self._dying:
                return "The process was killed by SIGKILL."
            stream.readline()
        return None

    def _say(self, stream: Any, values: dict[str, Any]) -> None:
        stream.write(json.dumps(values) + "\n")
        stream.flush()

    def cancel(self) -> None:
        self.is_cancelled = True


def timed(probes: Probes) -> PairedTime | str:
    return time_pair(probes, BEFORE, AFTER, "time-1", backend="eager")  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def test_the_ratio_is_that_of_each_turn():
    # The machine is twice as slow in every other turn; the programs' ratio stays.
    noise = [100.0 if turn % 2 else 200.0 for turn in range(TURNS)]
    timing = timed(Probes(noise, [time / 4 for time in noise]))
    assert isinstance(timing, PairedTime)
    assert (timing.ratio, timing.ratio_low, timing.ratio_high) == (0.25, 0.25, 0.25)
    assert (timing.before_us, timing.after_us) == (150.0, 37.5)
    assert (timing.backend, timing.turns) == ("eager", LOOKS[0])


def test_the_spread_is_the_interval_that_decided():
    ratios = [0.5 + 0.01 * turn for turn in range(TURNS)]
    timing = timed(Probes([100.0] * len(ratios), [100 * ratio for ratio in ratios]))
    assert isinstance(timing, PairedTime)
    assert (timing.ratio_low, timing.ratio, timing.ratio_high) == pytest.approx((0.5, 0.535, 0.57))


def test_who_begins_alternates():
    probes = Probes([100.0] * TURNS, [50.0] * TURNS)
    timed(probes)
    assert probes.asked[:8] == ["before", "after", "after", "before"] * 2
    assert probes.asked.count("before") == probes.asked.count("after") == LOOKS[0]
    assert probes.seconds == {timing.TURN_S}
    assert probes.backends == {"before": "eager", "after": "eager"}
    assert sorted(probes.names) == ["time-1-eager-after", "time-1-eager-before"]
    # Megabytes that nobody reads.
    assert sorted(probes.dropped) == sorted(probes.names)


def test_what_is_not_clear_yet_gets_more_turns():
    # One turn of the first eight says the opposite; of sixteen, still one.
    ratios = [0.8] * 7 + [1.1] + [0.8] * TURNS
    timing = timed(Probes([100.0] * len(ratios), [100 * ratio for ratio in ratios]))
    assert isinstance(timing, PairedTime)
    assert timing.turns == LOOKS[1]
    assert (timing.ratio_low, timing.ratio_high) == (0.8, 0.8)


def test_what_never_gets_clear_ends_after_ten_seconds():
    ratios = [0.7, 1.4] * 200
    probes = Probes(
        [10 * timing.TURN_S * 1e6] * len(ratios),
        [10 * timing.TURN_S * 1e6 * ratio for ratio in ratios],
    )
    measured = timed(probes)
    assert isinstance(measured, PairedTime)
    spent_s = (measured.before_us + measured.after_us) / 1e6 * measured.turns
    assert spent_s == pytest.approx(timing._MAX_S, rel=0.05)
    assert measured.ratio_low < 1 < measured.ratio_high


class Silent(Probes):
    """Probes that die without saying why."""

    def _error(self, *arguments: Any) -> None:
        super()._error(*arguments)


FLAT, HALF, NONE = [100.0] * TURNS, [50.0] * TURNS, [0.0] * TURNS


@for_each(
    "probes, reason",
    [
        (Probes(FLAT, HALF, dying={"after": -1}), "The program failed in call 1: NameError: y"),
        *(
            (Probes(FLAT, HALF, dying={which: turns}), "The process was killed by SIGKILL")
            for which in ("before", "after")
            for turns in (0, 1, 4)
        ),
        (Probes(FLAT, HALF, unsteady=("after",)), "the calls never stop compiling"),
        (Silent(FLAT, HALF, dying={"before": 1}), "the probe ended during timing"),
        (Probes(NONE, NONE), "the call is too short to time"),
    ],
)
def test_missing_times_have_a_reason(probes, reason):
    assert reason_text(timed(probes)) == reason
    if reason == "the calls never stop compiling":
        assert probes.asked == []


def test_an_interrupt_stops_both_probes(monkeypatch):
    def interrupted(*_pair: object) -> list[tuple[float, float]]:
        raise KeyboardInterrupt

    monkeypatch.setattr(timing, "_turns", interrupted)
    probes = Probes(FLAT, HALF)
    with pytest.raises(KeyboardInterrupt):
        timed(probes)
    assert probes.is_cancelled


def pair(low: float, high: float, backend: str = "inductor") -> PairedTime:
    middle = (low + high) / 2
    return PairedTime(
        backend=backend,
        before_us=10,
        after_us=10 * middle,
        ratio=middle,
        ratio_low=low,
        ratio_high=high,
        turns=21,
    )


@for_each(
    "times, change, is_clear", [
        ([pair(1.1, 1.2)], "slower", False), ([pair(0.9, 1.2)], None, False), ([pair(0.8, 0.9)], "faster", False),
        ([pair(1.01, 1.02)], None, False), ([pair(0.98, 0.99)], None, False), ([], None, False),
        ([pair(1.01, 1.2)], "slower", False), ([pair(0.8, 0.99)], "faster", False),
        ([pair(1.1, 1.2, "eager"), pair(0.8, 0.9)], "faster", False), ([pair(1.1, 1.2, "eager")], "slower", False),
        ([pair(1.1, 1.2, "mine"), pair(0.8, 0.9)], "slower", False),
        ([pair(1.6, 1.7)], "slower", True), ([pair(0.5, 0.6)], "faster", True), ([pair(1.4, 1.7)], "slower", False),
        ([pair(0.6, 0.7)], "faster", False), ([pair(0.5, 1.7)], None, False),
        ([pair(1.6, 1.7, "eager"), pair(1.1, 1.2)], "slower", False),
    ],
)  # fmt: skip
def test_a_change_of_time_counts_only_beyond_noise(times, change, is_clear):
    assert slower(times) == (deciding(times) if change == "slower" else None)
    assert faster(times) == (deciding(times) if change == "faster" else None)
    assert is_plain(times) is is_clear

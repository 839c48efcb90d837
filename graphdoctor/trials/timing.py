"""Times programs in turns: probes time their last call on request, and share the machine's noise.

Timing stops as soon as an interval of the ratio is sure, or after 64 turns or ten seconds.
Compiling and the repetitions until the call is steady come before that and aren't counted.

Whoever looks at a 95% interval after each turn, and stops once it excludes 1, finds a difference
between equal programs sooner or later (Armitage, McPherson and Rowe, "Repeated significance tests
on accumulating data", Journal of the Royal Statistical Society A 132, 1969). So there are few
looks, each after twice as many turns as the one before, and they divide the 5% of false intervals
equally among them (Bonferroni), whatever one look has to do with another.

The interval of a look is that of the median from the sign test: it reaches from one of the sorted
ratios to another, and assumes nothing about how times are distributed (Hollander, Wolfe and
Chicken, "Nonparametric statistical methods", 3rd edition, 2014, section 3.6). Long calls get fewer
turns than the first look needs, which have no such interval; there it is Student's, of the
logarithms.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal

from graphdoctor.facts.bench import PROCESSES_DIFFER
from graphdoctor.facts.fixes import PairedTime, Reason, because, deciding
from graphdoctor.facts.run import ProbeExit
from graphdoctor.trials.judge import failure_of
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays

TURN_S = 0.02
"""How long each program repeats its call in a turn, or one call that takes longer."""

_MAX_S = 10.0

GRAPH_US = 50.0
"""More than calling a compiled graph costs that computes next to nothing: guards, and the checks
and buffers of its wrapper (9 to 15 µs for six small linear layers on two cores). Such a cost says
the program is a toy."""


LOOKS = (8, 16, 32, 64)
"""Numbers of turns after which to look; the end of the time is one more look."""

MIN_TURNS = 2

SAME = PROCESSES_DIFFER
"""A ratio this close to 1 is no difference worth more turns."""

PLAIN = 1.5
"""A ratio that two pairs of processes don't disagree about. Of 20 pairs that ran the same program,
12 of them beside four busy processes on two cores, the ratios lay between 0.94 and 1.02."""

_ERROR = 0.05
_ERROR_OF_LOOK = _ERROR / (len(LOOKS) + 1)
_STUDENT = (63.657, 9.925, 5.841, 4.604, 4.032, 3.707)
"""Quantiles of Student's distribution that 1% lie beyond on both sides, for 1 to 6 degrees of
freedom."""


class ServedProbe:
    """A probe at the other end of a socket, from its start."""

    def __init__(self, start: Callable[[int], ProbeExit], pool: ThreadPoolExecutor) -> None:
        ours, theirs = socket.socketpair()
        self._connection = ours

        def run() -> ProbeExit:
            try:
                return start(theirs.fileno())
            finally:
                # The other end then stops waiting for an answer.
                theirs.close()

        self._ended = pool.submit(run)
        self._answers = ours.makefile(encoding="utf-8")

    def answer(self) -> dict[str, Any] | None:
        """Wait for what it says next; None if it has ended."""
        try:
            line = self._answers.readline()
        except OSError:
            return None
        return dict(json.loads(line)) if line else None

    def ask(self, question: Mapping[str, object]) -> dict[str, Any] | None:
        """Ask something, and wait for the answer; None if it has ended."""
        try:
            self._connection.sendall(f"{json.dumps(question)}\n".encode())
        except OSError:
            return None
        return self.answer()

    def close(self) -> None:
        """Let it end."""
        with contextlib.suppress(
            OSError
        ):  # it may have ended, which is an error on some systems only
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def end(self) -> ProbeExit:
        """Let it end, and wait for that; how it ended."""
        self.close()
        return self._ended.result()


def time_pair(
    replays: Replays, before: Program, after: Program, name: str, *, backend: str
) -> PairedTime | Reason:
    """Time two programs in turns; the times, or why there are none."""
    with contextlib.ExitStack() as closing, ThreadPoolExecutor(max_workers=2) as pool:
        pair: list[ServedProbe] = []
        try:
            for program, which in ((before, "before"), (after, "after")):
                served = f"{name}-{backend}-{which}"
                start = partial(replays.serve, program, served, backend=backend)
                closing.callback(replays.drop_trace, served)
                pair.append(ServedProbe(start, pool))
            # Once the calls are made: they may compile something each time.
            steady = [bool((said := timed.answer()) and said["is_steady"]) for timed in pair]
            turns = _turns(*pair) if all(steady) else []
        except BaseException:
            replays.cancel()
            raise
        finally:
            for timed in pair:
                timed.close()
        ends = [timed.end() for timed in pair]
    failed = next((ended for ended in ends if ended.reason != "finished"), None)
    if failed is not None:
        return failure_of(failed)
    if not all(steady):
        return because("never_steady")
    if not all(plain and fixed for plain, fixed in turns):
        return because("too_short")
    if len(turns) < MIN_TURNS:
        return because("probe_ended")
    ratios = [fixed / plain for plain, fixed in turns]
    low, high = interval(ratios)
    return PairedTime(
        backend=backend,
        before_us=statistics.median(plain for plain, _ in turns),
        after_us=statistics.median(fixed for _, fixed in turns),
        ratio=statistics.median(ratios),
        ratio_low=low,
        ratio_high=high,
        turns=len(turns),
    )


def _certain(change: str, times: Sequence[PairedTime]) -> PairedTime | None:
    pair = deciding(times)
    if pair is None or not pair.is_clear:
        return None
    is_certain = change_of(pair.ratio, pair.ratio_low, pair.ratio_high) == change
    return pair if is_certain else None


slower, faster = partial(_certain, "slower"), partial(_certain, "faster")
"""The times that say for certain that a change makes the call slower, or faster; None if none
do."""


def plainly_slower(times: Sequence[PairedTime]) -> PairedTime | None:
    """As ``slower``, but None if it costs no more than one compiled graph."""
    pair = slower(times)
    return pair if pair is not None and pair.after_us - pair.before_us > GRAPH_US else None


def is_plain(times: Sequence[PairedTime]) -> bool:
    """Tell if the difference is larger than any between two pairs of processes of the same
    programs.
    """
    pair = deciding(times)
    return pair is not None and (pair.ratio_low > PLAIN or pair.ratio_high < 1 / PLAIN)


def _turns(before: ServedProbe, after: ServedProbe) -> list[tuple[float, float]]:
    turns: list[tuple[float, float]] = []
    spent_s = 0.0
    while True:
        is_swapped = len(turns) % 2 == 1
        times: list[float] = []
        for timed in (after, before) if is_swapped else (before, after):
            if (answer := timed.ask({"seconds": TURN_S})) is None:
                return turns
            times.append(statistics.median(answer["times_us"]))
        plain, fixed = reversed(times) if is_swapped else times
        turns.append((plain, fixed))
        is_enough = len(turns) == LOOKS[-1] or not all(times)
        if is_enough or is_decided([fixed / plain for plain, fixed in turns]):
            return turns
        turn_s = sum(max(TURN_S, time / 1e6) for time in times)
        spent_s += turn_s
        if spent_s + turn_s > _MAX_S and len(turns) >= MIN_TURNS:
            return turns


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the interval at a look."""
    count = len(ratios)
    if count < LOOKS[0]:
        logs = [math.log(ratio) for ratio in ratios]
        middle, reach = (
            statistics.fmean(logs),
            _STUDENT[count - 2] * statistics.stdev(logs) / math.sqrt(count),
        )
        return _exp(middle - reach), _exp(middle + reach)
    ordered = sorted(ratios)
    rank = _rank(count)
    return ordered[rank], ordered[-1 - rank]


def is_decided(ratios: Sequence[float]) -> bool:
    """Tell if these are the turns of a look that need no more: one program is faster, or it hardly
    matters.
    """
    if len(ratios) not in LOOKS:
        return False
    low, high = interval(ratios)
    return not low <= 1 <= high or (low >= 1 - SAME and high <= 1 + SAME)


def change_of(
    ratio: float, low: float, high: float, *, noise: float = PROCESSES_DIFFER
) -> Literal["faster", "slower", "same"]:
    """Tell what the ratio of a changed program's time says; "same" also where it isn't certain."""
    if high < 1 and ratio < 1 - noise:
        return "faster"
    return "slower" if low > 1 and ratio > 1 + noise else "same"


def _rank(count: int) -> int:
    """Count the sorted ratios that the interval leaves out at each end, for the error of a look."""
    outside = 1 / 2**count
    rank = 0
    while 2 * (outside + math.comb(count, rank + 1) / 2**count) <= _ERROR_OF_LOOK:
        rank += 1
        outside += math.comb(count, rank) / 2**count
    return rank


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))

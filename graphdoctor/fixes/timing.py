"""Times the steady call of two programs in turns: two probes side by side, so that both meet the same noise."""

from __future__ import annotations

import contextlib
import json
import socket
import statistics
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from graphdoctor.fixes.replays import Program, Replays
from graphdoctor.model.fixes import PairedTime

_TURNS = 21
_TURN_S = 0.04
_MAX_S = 20.0
"""A pair of long calls gets fewer turns."""

_MIN_TURNS = 5


class _Timed:
    """A probe that times its last call when asked.

    Args:
        replays: Starts it.
        program: What it runs.
        name: The replay's name.
        backend: The backend.
        pool: Where to wait for its end.
    """

    def __init__(self, replays: Replays, program: Program, name: str, backend: str, pool: ThreadPoolExecutor) -> None:
        ours, theirs = socket.socketpair()
        self._connection = ours

        def run() -> str | None:
            try:
                return replays.serve_times(program, name, backend=backend, descriptor=theirs.fileno())
            finally:
                # Whoever waits for an answer that will not come is told so.
                theirs.close()

        self._ended: Future[str | None] = pool.submit(run)
        self._stream = ours.makefile("rw", encoding="utf-8")

    def is_steady(self) -> bool:
        """Wait until the calls are made; whether the last one compiles nothing any more."""
        answer = self._answer()
        return bool(answer and answer["is_steady"])

    def median_us(self) -> float | None:
        """One turn; None when the probe is gone."""
        try:
            self._stream.write(json.dumps({"seconds": _TURN_S}) + "\n")
            self._stream.flush()
        except OSError:
            return None
        answer = self._answer()
        return None if answer is None else float(answer["median_us"])

    def _answer(self) -> dict[str, Any] | None:
        try:
            line = self._stream.readline()
        except OSError:
            return None
        return dict(json.loads(line)) if line else None

    def close(self) -> None:
        """Let the probe end."""
        with contextlib.suppress(OSError):  # not everywhere is it an error that the probe is gone
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def error(self) -> str | None:
        """Why it ended early; waits for the end."""
        return self._ended.result()


def time_pair(replays: Replays, before: Program, after: Program, name: str, *, backend: str) -> PairedTime | str:
    """Time two programs in turns.

    Args:
        replays: Starts the probes.
        before: The program without a fix.
        after: The program with it.
        name: A name for the pair's recordings.
        backend: The backend to compile with.

    Returns:
        The times, or why there are none, a clause.
    """
    with ThreadPoolExecutor(max_workers=2) as pool:
        pair: list[_Timed] = []
        try:
            for program, which in ((before, "before"), (after, "after")):
                pair.append(_Timed(replays, program, f"{name}-{backend}-{which}", backend, pool))
            steady = [timed.is_steady() for timed in pair]
            turns = _turns(*pair) if all(steady) else []
        except BaseException:
            replays.cancel()
            raise
        finally:
            for timed in pair:
                timed.close()
        errors = [error for timed in pair if (error := timed.error()) is not None]
    if errors:
        return errors[0].rstrip(".")
    if not all(steady):
        return "the last call goes on compiling"
    if len(turns) < 2:
        return "the probe ended while it was timed"
    if not all(plain for plain, _ in turns):
        return "the call is too short to be timed"
    ratios = [fixed / plain for plain, fixed in turns]
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return PairedTime(
        backend=backend,
        before_us=statistics.median(plain for plain, _ in turns),
        after_us=statistics.median(fixed for _, fixed in turns),
        ratio=statistics.median(ratios),
        ratio_low=low,
        ratio_high=high,
        turns=len(turns),
    )


def _turns(before: _Timed, after: _Timed) -> list[tuple[float, float]]:
    """Times of both in each turn, who begins alternating."""
    found: list[tuple[float, float]] = []
    for _ in range(_TURNS):
        is_swapped = len(found) % 2 == 1
        first, second = (after, before) if is_swapped else (before, after)
        one, other = first.median_us(), second.median_us()
        if one is None or other is None:
            break
        found.append((other, one) if is_swapped else (one, other))
        if len(found) >= _MIN_TURNS and sum(map(sum, found)) / 1e6 > _MAX_S:
            break
    return found

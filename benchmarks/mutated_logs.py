"""Reads logs with odd values in them, many: each must give a report, and it must not take long."""

from __future__ import annotations

import time
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings

from benchmarks.rows import Row
from tests.trace.mutated_logs import mutated_logs, read_and_show


def measure(*, count: int, folder: Path) -> list[Row]:
    """Read and show so many mutated logs; raises with the log that fails, as small as hypothesis
    can make it.

    Args:
        count: How many.
        folder: For the log that is read.
    """
    taken = []

    @seed(0)
    @settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(log=mutated_logs())
    def each(log: bytes) -> None:
        started = time.perf_counter()
        read_and_show(log, folder / "mutated.log")
        taken.append(time.perf_counter() - started)

    each()
    return [Row(f"read and show a mutated log ({len(taken):,} of them)", "", "s", (), taken)]

"""How long the commands that never import torch take, against starting Python."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.overhead import graphdoctor
from benchmarks.process import run
from benchmarks.rows import Row


def measure(*, pairs: int, recordings: dict[str, Path], folder: Path) -> list[Row]:
    """Measure ``--help`` and ``report``.

    Args:
        pairs: How many pairs to measure.
        recordings: Recordings to report, by what they are of.
        folder: Where to run.
    """
    commands = {"`graphdoctor --help`": [*graphdoctor(), "--help"]}
    for name, recording in recordings.items():
        commands[f"`graphdoctor report`, {name}"] = [*graphdoctor(), "report", str(recording)]
    rows = []
    for name, command in commands.items():
        baseline, measured = [], []
        for pair in range(pairs + 1):
            started = run([sys.executable, "-c", "pass"], cwd=folder)
            cost = run(command, cwd=folder)
            if pair:
                baseline.append(started.wall_s)
                measured.append(cost.wall_s)
        rows.append(Row(name, "`python -c pass`", "s", baseline, measured, 10))
    return rows

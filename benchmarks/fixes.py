"""What trying fixes takes, against one ``explain`` of the same program: all of it, and a replay."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.overhead import graphdoctor
from benchmarks.process import run
from benchmarks.rows import Row

_SAMPLES = Path(__file__).resolve().parent.parent / "sample_models"
_PROGRAMS = {"one break": "print_in_forward.py", "three breaks, one hidden": "hidden_second_break.py"}


def measure(*, pairs: int, is_quick: bool, folder: Path) -> list[Row]:
    """Measure ``fix`` without timing of steady calls, one trial after the other.

    Args:
        pairs: How many pairs to measure.
        is_quick: One program only.
        folder: Where to run.
    """
    rows = []
    for name, file in list(_PROGRAMS.items())[: 1 if is_quick else None]:
        explained, fixed, replayed, reused = [], [], [], []
        options = [str(_SAMPLES / file), "--quiet", "--force", "--format", "json"]
        for _ in range(pairs):
            explained.append(run([*graphdoctor(), "explain", *options, "-o", "explain.json"], cwd=folder).wall_s)
            trying = ["fix", *options, "-o", "fix.json", "--unsafe-fixes", "--no-timing", "--jobs", "1"]
            fixed.append(run([*graphdoctor(), *trying, "--again"], cwd=folder).wall_s)
            reused.append(run([*graphdoctor(), *trying], cwd=folder).wall_s)
            count = json.loads((folder / "fix.json").read_text())["recording"]["treatment"]["trial_count"]
            replayed.append((fixed[-1] - explained[-1]) / count)
        rows.append(Row(f"`fix`, {name}: wall time", "`explain`", "s", explained, fixed, None))
        rows.append(Row(f"`fix`, {name}: a replay", "`explain`", "s", explained, replayed, None))
        rows.append(Row(f"`fix`, {name}: verified fixes taken again", "`explain`", "s", explained, reused, None))
    return rows

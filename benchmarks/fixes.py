"""What trying fixes takes, against one ``explain`` of the same program: all of it, and a replay."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path

from benchmarks.overhead import graphdoctor
from benchmarks.process import Cost, run
from benchmarks.rows import Row, Share

_SAMPLES = Path(__file__).resolve().parent.parent / "sample_models"
_AIMS = {"`fix`": ((), 4), "`fix --unsafe-fixes`": (("--unsafe-fixes",), 6)}
_PROGRAMS = {
    "one break": "print_in_forward.py",
    "three breaks, one hidden": "hidden_second_break.py",
}


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
            explained.append(
                run([*graphdoctor(), "explain", *options, "-o", "explain.json"], cwd=folder).wall_s
            )
            trying = [
                "fix",
                *options,
                "-o",
                "fix.json",
                "--unsafe-fixes",
                "--no-timing",
                "--jobs",
                "1",
            ]
            fixed.append(run([*graphdoctor(), *trying, "--again"], cwd=folder).wall_s)
            reused.append(run([*graphdoctor(), *trying], cwd=folder).wall_s)
            count = json.loads((folder / "fix.json").read_text())["recording"]["treatment"][
                "trial_count"
            ]
            replayed.append((fixed[-1] - explained[-1]) / count)
        rows.append(Row(f"`fix`, {name}: wall time", "`explain`", "s", explained, fixed, None))
        rows.append(Row(f"`fix`, {name}: a replay", "`explain`", "s", explained, replayed, None))
        rows.append(
            Row(
                f"`fix`, {name}: verified fixes taken again",
                "`explain`",
                "s",
                explained,
                reused,
                None,
            )
        )
    return rows


def measure_samples(*, pairs: int, is_quick: bool, folder: Path) -> list[Row | Share]:
    """Measure all that ``fix`` does, timing included, on each sample with a break; a pair of a row
    is a sample.

    Args:
        pairs: How often to run ``explain``, ``fix`` and ``fix --unsafe-fixes`` of a sample in
            turns; the median counts.
        is_quick: One sample only.
        folder: Where to run.
    """
    samples = [
        path
        for path in sorted(_SAMPLES.glob("*.py"))
        if not re.search(r"break_sites=0", path.read_text())
    ]
    explained: list[Cost] = []
    fixed: dict[str, list[Cost]] = {name: [] for name in _AIMS}
    for path in samples[: 1 if is_quick else None]:
        options = [str(path), "--quiet", "--force", "--format", "json", "-o"]
        rounds = []
        for _ in range(pairs):
            costs = [run([*graphdoctor(), "explain", *options, "explain.json"], cwd=folder)]
            for more, _aim in _AIMS.values():
                costs.append(
                    run([*graphdoctor(), "fix", *options, "fix.json", "--again", *more], cwd=folder)
                )
            rounds.append(costs)
        first, *others = (_median(costs) for costs in zip(*rounds, strict=True))
        explained.append(first)
        for name, cost in zip(fixed, others, strict=True):
            fixed[name].append(cost)
    rows: list[Row | Share] = []
    for name, (_, aim) in _AIMS.items():
        for what, field in (("wall time", "wall_s"), ("CPU time", "cpu_s")):
            before, after = (
                [getattr(cost, field) for cost in costs] for costs in (explained, fixed[name])
            )
            row_aim = aim if field == "wall_s" else None
            rows.append(Row(f"{name}, samples: {what}", "`explain`", "s", before, after, row_aim))
        ratios = [
            after.wall_s / before.wall_s
            for before, after in zip(explained, fixed[name], strict=True)
        ]
        details = {
            path.stem: [f"{ratio:.2f}"] for path, ratio in zip(samples, ratios, strict=False)
        }
        good = sum(ratio <= aim for ratio in ratios)
        rows.append(
            Share(f"samples where {name} takes at most {aim}x", "", good, len(ratios), 1, details)
        )
    return rows


def _median(costs: Sequence[Cost]) -> Cost:
    wall_s, cpu_s, peak_bytes = (
        statistics.median(getattr(cost, field) for cost in costs)
        for field in ("wall_s", "cpu_s", "peak_bytes")
    )
    return Cost(wall_s, cpu_s, peak_bytes, costs[-1].stdout)

"""``graphdoctor survey`` against ``graphdoctor explain`` of each target, and its memory as the list
grows.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from benchmarks.overhead import graphdoctor
from benchmarks.process import Cost, run
from benchmarks.rows import Row

_HERE = Path(__file__).resolve().parent
_GROWS = 4


def measure(*, pairs: int, is_quick: bool, folder: Path) -> list[Row]:
    """Measure lists of copies of one model, under the backend ``eager``.

    Args:
        pairs: How many pairs to measure.
        is_quick: Short lists of a small model.
        folder: An empty folder to work in.
    """
    count, target = (2, "mlp") if is_quick else (10, "gpt2_tiny")
    explained, surveyed, side_by_side = ([] for _ in range(3))
    small, large = [], []
    for pair in range(pairs):
        short, long = (
            _models(folder / f"{size}-{pair}", target, size) for size in (count, count * _GROWS)
        )
        explained.append(
            sum(
                _run(short, "explain", name.name, "-o", f"{name.stem}.html").wall_s
                for name in _files(short)
            )
        )
        one = _run(short, "survey", "*.py", "--jobs", "1")
        surveyed.append(one.wall_s)
        jobs = str(min(os.cpu_count() or 1, 2))
        two, more = (_run(place, "survey", "*.py", "--jobs", jobs) for place in (short, long))
        side_by_side.append(more.wall_s / (count * _GROWS))
        small.append(two.peak_mb)
        large.append(more.peak_mb)
    what = f"`survey` of {count} models"
    return [
        Row(
            f"{what}, one at a time: wall time",
            "explain of each",
            "s",
            explained,
            surveyed,
            aim=1.15,
        ),
        Row(
            f"`survey` of {count * _GROWS} models, two at a time: wall time of a piece",
            "",
            "s",
            [],
            side_by_side,
        ),
        Row(
            f"`survey` of {count * _GROWS} models: peak memory",
            f"of {count}",
            "MB",
            small,
            large,
            aim=1.05,
        ),
    ]


def _models(folder: Path, target: str, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        shutil.copy(_HERE / "targets" / f"{target}.py", folder / f"model_{number}.py")
    return folder


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.py"))


def _run(folder: Path, *arguments: str) -> Cost:
    return run([*graphdoctor(), *arguments], cwd=folder)

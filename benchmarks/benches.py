"""What ``bench`` and ``profile`` take, against scripts by hand that do the same
(``plain_*.py``).
"""

from __future__ import annotations

import json
import os
import pty
import sys
import time
from pathlib import Path

from benchmarks.overhead import graphdoctor
from benchmarks.process import run
from benchmarks.rows import Row, Share

_HERE = Path(__file__).resolve().parent
_TARGETS = {
    "an MLP": "perceptron",
    "a ResNet block": "resnet_block",
    "GPT-2 with 4 layers": "gpt2_4_layers",
}
_GPU_TARGETS = {
    "MobileNet v2": "mobilenet_v2",
    "GPT-2": "gpt2_12_layers",
    "EfficientNet-b0": "efficientnet_b0",
    "attention": "attention",
}
_GPU_MODE = "reduce-overhead"
_FIRST_ANSWER = b"so far, "
"""What the status line says once there are times."""


def measure(*, pairs: int, is_quick: bool, folder: Path) -> list[Row]:
    """Measure a bench, how soon it has a first answer, a thorough one, and a cure beside the bench.

    Args:
        pairs: How many pairs to measure, after one that fills the caches.
        is_quick: One program only, no thorough bench and no cure.
        folder: Where to run.
    """
    rows = []
    for name, target in list(_TARGETS.items())[: 1 if is_quick else None]:
        path = _HERE / "targets" / f"{target}.py"
        plain: list[float] = []
        cured: list[float] = []
        found: dict[str, list[float]] = {
            "first answer": [],
            "wall time": [],
            "wall time, `--thorough`": [],
        }
        for pair in range(-1, pairs):
            plain_s = run([sys.executable, _HERE / "plain_bench.py", path], cwd=folder).wall_s
            bench_s = run([*graphdoctor(), "bench", path], cwd=folder).wall_s
            if pair < 0:
                continue
            plain.append(plain_s)
            found["wall time"].append(bench_s)
            found["first answer"].append(
                _first_answer_s([*graphdoctor(), "bench", str(path)], folder)
            )
            if not is_quick:
                thorough = run([*graphdoctor(), "bench", path, "--thorough"], cwd=folder)
                found["wall time, `--thorough`"].append(thorough.wall_s)
                cured.append(run([*graphdoctor(), "cure", path], cwd=folder).wall_s)
        aims = dict(zip(found, (1.3, 2.5, 6.0), strict=True))
        rows += [
            Row(f"`bench`, {name}: {what}", "plain script", "s", plain, measured, aims[what])
            for what, measured in found.items()
            if measured
        ]
        rows += (
            [Row(f"`cure`, {name}: wall time", "`bench`", "s", found["wall time"], cured, 3.0)]
            if cured
            else []
        )
    return rows


def measure_profiles(*, pairs: int, is_quick: bool, folder: Path) -> list[Row]:
    """Measure a profile.

    Args:
        pairs: How many pairs to measure, after one that fills the caches.
        is_quick: One program only.
        folder: Where to run.
    """
    rows = []
    for name, target in list(_TARGETS.items())[: 1 if is_quick else None]:
        path = _HERE / "targets" / f"{target}.py"
        plain, profiled = [], []
        for pair in range(-1, pairs):
            by_hand = run([sys.executable, _HERE / "plain_profile.py", path], cwd=folder)
            ours = run([*graphdoctor(), "profile", path], cwd=folder)
            if pair >= 0:
                plain.append(by_hand)
                profiled.append(ours)
        for what, aim in (("wall", 2.0), ("CPU", None)):
            plain_s, ours_s = (
                [getattr(each, f"{what.lower()}_s") for each in runs] for runs in (plain, profiled)
            )
            rows.append(
                Row(f"`profile`, {name}: {what} time", "plain script", "s", plain_s, ours_s, aim)
            )
    return rows


def measure_on_gpu(*, pairs: int, is_quick: bool, folder: Path) -> list[Row | Share]:
    """Measure a bench of three ways to run a model on a GPU, and whether its medians are those of
    the script by hand.

    Args:
        pairs: How many pairs to measure, after one that fills the caches.
        is_quick: One program only.
        folder: Where to run.
    """
    rows: list[Row | Share] = []
    inside: dict[str, bool] = {}
    for name, target in list(_GPU_TARGETS.items())[: 1 if is_quick else None]:
        path = _HERE / "targets" / f"{target}.py"
        asked = [
            "--device",
            "cuda",
            "--no-grad",
            "--variant",
            f"mode={_GPU_MODE}",
            "--format",
            "json",
            "--force",
            "-o",
            "bench.json",
        ]
        plain, benched = [], []
        for pair in range(-1, pairs):
            by_hand = run(
                [sys.executable, _HERE / "plain_bench.py", path, "cuda", _GPU_MODE], cwd=folder
            )
            bench_s = run([*graphdoctor(), "bench", path, *asked], cwd=folder).wall_s
            if pair >= 0:
                plain.append(by_hand.wall_s)
                benched.append(bench_s)
        rows.append(
            Row(
                f"`bench`, {name}, three ways on a GPU: wall time",
                "plain script",
                "s",
                plain,
                benched,
                2.5,
            )
        )
        quartiles = json.loads(by_hand.stdout.splitlines()[-1])
        for variant in json.loads((folder / "bench.json").read_text())["variants"]:
            low, _, high = quartiles[variant["name"]]
            inside[f"{name}, {variant['name']}"] = low <= variant["call_us"]["median"] <= high
            print(
                name,
                variant["name"],
                variant["call_us"],
                quartiles[variant["name"]],
                file=sys.stderr,
            )
    outside = [name for name, is_inside in inside.items() if not is_inside]
    named = "medians inside the quartiles of the script by hand, on a GPU"
    return [
        *rows,
        Share(named, "", len(inside) - len(outside), len(inside), 5 / 6, {"outside": outside}),
    ]


def _first_answer_s(command: list[str], folder: Path) -> float:
    """Seconds until the status line on a terminal has a first ratio; of a bench that ends before,
    all of them.
    """
    started = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvp(command[0], command)
    text, found = b"", None
    while True:
        try:
            text = text[-200:] + os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if found is None and _FIRST_ANSWER in text:
            found = time.perf_counter() - started
    os.close(terminal)
    os.waitpid(pid, 0)
    return time.perf_counter() - started if found is None else found

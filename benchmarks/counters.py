"""Whether ``profile`` says what the counters of a GPU say: what each kernel waits for, against
Nsight Compute.

Runs where ``ncu`` is there. By the counters a kernel waits for memory if that is busy for 60% of
its time or more, for arithmetic if the multiprocessors are, and else for neither; ``profile`` has
no word for those or says ``latency``.
"""

from __future__ import annotations

import csv
import difflib
import json
import re
import sys
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.overhead import graphdoctor
from benchmarks.process import run
from benchmarks.rows import Share
from graphdoctor.facts.profile import BoundBy
from graphdoctor.studies.profile.report import kernel_runs
from graphdoctor.trace.reader import read_recording

_HERE = Path(__file__).resolve().parent
_TARGETS: dict[str, tuple[str, ...]] = {
    "mobilenet_v2": ("--no-grad",),
    "attention": ("--no-grad",),
    "gpt2_12_layers": ("--no-grad",),
    "chain": ("--no-grad",),
    "encoder_training": ("--backward",),
}
_METRICS = {
    "us": "gpu__time_duration.sum",
    "memory": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "compute": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
}
_BUSY = 60.0
"""Percent of the peak, from which Nsight Compute calls a unit the limit."""
_SAME: dict[BoundBy | None, str] = {
    "memory": "memory",
    "compute": "compute",
    "arithmetic": "compute",
}
_NO_KERNEL = ("Memcpy", "Memset")
_UNITS = {"nsecond": 1e-3, "ns": 1e-3, "usecond": 1.0, "us": 1.0, "msecond": 1e3, "ms": 1e3}


class Counted(NamedTuple):
    """A kernel by the GPU's counters: microseconds, and percent of the peak."""

    name: str
    us: float
    memory: float
    compute: float

    @property
    def bound_by(self) -> str:
        """What it waits for."""
        if max(self.memory, self.compute) < _BUSY:
            return "neither"
        return "memory" if self.memory >= self.compute else "compute"


def measure(*, pairs: int, is_quick: bool, folder: Path) -> list[Share]:
    """Compare the kernels of five programs.

    Args:
        pairs: How often each program is profiled, the last of which counts.
        is_quick: One program only.
        folder: Where to run.
    """
    agreed, whole, details = 0.0, 0.0, {}
    for target, options in list(_TARGETS.items())[: 1 if is_quick else None]:
        path = _HERE / "targets" / f"{target}.py"
        asked = [
            str(path),
            "--device",
            "cuda",
            *options,
            "--format",
            "json",
            "--force",
            "-o",
            "profile.json",
        ]
        for _ in range(pairs):
            run([*graphdoctor(), "profile", *asked], cwd=folder)
        report = json.loads((folder / "profile.json").read_text())
        counted = _counted(path, options, folder)
        lines = []
        for ours, theirs in _paired(report, folder, counted):
            whole += theirs.us
            is_same = _SAME.get(ours["bound_by"], "neither") == theirs.bound_by
            agreed += theirs.us if is_same else 0.0
            lines.append(
                f"{'same' if is_same else 'OTHER'} {ours['bound_by']} {theirs.bound_by}"
                f" {theirs.us:.1f} us memory {theirs.memory:.0f}% sm {theirs.compute:.0f}%; copy"
                f" {_percent(ours, 'bandwidth_share')} products {_percent(ours, 'compute_share')}"
                f" arithmetic {_percent(ours, 'arithmetic_share')}"
                f" {ours['time_us'] / ours['calls']:.1f} us,"
                f" {(ours['bytes'] or 0) / ours['calls'] / 1e6:.1f} MB {ours['kind']}"
                f" {theirs.name[:60]} {ours['elementwise']}"
            )
        details[target] = [f"calibration: {report['calibration']}", *lines]
    name = "`profile`: time of kernels that wait for what the GPU's counters say"
    return [Share(name, "", round(agreed), round(whole), 0.9, details)]


def _percent(kernel: dict[str, float | None], name: str) -> str:
    value = kernel[name]
    return "-" if value is None else f"{value:.0%}"


def _counted(path: Path, options: Sequence[str], folder: Path) -> list[Counted]:
    """Every kernel of one call by its counters, in order; caches are as the kernels before left
    them.
    """
    how = (
        "--target-processes application-only --profile-from-start off --clock-control none"
        " --cache-control none"
    )
    how += " --csv --page raw --metrics"
    script = [sys.executable, str(_HERE / "counted_call.py"), str(path), *options]
    out = run(
        ["ncu", *how.split(), ",".join(_METRICS.values()), *script], cwd=folder
    ).stdout.decode()
    table = csv.reader(out[out.index('"ID"') :].splitlines())
    names, units = next(table), next(table)
    at = {key: names.index(metric) for key, metric in _METRICS.items()}
    scale = _UNITS[units[at["us"]]]
    return [
        Counted(
            row[names.index("Kernel Name")],
            scale * _number(row[at["us"]]),
            _number(row[at["memory"]]),
            _number(row[at["compute"]]),
        )
        for row in table
        if len(row) == len(names)
    ]


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _paired(
    report: dict[str, Any], folder: Path, counted: list[Counted]
) -> list[tuple[dict[str, Any], Counted]]:
    """Kernels of the report with what the counters say of each of their calls, where both ran the
    same ones.

    One call in the code can run several kernels: their counters are weighted by their time.
    """
    *_, newest = sorted(each for each in (folder / ".graphdoctor").iterdir() if each.is_dir())
    profiled = read_recording(newest).profiled
    assert profiled is not None
    found = {
        matched.run: index
        for index, kernel in enumerate(kernel_runs(profiled))
        for matched in kernel.matched
    }
    calls = {
        each.run: (
            each.run if each.kernel is None else -1,
            profiled.call.kernels[each.run].run,
            each.kernel,
        )
        for each in profiled.matched
    }
    runs = [
        number
        for number, each in enumerate(profiled.call.kernels)
        if not each.name.startswith(_NO_KERNEL)
    ]
    ours, theirs = (
        [_short(profiled.call.kernels[each].name) for each in runs],
        [_short(each.name) for each in counted],
    )
    same = difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    pairs = [
        (runs[block.a + step], counted[block.b + step])
        for block in same
        for step in range(block.size)
    ]
    print(len(runs), len(counted), len(pairs), file=sys.stderr)
    whole: dict[object, list[tuple[int, Counted]]] = {}
    for number, each in pairs:
        whole.setdefault(calls[number], []).append((number, each))
    return [
        (report["kernels"][found[own[0][0]]], _mean([each for _, each in own]))
        for own in whole.values()
    ]


def _mean(kernels: list[Counted]) -> Counted:
    us = sum(each.us for each in kernels)
    memory, compute = (
        sum(each.us * value(each) for each in kernels) / us for value in (_MEMORY, _COMPUTE)
    )
    return Counted(" + ".join(each.name[:30] for each in kernels), us, memory, compute)


_MEMORY, _COMPUTE = attrgetter("memory"), attrgetter("compute")


def _short(name: str) -> str:
    """A kernel's name without its types and namespaces."""
    return re.split(r"[<(]", name.removeprefix("void "))[0].rpartition("::")[2]

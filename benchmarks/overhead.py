"""``graphdoctor explain`` against a bare script; and, of the same runs, compiling with recording
against without.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.process import Cost, run
from benchmarks.rows import Row

_HERE = Path(__file__).resolve().parent
TARGETS = {"GPT-2 tiny": "gpt2_tiny", "Longformer tiny": "longformer_tiny"}
QUICK_TARGETS = {"a small MLP": "mlp"}


def graphdoctor() -> list[str]:
    """The command: the script beside this interpreter, where there is one."""
    script = Path(sys.executable).with_name("graphdoctor")
    return [str(script)] if script.exists() else [sys.executable, "-m", "graphdoctor"]


def explain(target: Path, folder: Path) -> Cost:
    """Record a target; the recording lies in ``folder`` afterwards."""
    return run([*graphdoctor(), "explain", str(target), "--no-coverage"], cwd=folder)


def last_document(folder: Path) -> dict[str, object]:
    """The JSON document of the last recording in a folder."""
    document = json.loads(run([*graphdoctor(), "report", "--format", "json"], cwd=folder).stdout)
    recording: dict[str, object] = document["recording"]
    return recording


def measure(name: str, target: str, *, pairs: int, is_quick: bool, folder: Path) -> list[Row]:
    """Measure one target.

    Args:
        name: What to call it.
        target: Its module below ``benchmarks/targets``.
        pairs: How many pairs to measure.
        is_quick: Do without a first pair that only warms the file cache.
        folder: An empty folder to work in.
    """
    path = _HERE / "targets" / f"{target}.py"
    costs: tuple[list[Cost], list[Cost]] = [], []
    first_call: tuple[list[float], list[float]] = [], []
    compiling: tuple[list[float], list[float]] = [], []
    for pair in range(0 if is_quick else -1, pairs):
        bare = run([sys.executable, _HERE / "bare.py", path], cwd=folder)
        explained = explain(path, folder)
        if pair < 0:
            continue
        costs[0].append(bare)
        costs[1].append(explained)
        without = json.loads(bare.stdout.splitlines()[-1])
        recorded = last_document(folder)
        compiles, calls = recorded["compiles"], recorded["calls"]
        assert isinstance(compiles, list) and isinstance(calls, list)
        if len(compiles) != len(without["compile_s"]):
            raise RuntimeError(
                f"{len(compiles)} compiles were recorded; torch made {len(without['compile_s'])}"
            )
        first_call[0].append(without["first_call_s"])
        first_call[1].append(calls[0]["duration_s"])
        compiling[0].append(sum(without["compile_s"]))
        compiling[1].append(sum(entry["duration_s"] for entry in compiles))

    baseline = "bare script"
    return [
        Row(f"`explain`, {name}: wall time", baseline, "s", *_each(costs, "wall_s"), aim=1.15),
        Row(f"`explain`, {name}: CPU time", baseline, "s", *_each(costs, "cpu_s")),
        Row(f"`explain`, {name}: peak memory", baseline, "MB", *_each(costs, "peak_mb"), aim=1.15),
        Row(f"first call while recording, {name}", baseline, "s", *first_call, aim=1.05),
        Row(f"torch's compile time while recording, {name}", baseline, "s", *compiling, aim=1.05),
        *_compile_again(name, path, rounds=4 * pairs, folder=folder),
    ]


def _compile_again(name: str, path: Path, *, rounds: int, folder: Path) -> list[Row]:
    command: list[str | Path] = [sys.executable, _HERE / "compile_twice.py", path, str(rounds)]
    cost = run(
        command,
        cwd=folder,
        environment={"TORCH_TRACE": str(folder / "trace"), "PYTHONPATH": str(_HERE.parent)},
    )
    seconds = json.loads(cost.stdout.splitlines()[-1])
    return [
        Row(
            f"{what} while recording, {name}, in one process",
            "without",
            "s",
            each["without"],
            each["with"],
            aim=1.05,
        )
        for what, each in (
            ("torch's compile time", seconds["compile_s"]),
            ("CPU time of a call", seconds["cpu_s"]),
        )
    ]


def _each(costs: tuple[list[Cost], list[Cost]], field: str) -> tuple[list[float], list[float]]:
    return [getattr(cost, field) for cost in costs[0]], [getattr(cost, field) for cost in costs[1]]

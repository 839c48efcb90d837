"""What naming the cause of a recompile costs, and what a steady call costs under the recorder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.process import run
from benchmarks.rows import Row

_HERE = Path(__file__).resolve().parent
_TARGETS = {"GPT-2 tiny, 2 recompiles": "gpt2_tiny", "16 layers, 7 recompiles": "modes"}
_QUICK_TARGETS = {"16 layers, 7 recompiles": "modes"}


def measure(*, rounds: int, is_quick: bool, folder: Path) -> list[Row]:
    """Measure each target in one process, with and without in turn.

    Args:
        rounds: How often to compile it anew on each side.
        is_quick: Measure the smallest target alone.
        folder: A folder for the trace.
    """
    rows = []
    for name, target in (_QUICK_TARGETS if is_quick else _TARGETS).items():
        script = _HERE / "targets" / f"{target}.py"
        command: list[str | Path] = [
            sys.executable,
            _HERE / "recompile_again.py",
            script,
            str(rounds),
        ]
        environment = {"TORCH_TRACE": str(folder / "trace"), "PYTHONPATH": str(_HERE.parent)}
        values = json.loads(
            run(command, cwd=folder, environment=environment).stdout.splitlines()[-1]
        )
        cpu_s, steady_us = values["cpu_s"], values["steady_us"]
        rows += [
            Row(
                f"CPU time of calls that compile, with causes, {name}",
                "without",
                "s",
                *_sides(cpu_s),
                aim=1.05,
            ),
            Row(
                f"CPU time of a steady call under the recorder, {name}",
                "without",
                "us",
                *_sides(steady_us),
                aim=1.01,
            ),
        ]
    return rows


def _sides(values: dict[str, list[float]]) -> tuple[list[float], list[float]]:
    return values["without"], values["with"]

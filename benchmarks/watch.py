"""What ``graphdoctor.watch`` costs a steady call and a compile, with and without in turn in one
process.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

from benchmarks.process import run
from benchmarks.rows import Row

_CALLS = 500
_TURNS = 20
"""Of each side in a pair, in turn; the least of them counts, which other work on the machine can't
make less."""
_SIZES = range(2, 6)
"""A first compile and three recompiles."""


def measure(*, pairs: int, is_quick: bool, folder: Path) -> list[Row]:
    """Measure a compiled function that adds two numbers.

    Args:
        pairs: A tenth of how many pairs to measure.
        is_quick: One pair.
        folder: Where to run.
    """
    rounds = 1 if is_quick else 10 * pairs
    command: list[str | Path] = [sys.executable, "-m", "benchmarks.watch", str(rounds)]
    root = {"PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    values = json.loads(run(command, cwd=folder, environment=root).stdout.splitlines()[-1])
    steady, compiles = values["steady_us"], values["compile_ms"]
    causes = "CPU time of a compile while watching, causes included"
    return [
        Row(
            "CPU time of a steady call while watching",
            "without",
            "us",
            steady["without"],
            steady["with"],
            aim=1.01,
        ),
        Row(
            causes,
            "without",
            "s",
            [ms / 1000 for ms in compiles["without"]],
            [ms / 1000 for ms in compiles["with"]],
        ),
    ]


def main(rounds: str) -> None:
    import torch

    import graphdoctor

    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    compiled = torch.compile(add, backend="eager", dynamic=False)
    x = torch.ones(2)

    def steady() -> float:
        compiled(x, x)
        return _cpu_s(lambda: [compiled(x, x) for _ in range(_CALLS)]) / _CALLS * 1e6

    def compiling() -> float:
        torch.compiler.reset()
        calls = [torch.ones(size) for size in _SIZES]
        return _cpu_s(lambda: [compiled(it, it) for it in calls]) / len(calls) * 1e3

    values: dict[str, dict[str, list[float]]] = {}
    for name, work, turns in (("steady_us", steady, _TURNS), ("compile_ms", compiling, 2)):
        values[name] = {"without": [], "with": []}
        for number in range(-1, int(rounds)):
            least = dict.fromkeys(values[name], float("inf"))
            for _ in range(turns):
                for side in least:
                    is_watched = side == "with"
                    with closing(graphdoctor.watch(log=False)) if is_watched else nullcontext():
                        least[side] = min(least[side], work())
            for side, value in least.items() if number >= 0 else ():
                values[name][side].append(value)
    print(json.dumps(values))


def _cpu_s(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main(*sys.argv[1:])

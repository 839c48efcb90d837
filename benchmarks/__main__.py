"""``python -m benchmarks``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks import (
    accuracy,
    benches,
    counters,
    editing,
    fixes,
    lint,
    logs,
    merged_fixes,
    mutated_logs,
    overhead,
    recompiles,
    report_page,
    startup,
    survey,
    transformers_fixes,
    watch,
    world,
)
from benchmarks.rows import Row, Share, as_markdown, as_table

PARTS = (
    *(
        "overhead",
        "recompiles",
        "watch",
        "fixes",
        "samples",
        "benches",
        "profiles",
        "startup",
        "logs",
        "page",
        "lint",
        "editing",
        "fuzz",
    ),
    *("survey", "reach", "world", "set-aside", "held-out", "merged", "transformers"),
    *("gpu", "counters", "accuracy"),
)
_OF_RECORDINGS = {"overhead", "startup"}
_PACKAGES = {"merged": merged_fixes, "transformers": transformers_fixes}
_ASKED_FOR = {*world.CORPORA, *_PACKAGES, "gpu", "counters", "accuracy"}
"""Parts that only ``--only`` measures: some take hours, one installs environments, the others need
a GPU."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure what graphdoctor costs."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one pair of everything, on a small model: does it run?",
    )
    parser.add_argument(
        "--pairs", type=int, default=9, help="pairs to measure (default: %(default)s)"
    )
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="measure this part only; repeatable"
    )
    parser.add_argument(
        "--program",
        action="append",
        default=[],
        metavar="NAME",
        help="of reach, world, set-aside, held-out and accuracy, this program only; repeatable",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every value to a file")
    parser.add_argument(
        "--markdown", action="store_true", help="print the table as docs/benchmarks.md has it"
    )
    chosen = parser.parse_args(arguments)
    parts = tuple(chosen.only or sorted({*PARTS} - _ASKED_FOR, key=PARTS.index))
    with tempfile.TemporaryDirectory(prefix="graphdoctor-benchmarks-") as folder:
        rows = measure(
            parts,
            pairs=1 if chosen.quick else chosen.pairs,
            is_quick=chosen.quick,
            folder=Path(folder),
            programs=chosen.program,
        )
    print(as_markdown(rows) if chosen.markdown else as_table(rows))
    environment = describe_environment()
    print("\n" + ", ".join(f"{name} {value}" for name, value in environment.items()))
    if chosen.json:
        document = {"environment": environment, "rows": [row.as_json() for row in rows]}
        chosen.json.write_text(json.dumps(document, indent=2) + "\n")


def measure(
    parts: tuple[str, ...],
    *,
    pairs: int,
    is_quick: bool,
    folder: Path,
    programs: Sequence[str] = (),
) -> list[Row | Share]:
    """Measure the chosen parts, saying on standard error which one is under way."""
    rows: list[Row | Share] = []
    recordings = {}
    targets = overhead.QUICK_TARGETS if is_quick else overhead.TARGETS
    for name, target in targets.items() if _OF_RECORDINGS & {*parts} else ():
        place = folder / target
        place.mkdir()
        if "overhead" in parts:
            _say(f"explain against a bare script: {name}")
            rows += overhead.measure(name, target, pairs=pairs, is_quick=is_quick, folder=place)
        else:
            overhead.explain(Path(__file__).parent / "targets" / f"{target}.py", place)
        recordings[name] = (
            place / ".graphdoctor" / (place / ".graphdoctor" / "last").read_text().strip()
        )
    if "recompiles" in parts:
        _say("recompiling")
        rows += recompiles.measure(
            rounds=pairs * (1 if is_quick else 3), is_quick=is_quick, folder=folder
        )
    if "fixes" in parts:
        _say("trying fixes")
        rows += fixes.measure(pairs=pairs, is_quick=is_quick, folder=folder)
    if "samples" in parts:
        _say("fixing the samples")
        rows += fixes.measure_samples(pairs=min(pairs, 3), is_quick=is_quick, folder=folder)
    for part, said, measured in (
        ("benches", "benching", benches.measure),
        ("profiles", "profiling", benches.measure_profiles),
        ("gpu", "benching on a GPU", benches.measure_on_gpu),
        ("counters", "asking Nsight Compute", counters.measure),
        ("watch", "watching", watch.measure),
    ):
        if part in parts:
            _say(said)
            rows += measured(pairs=min(pairs, 3), is_quick=is_quick, folder=folder)
    if "startup" in parts:
        _say("starting")
        rows += startup.measure(
            pairs=pairs * (1 if is_quick else 3), recordings=recordings, folder=folder
        )
    if "logs" in parts:
        _say("reading large logs")
        size_bytes = 2_000_000 if is_quick else 1_000_000_000
        rows += logs.measure(
            pairs=min(pairs, 3), size_bytes=size_bytes, is_quick=is_quick, folder=folder
        )
    if "page" in parts:
        _say("opening a large report")
        sizes = (20, 300) if is_quick else (2_000, 20_000)
        rows += report_page.measure(rounds=pairs, compile_count=sizes[0], node_count=sizes[1])
    if "lint" in parts:
        _say("linting")
        rows += lint.measure(is_quick=is_quick, folder=folder)
    if "editing" in parts:
        _say("typing into an editor")
        rows += editing.measure(is_quick=is_quick, folder=folder)
    if "fuzz" in parts:
        _say("reading mutated logs")
        rows += mutated_logs.measure(count=100 if is_quick else 20_000, folder=folder)
    if "survey" in parts:
        _say("surveying")
        rows += survey.measure(pairs=min(pairs, 3), is_quick=is_quick, folder=folder)
    for part in (*world.CORPORA, *_PACKAGES, "accuracy"):
        if part in parts:
            _say(f"programs: {part}")
            rows += (
                accuracy.measure(is_quick=is_quick, folder=folder, names=programs)
                if part == "accuracy"
                else _PACKAGES[part].measure(is_quick=is_quick, folder=folder)
                if part in _PACKAGES
                else world.measure(part, is_quick=is_quick, folder=folder, names=programs)
            )
    return rows


def describe_environment() -> dict[str, str]:
    """What the figures depend on."""
    environment = {"Python": platform.python_version()}
    for package in ("torch", "transformers", "torch_geometric", "graphdoctor"):
        try:
            environment[package] = version(package)
        except PackageNotFoundError:
            continue
    return environment | {
        "on": f"{platform.system()} {platform.machine()}",
        "CPUs:": str(os.cpu_count()),
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    main()

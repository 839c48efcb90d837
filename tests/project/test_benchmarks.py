"""The benchmarks run; what they measure is nobody's assertion."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import command_folder, probe_python

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", ["world", "world/set_aside"])
def test_every_program_is_counted(folder):
    place = ROOT / "benchmarks" / folder
    counted = json.loads((place / "sites.json").read_text())
    assert sorted(counted) == sorted(path.stem for path in place.glob("*.py"))


@pytest.mark.nightly
def test_quick_benchmarks_measure_every_part(tmp_path):
    # What it starts is forked where it can be.
    commands = {
        "python": probe_python(),
        "graphdoctor": command_folder() / "graphdoctor",
        "tlparse": Path(sys.executable).with_name("tlparse"),
    }
    for name, start in commands.items():
        (tmp_path / name).symlink_to(start)
    main = f"import sys; sys.executable = '{tmp_path}/python'; from benchmarks.__main__ import main; main()"
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            main,
            "--quick",
            "--markdown",
            "--json",
            str(tmp_path / "rows.json"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("| ")
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    names = " ".join(row["name"] for row in rows)
    for part in (
        "wall time",
        "peak memory",
        "compile time",
        "with causes",
        "steady call",
        "a replay",
        "taken again",
        "samples: CPU time",
        "first answer",
        "--help",
        "report",
        "MB of log, large compiles",
        "MB of log, small compiles",
        "to write it",
        "ordinary programs",
        "an editor with",
    ):
        assert part in names
    assert all(row["measured"] for row in rows)

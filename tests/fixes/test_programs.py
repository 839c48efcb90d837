"""Programs as people write them: torch breaks at the sites that are counted here, graphdoctor
reports the same. ``python -m benchmarks --only reach`` fixes them.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import clean_environment, run_command, run_script

ORACLE = Path(__file__).with_name("oracle.py")
PROGRAMS = Path(__file__).with_name("programs")
SITES: dict[str, int] = json.loads((PROGRAMS / "sites.json").read_text())
"""By program how many lines of its own break the graph in torch 2.13."""
FILES = sorted(PROGRAMS.glob("*.py"))

Found = dict[str, dict[str, Any]]


def test_every_program_is_counted():
    assert sorted(SITES) == [path.stem for path in FILES]


@pytest.mark.slow
def test_every_program_runs_without_torch_compile(tmp_path):
    done = run_script(ORACLE, "--eager", *FILES, cwd=tmp_path, env=clean_environment())
    examined: Found = json.loads(done.stdout)
    assert len(examined) == len(FILES)
    assert {file: result for file, result in examined.items() if result["error"]} == {}


@pytest.mark.slow
@pytest.mark.long
def test_graphdoctor_reports_the_lines_where_torch_breaks(tmp_path):
    # One process makes the calls of all programs, and is recorded: what torch says there stands
    # beside what we say.
    command = ("run", "-q", "--report", "all.json", ORACLE, *FILES)
    examined: Found = json.loads(run_command(*command, cwd=tmp_path, timeout=600, status=0).stdout)
    assert {file: result["error"] for file, result in examined.items() if result["error"]} == {}
    findings = json.loads((tmp_path / "all.json").read_text())["findings"]
    places = [finding["location"] for finding in findings if finding["break_effects"]]
    reported = {f"{Path(place['file']).name}:{place['line']}" for place in places}
    sites = {site for site in reported if site.partition(".")[0] in SITES}
    assert sites == {site for result in examined.values() for site in result["sites"]}
    # Another torch breaks at other lines.
    if version("torch").startswith("2.13"):
        assert {Path(file).stem: len(result["sites"]) for file, result in examined.items()} == SITES

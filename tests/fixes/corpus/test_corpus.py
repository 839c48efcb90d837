"""Programs as people write them: torch breaks at the sites that are counted here, and graphdoctor
reports the same.

``measure.py`` counts how many of the sites are gone after ``graphdoctor fix``.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import clean_environment, run_command, run_script
from tests.fixes.corpus.measure import HERE, PROGRAMS, program_names

SITES: dict[str, int] = json.loads((HERE / "expected.json").read_text())
"""By program how many lines of its own break the graph."""
MEASURED_WITH = "2.13"
FILES = [PROGRAMS / f"{name}.py" for name in program_names()]

Found = dict[str, dict[str, Any]]


def test_the_corpus_is_large_and_counted() -> None:
    assert sorted(SITES) == program_names()
    assert len(SITES) >= 40
    assert sum(SITES.values()) >= 90


@pytest.mark.slow
def test_every_program_runs_without_torch_compile(tmp_path: Path) -> None:
    done = run_script(HERE / "oracle.py", "--eager", *FILES, cwd=tmp_path, env=clean_environment())

    found: Found = json.loads(done.stdout)
    assert len(found) == len(FILES)
    assert {file: one for file, one in found.items() if one["error"] or one["warnings"]} == {}


@pytest.mark.slow
@pytest.mark.long
def test_torch_breaks_at_the_counted_sites_and_graphdoctor_reports_the_same_lines(
    tmp_path: Path,
) -> None:
    # One process makes the calls of all programs, and is recorded: what torch says there stands
    # beside what we say.
    command = ("run", "-q", "--report", "all.json", HERE / "oracle.py", *FILES)

    found: Found = json.loads(run_command(*command, cwd=tmp_path, timeout=600, status=0).stdout)
    assert {file: one["error"] for file, one in found.items() if one["error"]} == {}
    findings = json.loads((tmp_path / "all.json").read_text())["findings"]
    places = [finding["location"] for finding in findings if finding["break_effects"]]
    reported = {f"{Path(place['file']).name}:{place['line']}" for place in places}
    own = {site for site in reported if site.partition(".")[0] in SITES}
    assert own == {site for one in found.values() for site in one["sites"]}
    # Another torch breaks at other lines.
    if version("torch").startswith(MEASURED_WITH):
        assert {Path(file).stem: len(one["sites"]) for file, one in found.items()} == SITES

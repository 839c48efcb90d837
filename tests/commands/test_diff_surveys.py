"""``graphdoctor diff`` of two surveys from the outside: what it exits with, what it writes, what it
refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.facts.reading import json_of, plain
from graphdoctor.studies.survey.table import write_parquet
from tests.conftest import RunCli
from tests.studies.survey.reports import failed, report, row


def written(folder: Path, name: str, rows: Any = None, **more: Any) -> str:
    """A survey in a file, by its ending."""
    made = report(rows, **more)
    if name.endswith(".json"):
        (folder / name).write_text(json_of(made))
    else:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(write_parquet(made))
    return name


def refused(found: Any) -> str:
    assert (found.returncode, found.stdout) == (2, "")
    assert "Traceback" not in found.stderr
    return str(found.stderr)


@pytest.mark.parametrize("name", ["before.parquet", "before.json"])
def test_the_same_survey_passes_in_either_form(tmp_path: Path, run_here: RunCli, name: str) -> None:
    found = run_here("diff", written(tmp_path, name), written(tmp_path, "after.parquet"))
    assert (found.returncode, found.stderr) == (0, "")
    assert "10 pieces compared: no regressions." in found.stdout


@pytest.mark.parametrize(
    ("rows", "options", "status"),
    [
        ([failed("bert", "compile_failed")], (), 1),
        ([failed("bert", "compile_failed")], ("--fail-on", "never"), 0),
        ([row(break_sites=1)], (), 1),
        ([row(break_sites=1)], ("--fail-on", "error"), 0),
        ([failed("bert", "lost")], ("--fail-on", "never"), 2),
        ([row(compile_cold_s=80.0)], ("--fail-on", "info"), 0),
    ],
)
def test_it_exits_as_check_does(
    tmp_path: Path, run_here: RunCli, rows: Any, options: tuple[str, ...], status: int
) -> None:
    before, after = written(tmp_path, "a.parquet", [row()]), written(tmp_path, "b.parquet", rows)
    found = run_here("diff", before, after, *options)
    assert (found.returncode, found.stderr) == (status, "")


def test_a_result_is_written_though_it_fails(tmp_path: Path, run_here: RunCli) -> None:
    before, after = (
        written(tmp_path, "a.parquet", [row()]),
        written(tmp_path, "b.parquet", [row(break_sites=1)]),
    )
    found = run_here("diff", before, after, "-o", "diff.md")
    assert (found.returncode, found.stdout, found.stderr) == (1, "", "Wrote diff.md\n")
    assert "break sites 0 → 1" in (tmp_path / "diff.md").read_text()


def test_a_folder_of_shards_is_compared_as_one(tmp_path: Path, run_here: RunCli) -> None:
    rows = report().rows
    for number, part in ((1, rows[:4]), (2, rows[4:])):
        written(tmp_path, f"shard-{number}/survey.parquet", part, shard=f"{number}/2")
    found = run_here("diff", written(tmp_path, "before.parquet"), ".")
    # The folder holds the first survey too, whose rows are the same.
    assert found.returncode == 0
    (tmp_path / "shards").mkdir()
    for number in (1, 2):
        (tmp_path / f"shard-{number}").rename(tmp_path / "shards" / f"shard-{number}")
    assert run_here("diff", "before.parquet", "shards").returncode == 0
    (tmp_path / "shards" / "shard-2" / "survey.parquet").unlink()
    found = run_here("diff", "before.parquet", "shards", status=2)
    assert "6 pieces of the first survey missing now" in found.stdout


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The folder of a survey that has run here, in the form that ``survey`` keeps."""
    folder = tmp_path / ".graphdoctor" / "20261130-012000-000000-nightly@survey"
    folder.mkdir(parents=True)
    made = report(started="2026-11-30T01:20:00Z")
    described = {
        "name": made.name,
        "started": made.started,
        "seconds": made.seconds,
        "made": len(made.rows),
        "kept": 0,
        "options": made.options,
        "shard": None,
        "engine": made.engine,
        "variants": [plain(variant) for variant in made.variants],
        "pieces": [row.key for row in made.rows],
        "notes": [],
    }
    (folder / "survey.json").write_text(json.dumps(described))
    with (folder / "rows.jsonl").open("w") as stream:
        for one in made.rows:
            stream.write(
                json.dumps({"row": plain(one), "plan": "p", "files": {}, "limits": []}) + "\n"
            )
    return folder


@pytest.mark.parametrize("second", [(), ("store",)])
def test_last_survey_is_default_and_its_folder_can_be_named(
    tmp_path: Path, run_here: RunCli, store: Path, second: tuple[str, ...]
) -> None:
    before = written(tmp_path, "a.parquet", [row(break_sites=2), *report().rows[1:]])
    found = run_here("diff", before, *(store for _ in second))
    assert (found.returncode, found.stderr) == (0, "")
    assert "10 pieces compared: no regressions, better: 1." in found.stdout


def test_the_last_survey_is_not_compared_with_itself(
    tmp_path: Path, run_here: RunCli, store: Path
) -> None:
    survey = written(tmp_path, "a.parquet", started="2026-11-30T01:20:00Z")
    assert "error: a.parquet is itself the last survey." in refused(run_here("diff", survey))

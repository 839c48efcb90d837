"""A survey of much used architectures on this machine, and torch asked again without graphdoctor.

It takes some ten minutes on two cores, so it is a step of its own in CI.
docs/survey-results.md has the table of the whole list.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

_HERE = Path(__file__).resolve().parent
_ARCHITECTURES = 62
_WHOLE_ASKED_AGAIN = 6
_LIST = """
name = "models"
timeout = 300

[run]
no-grad = true

[[targets]]
from = "transformers"
only = {transformers}

[[targets]]
from = "torch-geometric"
only = {geometric}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("models")
    listed = tomllib.loads((_HERE / "models.toml").read_text(encoding="utf-8"))["targets"]
    names = {one["from"]: one["only"] for one in listed}
    text = _LIST.format(
        transformers=json.dumps(names["transformers"][:_ARCHITECTURES]),
        geometric=json.dumps(names["torch-geometric"]),
    )
    (found / "models.toml").write_text(text, encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "graphdoctor", "survey", "models.toml", "-o", "table.json"]
    subprocess.run(command, cwd=folder, check=True)
    found: list[dict[str, Any]] = json.loads((folder / "table.json").read_text(encoding="utf-8"))[
        "rows"
    ]
    return found


def test_every_architecture_has_a_row_and_nothing_was_lost(rows: list[dict[str, Any]]) -> None:
    libraries = [row["name"].partition("/")[0] for row in rows]
    assert libraries.count("transformers") == _ARCHITECTURES
    assert libraries.count("torch-geometric") >= 25
    assert not [row["name"] for row in rows if row["status"] in ("lost", "skipped")]


def test_most_architectures_have_a_program_that_compiles(rows: list[dict[str, Any]]) -> None:
    passed = [row for row in rows if row["status"] == "ok"]
    assert len(passed) >= 0.85 * len(rows)
    assert all(row["graphs"] for row in passed)
    # What couldn't be measured says why.
    assert all(row["coverage"] is not None or row["gaps"] for row in passed)


def test_torch_says_the_same_without_graphdoctor(rows: list[dict[str, Any]], folder: Path) -> None:
    """Graphs by a backend that counts them, lines with breaks by torch's own log."""
    counted = [row for row in rows if row["status"] == "ok" and row["break_sites"] is not None]
    broken = [row for row in counted if row["break_sites"]]
    whole = [row for row in counted if not row["break_sites"]]
    assert broken
    for row in [*broken, *whole[:: len(whole) // _WHOLE_ASKED_AGAIN]]:
        command = [sys.executable, _HERE / "count_graphs.py", row["target"]]
        output = subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True
        ).stdout
        bare = json.loads(output.splitlines()[-1])
        assert bare["graphs"] == row["graphs"], row["name"]
        assert bare["break_sites"] == row["break_sites"], row["name"]

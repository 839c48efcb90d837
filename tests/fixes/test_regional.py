"""Compiling each of the modules that repeat, tried as a fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import run_command
from tests.factories import why
from tests.sections import texts_beside

pytestmark = pytest.mark.slow

(PROGRAM,) = texts_beside(__file__)
PRINT = '        print("done")\n'


def treated(folder: Path, *options: str, more: str = "", last: str = "") -> dict[str, Any]:
    (folder / "model.py").write_text(PROGRAM.format(more=more, last=last))
    command = (
        "fix",
        "model.py:Net",
        "--no-grad",
        "--format",
        "json",
        *(options or ("--no-timing", "--budget", "600")),
    )
    done = run_command(*command, cwd=folder)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_shared_layers_are_worth_it_after_all_other_fixes(tmp_path):
    document = treated(tmp_path, last=PRINT)
    treatment = document["recording"]["treatment"]
    printed, regional = (fix for fix in treatment["tried"] if fix["verdict"] == "verified")
    assert (printed["code"], regional["code"]) == ("GD101", "GD401")
    cold = regional["cold_compile"]
    assert cold["backend"] == regional["backend"] == "eager"
    assert cold["after_s"] < cold["before_s"]
    assert treatment["cold_compile"] == cold
    assert treatment["calls"] == ["for block in model.layers:\n    block.compile()"]
    assert treatment["left"] == []
    assert {finding["fingerprint"] for finding in document["findings"]} == set(treatment["gone"])
    requests = [
        json.loads(path.read_text())
        for path in sorted(tmp_path.glob(".graphdoctor/*/fixes/cold-*/request.json"))
    ]
    assert [request["regional"] for request in requests] == [True, False, True, False]
    assert len({request["trial"]["compiled"] for request in requests}) == 4
    assert not any(Path(request["trial"]["compiled"]).exists() for request in requests)


def test_layers_that_each_recompile_are_not(tmp_path):
    document = treated(tmp_path, more=" if self.index >= 0 else x")
    (fix,) = document["recording"]["treatment"]["tried"]
    assert (fix["verdict"], fix["is_applied"]) == ("makes it worse", False)
    assert why(fix) == "a block hits its recompile limit with it"
    (left,) = document["recording"]["treatment"]["left"]
    assert (left["code"], document["recording"]["treatment"]["gone"]) == ("GD401", [])
    assert left["verdict"] == "makes it worse"


def test_it_is_only_suggested_where_nothing_is_tried(tmp_path):
    (fix,) = treated(tmp_path, "--no-try")["recording"]["treatment"]["tried"]
    assert (fix["code"], fix["verdict"], fix["untried_cause"]) == (
        "GD401",
        "not tried",
        "not_requested",
    )

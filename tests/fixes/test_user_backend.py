"""Fixes tried under ``eager`` hold, or don't, under the backend that the user chose."""

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


def treated(folder: Path, statement: str) -> dict[str, Any]:
    (folder / "model.py").write_text(PROGRAM.format(statement=statement))
    options = (
        "--backend",
        "mine",
        "--unsafe-fixes",
        "--no-timing",
        "--budget",
        "600",
        "--format",
        "json",
    )
    done = run_command("fix", "model.py:Net", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    treatment: dict[str, Any] = json.loads(done.stdout)["recording"]["treatment"]
    return treatment


def test_a_fix_that_the_backend_does_not_take_is_named(tmp_path):
    treatment = treated(tmp_path, 'assert "where" not in graph.code, "no where here"')
    failed = [case for case in treatment["tried"] if case["verdict"] == "failed"]
    assert failed
    for case in failed:
        assert "torch.where" in case["title"]
        assert case["backend"] == "mine"
        assert (why(case) or "").startswith("under mine: ")
    applied = [case for case in treatment["tried"] if case["is_applied"]]
    # To run the branch in Python in place of that is for the clock.
    assert {case["code"] for case in applied} == {"GD101"}
    assert not [case for case in applied if "torch.where" in case["title"]]
    assert {case["backend"] for case in treatment["tried"] if case["verdict"] == "verified"} == {
        "eager"
    }
    assert treatment["backend"] == "mine"
    assert treatment["after"]["break_sites"] == 1
    folder, *_ = tmp_path.glob(".graphdoctor/*/fixes/mine-*")
    assert json.loads((folder / "request.json").read_text())["backend"] == "mine"


def test_backend_finding_is_tried_under_that_backend(tmp_path):
    # torch skips a function whose graph the backend declines.
    treatment = treated(
        tmp_path, "import torch._dynamo.exc as exc\n    raise exc.SkipFrame('not mine')"
    )
    assert {case["backend"] for case in treatment["tried"]} == {"mine"}

"""Breaks of the user's own that a package's break hides: they show once the package's part has its
own function."""

from __future__ import annotations

import json

import pytest

from tests.conftest import clean_environment, run_command
from tests.sections import texts_beside

PACKAGE, MODEL = texts_beside(__file__)


@pytest.mark.nightly
def test_break_after_a_loop_over_modules_is_fixed(tmp_path):
    site = tmp_path / "site-packages"
    (site / "slowlib").mkdir(parents=True)
    (site / "slowlib" / "__init__.py").write_text(PACKAGE)
    (tmp_path / "model.py").write_text(MODEL)
    env = clean_environment() | {"PYTHONPATH": str(site)}
    arguments = ("--unsafe-fixes", "--quiet", "-o", "fix.json")
    run_command("fix", "model.py", *arguments, cwd=tmp_path, env=env, timeout=900)
    treatment = json.loads((tmp_path / "fix.json").read_text())["recording"]["treatment"]
    tried = {(case["code"], case["title"]): case for case in treatment["tried"]}
    # The break shows if the loop has a function of its own. Both are kept, or none where more
    # graphs aren't faster.
    fix = tried["GD102", "Choose `x` with `torch.where`"]
    loop = tried["GD111", "Move the `for` at line 15 and its body into their own functions"]
    assert fix["is_applied"] == loop["is_applied"]
    verdicts = (fix["verdict"], loop["verdict"])
    taken_back = (("verified", "moved"), ("no effect", "no effect"))
    assert verdicts == ("verified", "contained") if fix["is_applied"] else verdicts in taken_back
    shown = [case for case in treatment["tried"] if case["code"] == "GD102"]
    assert shown[0]["before"]["coverage"] > treatment["before"]["coverage"] + 0.3

"""What the gate says about wrong usage and wrong files, before any probe is started."""

from __future__ import annotations

import tomllib

import pytest

from tests.conftest import CLEAN_TARGET

TARGET = '[[tool.graphdoctor.targets]]\nname = "encoder"\ntarget = "model.py"\n'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(CLEAN_TARGET)
    (tmp_path / "pyproject.toml").write_text(TARGET)
    return tmp_path


def test_unknown_code_in_per_path_ignores_is_named(folder, run_here):
    (folder / "pyproject.toml").write_text(
        '[tool.graphdoctor.per-path-ignores]\n"a" = ["E501"]\n' + TARGET
    )
    assert "No rule's code begins with 'E501'" in run_here("check").stderr


def test_without_targets_it_says_what_to_add_and_that_works(folder, run_here):
    (folder / "pyproject.toml").write_text("")
    found = run_here("check", status=2)
    assert "names no target" in found.stderr
    lines = [line.strip() for line in found.stderr.splitlines() if line.startswith("    ")]
    (target,) = tomllib.loads("\n".join(lines))["tool"]["graphdoctor"]["targets"]
    assert target == {"target": "model.py"}

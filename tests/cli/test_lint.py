"""``graphdoctor lint`` as a person uses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from graphdoctor.lint import Recorded, lint_files
from tests.conftest import RunCli

BAD = """\
import torch


@torch.compile
def step(x: torch.Tensor):
    print("a")
    return x * x.sum().item()
"""
CLEAN = "import torch\n\n\n@torch.compile\ndef step(x):\n    return x.sin()\n"
PLAIN = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        print("a")
        return x.sin()


def example_inputs():
    import torch

    return (torch.ones(4),)
"""
"""A model that its own file never compiles."""

RunHere = RunCli


def test_findings_are_lines_that_editors_understand(tmp_path: Path, run_here: RunHere) -> None:
    (tmp_path / "my model.py").write_text(BAD)
    done = run_here("lint", "my model.py")
    assert done.returncode == 1
    assert "my model.py:6:5: GD101 `print` has a side effect, so torch can't put it in a graph" in done.stdout
    assert "my model.py:7:16: GD103 `x.sum().item()` reads a tensor's value into Python" in done.stdout
    assert "help: Skip" in done.stdout
    assert done.stdout.endswith("2 findings in 1 compiled function of 1 file.\n")
    assert "\x1b" not in done.stdout


def test_a_clean_file_exits_with_0(tmp_path: Path, run_here: RunHere) -> None:
    (tmp_path / "clean.py").write_text(CLEAN)
    done = run_here("lint", ".")
    assert (done.returncode, done.stdout) == (0, "No findings in 1 compiled function of 1 file.\n")


def test_json_follows_its_schema(tmp_path: Path, run_here: RunHere) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    document = json.loads(run_here("lint", "bad.py", "--format", "json").stdout)
    jsonschema.validate(document, json.loads(run_here("schema", "lint").stdout))
    assert [finding["code"] for finding in document["findings"]] == ["GD101", "GD103"]
    assert document["findings"][0]["location"]["end_column"] == 15


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"def broken(:\n", "broken.py:1 can't be parsed: invalid syntax."),
        (b"\xff\xfe\x00", "broken.py can't be parsed"),
        (b"x = 1\0", "broken.py can't be parsed"),
        (b"<<<<<<< HEAD\nx = 1\n", "broken.py:1 can't be parsed"),
        (b"# coding: nonsense\n", "broken.py can't be parsed"),
    ],
)
def test_a_broken_file_is_named_and_the_others_are_linted(
    content: bytes, words: str, tmp_path: Path, run_here: RunHere
) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    (tmp_path / "broken.py").write_bytes(content)
    done = run_here("lint", "bad.py", "broken.py", "gone.py")
    assert done.returncode == 2
    assert words in done.stderr
    assert "gone.py can't be read: No such file or directory." in done.stderr
    assert "GD101" in done.stdout


def test_no_file_is_an_error(run_here: RunHere) -> None:
    done = run_here("lint")
    assert done.returncode == 2
    assert "No file is named" in done.stderr


def test_comments_and_selection_leave_findings_out(tmp_path: Path, run_here: RunHere) -> None:
    (tmp_path / "bad.py").write_text(BAD.replace('"a")', '"a")  # graphdoctor: ignore[GD101] wanted'))
    done = run_here("lint", "bad.py")
    assert "GD101" not in done.stdout and "GD103" in done.stdout
    assert "1 ignored" in done.stdout
    assert run_here("lint", "bad.py", "--ignore", "GD103").returncode == 0
    assert run_here("lint", "bad.py", "--select", "GD104").returncode == 0
    (tmp_path / "bad.py").write_text(BAD.replace('"a")', '"a")  # graphdoctor: ignore[GD102]'))
    assert "GD101" in run_here("lint", "bad.py").stdout


@pytest.mark.parametrize(
    ("setting", "left"),
    [
        ("torch._dynamo.config.capture_scalar_outputs = True", {"GD101"}),
        ("torch._dynamo.config.reorderable_logging_functions.add(print)", {"GD103"}),
        ("@torch._dynamo.config.patch(capture_scalar_outputs=True)\ndef f(): ...", {"GD101"}),
        ('torch._dynamo.config.patch({"capture_scalar_outputs": True})', {"GD101"}),
        ('"""Do not set capture_scalar_outputs."""', {"GD101", "GD103"}),
    ],
)
def test_what_a_setting_of_the_project_mends_is_left_out(setting: str, left: set[str], tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    (tmp_path / "train.py").write_text(setting)
    report = lint_files([tmp_path / "bad.py"], root=tmp_path, version="0")
    assert {finding.code for finding in report.findings} == left
    assert bool(report.notes) == (len(left) == 1)
    assert all("train.py sets torch._dynamo.config." in note for note in report.notes)


def test_what_a_recording_saw_is_found_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    assert lint_files([path], root=tmp_path, version="0").findings == ()
    recorded = Recorded({path: frozenset({"Net.forward", "Gone.forward"})})
    report = lint_files([path], root=tmp_path, version="0", recorded=lambda: recorded)
    assert [finding.location.line for finding in report.findings] == [6]


def test_a_setting_that_the_recording_was_given_counts(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    recorded = Recorded(settings=frozenset({"capture_scalar_outputs"}))
    report = lint_files([tmp_path / "bad.py"], root=tmp_path, version="0", recorded=lambda: recorded)
    assert {finding.code for finding in report.findings} == {"GD101"}


@pytest.mark.slow
def test_lint_agrees_with_the_run_that_was_recorded(
    tmp_path: Path, explain_json: Callable[..., dict[str, Any]], run_here: RunHere
) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    seen = explain_json("plain.py", "--no-coverage")["findings"]
    # The file has changed since: what was compiled is known by its name.
    (tmp_path / "plain.py").write_text("import os\n" + PLAIN)
    document = json.loads(run_here("lint", "plain.py", "--format", "json").stdout)
    assert [one["fingerprint"] for one in document["findings"]] == [one["fingerprint"] for one in seen]
    assert document["findings"][0]["location"]["line"] == seen[0]["location"]["line"] + 1
    assert run_here("lint", "plain.py", "--no-recording").returncode == 0

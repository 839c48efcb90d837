"""Two runs of the same thing beside busy processes never give two different verdicts about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import run_command

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

_MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    step = 0

    def forward(self, x):
        self.step += 1
        return x * self.step


model = Net()


def example_inputs():
    return [torch.ones(rows, 3) for rows in range(2, 8)]
"""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "model.py").write_text(_MODEL)
    spinning = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield tmp_path
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def test_what_if_names_the_same_cause_and_remedies(busy: Path) -> None:
    command = "recompiles", "model.py", "--what-if", "--format", "json"
    answers = [
        json.loads(run_command(*command, cwd=busy, status=0).stdout)["recording"]["what_if"]
        for _ in range(2)
    ]
    remedies = [
        [[one["name"] for one in row["remedies"]] for row in answer["results"]]
        for answer in answers
    ]
    told = [(answer["binding"], each) for answer, each in zip(answers, remedies, strict=True)]
    assert len(told[0][1]) > 1
    assert told[0] == told[1]


def test_diff_of_an_unchanged_program_calls_nothing_faster_or_slower(busy: Path) -> None:
    for name in ("a.json", "b.json"):
        (busy / name).write_text(
            run_command("explain", "model.py", "--format", "json", cwd=busy, status=0).stdout
        )
    shown = run_command("diff", "a.json", "b.json", cwd=busy, status=0).stdout
    assert "steady call" in shown or "compile time" in shown
    assert not {"faster", "slower"} & set(shown.split())


_TINY = """
import torch


def scale(x, w):
    return x + w


def example_inputs():
    return torch.randn(8), torch.randn(8)
"""


def test_guards_find_the_same_twice(busy: Path) -> None:
    documents = [
        json.loads(run_command("guards", "model.py", "--format", "json", cwd=busy, status=0).stdout)
        for _ in range(2)
    ]
    found = [sorted(finding["code"] for finding in document["findings"]) for document in documents]
    assert found[0] == found[1]
    shares = [
        each["share"] for document in documents for each in document["recording"]["guards"]["sets"]
    ]
    assert all(share is None or 0 <= share <= 1 for share in shares)


def test_cure_comes_to_the_same_end_twice(busy: Path) -> None:
    (busy / "model.py").write_text(_TINY)
    command = "cure", "model.py", "--budget", "30", "--format", "json"
    answers = [
        json.loads(run_command(*command, cwd=busy, status=0).stdout)["best"] for _ in range(2)
    ]
    assert answers == ["eager", "eager"]

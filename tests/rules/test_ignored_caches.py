"""Functions with a cache in compiled code: those are told of whose tensors the code computes again
in each call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import run_command

pytestmark = pytest.mark.slow

PROGRAM = """
import functools

import torch

@functools.lru_cache
def mask(size):
    return torch.ones(size, size).tril()

@functools.cache
def scale(size):  # gives no tensor
    return size ** -0.5

def plain(size):  # has no cache
    return torch.ones(size)

class Rotary(torch.nn.Module):
    @functools.lru_cache(maxsize=4)
    def table(self, size):
        return torch.arange(size).cos(), torch.arange(size).sin()

    @property
    @functools.cache
    def name(self):
        return "rotary"

    def forward(self, x):
        size = x.shape[-1]
        cos, sin = self.table(size)  # found
        masked = x * mask(size)  # found
        kept = outside(masked) if self.name else masked
        return kept * cos * scale(size) + sin + plain(size)

@torch.compiler.disable
def outside(x):  # runs in Python, where the cache works
    return x + mask(8)

mask(8)  # what is cached already is computed again all the same
model = Rotary()

def example_inputs():
    return [(torch.ones(8, 8),), (torch.ones(8, 8),)]
"""


def test_those_whose_tensors_are_computed_again_are_told_of(tmp_path: Path) -> None:
    program = tmp_path / "cached.py"
    program.write_text(PROGRAM)
    process = run_command("explain", program, "--format", "json", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    caches = json.loads(process.stdout)["recording"]["ignored_caches"]
    assert [each["function"] for each in caches] == ["Rotary.table", "mask"]
    findings = [each for each in json.loads(process.stdout)["findings"] if each["code"] == "GD404"]
    marked = [line for line, text in enumerate(PROGRAM.splitlines(), 1) if text.endswith("# found")]
    assert [each["location"]["line"] for each in findings] == marked
    assert ["`Rotary.table`" in findings[0]["message"], "`mask`" in findings[1]["message"]] == [
        True,
        True,
    ]
    assert {each["location"]["function"] for each in findings} == {"Rotary.forward"}

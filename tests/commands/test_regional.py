"""A run that compiles each of the modules that repeat, and not the whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.conftest import RunCli, clean_environment, run_script

pytestmark = pytest.mark.slow

MODEL = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.linear(x).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(12))
        layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        if x.ndim != 3:
            raise ValueError("three dims")
        for layer in self.layers:
            x = layer(x)
        return self.head(self.encoder(x))


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        return self.layers[1](self.layers[0](x))


def example_inputs():
    return (torch.randn(2, 3, 8),)
"""
PATHS = [f"layers.{index}" for index in range(12)]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def test_instances_share_graphs_and_run_as_before(
    model: Path, explain_json: Callable[..., dict[str, Any]], run_cli: RunCli
) -> None:
    found = explain_json(
        "model.py:Net", "--regional", "--eval", "--no-grad", "--backend", "aot_eager"
    )
    target, summary = found["recording"]["target"], found["summary"]
    assert target["is_regional"]
    assert [
        (known["class_name"], known["kinds"], known["compiled_as"]) for known in target["blocks"]
    ] == [("Block", 1, "module"), ("TransformerEncoderLayer", 1, "forward")]
    assert target["blocks"][0]["paths"] == PATHS
    assert (
        summary["graphs"],
        summary["compiles"],
        summary["recompiles"],
        summary["break_sites"],
    ) == (2, 2, 0, 0)
    assert summary["graphs_per_call"] == 15
    # Outside graphs runs the last layer alone.
    assert (summary["coverage_detail"]["eager_ops"], found["findings"]) == (1, [])
    assert [frame["qualname"] for frame in found["recording"]["frames"]] == [
        "Block.forward",
        "TransformerEncoderLayer.forward",
    ]
    assert found["recording"]["frames"][1]["file"].endswith("model.py")
    assert len(found["recording"]["compiles"]) == 2
    assert all(compile_["duration_s"] > 0 for compile_ in found["recording"]["compiles"])
    assert "regional: 12 Block, 3 TransformerEncoderLayer" in " ".join(
        run_cli("report").stdout.split()
    )


def test_a_call_that_fails_is_tried_without_torch_compile(
    model: Path, explain_json: Callable[..., dict[str, Any]]
) -> None:
    found = explain_json("model.py:Net", "--regional", "--input", "f32[3,8]")
    assert found["recording"]["calls"][0]["error"]["eager"] == "ValueError"
    assert found["recording"]["exit"]["error_type"] == "ValueError"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "model.py:Small",
            "--regional: no class of modules repeats in Small: none has 3 instances with the same",
        ),
        ("model.py:example_inputs", "--regional: example_inputs isn't a module"),
    ],
)
def test_a_target_without_blocks_is_refused(
    model: Path, run_cli: RunCli, target: str, message: str
) -> None:
    refused = run_cli("explain", target, "--regional")
    assert (refused.returncode, message in refused.stderr) == (2, True)


def test_a_bundle_makes_the_same_run(model: Path, run_cli: RunCli, tmp_path: Path) -> None:
    run_cli("explain", "model.py:Net", "--regional", "--eval", "--no-grad", "--no-coverage")
    assert run_cli("bundle", "-o", "whole.zip").returncode == 0
    with ZipFile(tmp_path / "whole.zip") as archive:
        archive.extractall(tmp_path / "whole")
    (script,) = (tmp_path / "whole").rglob("reproduce.py")
    text = script.read_text()
    assert "target.get_submodule(path).compile(backend='eager')" in text
    assert "block.forward = torch.compile(block.forward, backend='eager')" in text
    run_script(script, cwd=script.parent, env=clean_environment())

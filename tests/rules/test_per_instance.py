"""GD211: a method that recompiles for each instance of its module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.slow
def test_layers_that_differ_in_a_python_number_are_found(
    tmp_path: Path, explain_json: Callable[..., dict[str, Any]]
) -> None:
    model = tmp_path / "model.py"
    model.write_text(LAYERS)
    found = {finding["code"]: finding for finding in explain_json(model)["findings"]}
    assert "self.out_channels" in found["GD211"]["message"]
    assert "x.shape" not in found["GD211"]["message"]
    assert found["GD211"]["related"][0]["text"] == "x = layer(x)"


LAYERS = """
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.out_channels = n_out
        self.conv = nn.Conv1d(n_in, n_out, 3, padding=1)

    def forward(self, x):
        return self.conv(x).view(x.shape[0], self.out_channels, -1).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(a, b) for a, b in [(4, 8), (8, 16), (16, 24), (24, 32)])

    def forward(self, x):
        for layer in self.layers:
            print("layer")
            x = layer(x)
        return x.mean()


def build():
    return Net()


def example_inputs():
    return (torch.randn(2, 4, 10),)
"""

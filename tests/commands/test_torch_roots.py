"""A module of a class of torch's own as the target, or handed to torch.compile by a script."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow

MODEL = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))


def example_inputs():
    yield (torch.randn(4, 8),)
    model[1].eval()
    yield (torch.randn(4, 8),)
"""
SCRIPT = """\
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
        self.fast = torch.compile(
            self.net,
            backend="eager",
        )


trainer = Trainer()
trainer.fast(torch.randn(4, 8))
trainer.net[1].eval()
trainer.fast(torch.randn(4, 8))
"""


def found_in(document):
    finding = next(found for found in document["findings"] if found["code"] == "GD212")
    return finding["location"], finding["changes"][0]["expression"]


def test_a_target_is_named_as_in_its_file(tmp_path, explain_json):
    (tmp_path / "model.py").write_text(MODEL)
    document = explain_json("model.py", "--no-coverage")
    location, expression = found_in(document)
    assert (location["file"], location["line"], expression) == ("model.py", 4, "model[1].training")
    assert {frame["qualname"] for frame in document["recording"]["frames"]} == {
        "Sequential.forward"
    }
    assert {found["location"]["file"] for found in document["findings"]} == {"model.py"}
    weights = [f"L['model']._modules['0']._parameters['{name}']" for name in ("weight", "bias")]
    assert {item["source"] for item in document["recording"]["graphs"][0]["inputs"]} == {
        *weights,
        "L['input']",
    }


def test_a_scripts_module_is_named_as_it_is_compiled(tmp_path, run_cli):
    (tmp_path / "train.py").write_text(SCRIPT)
    assert run_cli("run", "train.py", "-q").returncode == 0
    location, expression = found_in(json.loads(run_cli("report", "--format", "json").stdout))
    assert (location["file"], expression) == ("train.py", "self.net[1].training")
    assert location["line"] in range(8, 12)

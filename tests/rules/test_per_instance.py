"""GD211: a method that recompiles for each instance of its module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.facts.recording import Compile
from graphdoctor.rules.catalog import RULES
from graphdoctor.rules.diagnosis.diagnose import diagnose
from tests.factories import change, compiled, entry, recompiled, recording

LOOP = (entry(24, "x = layer(x)", function="run", qualname="Net.run"), entry(12, "y = self.conv(x)"))
WIDTH = change("module_number", "self.width", "8", "16", source="L['self'].width")
INPUT = change("size", "x.shape[1]", "8", "16")
WEIGHT = change(
    "size", "self.conv.weight.shape[0]", "8", "16", source="L['self']._modules['conv']._parameters['weight']"
).model_copy(update={"is_parameter": True})


def findings(*compiles: Compile, is_regional: bool = False) -> list[Finding]:
    facts = recording(compiles=(compiled(stack=LOOP), *compiles))
    facts = facts.model_copy(update={"target": facts.target.model_copy(update={"is_regional": is_regional})})
    found = diagnose(facts, RULES, root=Path("/project"), version="0").findings
    return [finding for finding in found if finding.code == "GD211"]


def again(*changes: GuardChange, call: int = 1) -> tuple[Compile, Compile]:
    first, second = (recompiled(f"0/{number}", *changes, call=call, stack=LOOP) for number in (1, 2))
    return first, second


def test_layers_of_other_widths_are_instances_though_their_input_differs_too() -> None:
    (finding,) = findings(*again(INPUT, WEIGHT, WIDTH))
    assert finding.message.endswith("because `self.width` and `self.conv.weight.shape[0]` differ")
    assert [one.expression for one in finding.changes] == ["self.width", "self.conv.weight.shape[0]"]
    assert "buffers" not in " ".join(fix.title for fix in finding.fixes)


def test_numbers_alone_can_be_kept_in_buffers() -> None:
    (finding,) = findings(*again(WIDTH))
    assert any("buffers" in fix.title for fix in finding.fixes)


def test_where_each_layer_is_compiled_by_itself_no_caller_has_a_break_to_fix() -> None:
    (whole,), (regional,) = findings(*again(WIDTH)), findings(*again(WIDTH), is_regional=True)
    assert [("caller" in fix.title, "`layer.compile()`" in fix.title) for fix in whole.fixes] == [
        (True, False),
        (False, False),
        (False, True),
    ]
    assert [fix.title.partition(",")[0] for fix in regional.fixes] == [
        "Keep what differs between the instances in buffers",
        "Compile the whole module",
    ]


def test_a_number_that_changes_beside_an_input_may_be_a_counter() -> None:
    assert findings(*again(INPUT, WIDTH)) == []


def test_one_recompile_is_no_pattern() -> None:
    assert findings(again(INPUT, WEIGHT)[0]) == []


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

"""``graphdoctor recompiles``: a target, a recording, a log of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunCli, clean_environment, run_script

BATCHES = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        x = self.fc[0](x).relu()
        torch._dynamo.graph_break()
        x = self.fc[1](x).relu()
        torch._dynamo.graph_break()
        x = self.fc[2](x.reshape(-1, 8)).relu()
        torch._dynamo.graph_break()
        return self.fc[3](x.repeat(2, 1)).sum()


model = Net()


def example_inputs():
    for size in (4, 4, 8, 8, 12):
        yield (torch.randn(size, 8),)
"""
SCRIPT = """\
import torch
from net import example_inputs, model

compiled = torch.compile(model, backend="eager")
for step, arguments in enumerate(example_inputs()):
    compiled(*arguments)
"""


@pytest.fixture(scope="session")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model whose batch size changes once, and the same as a script."""
    folder = tmp_path_factory.mktemp("batches")
    (folder / "net.py").write_text(BATCHES)
    (folder / "train.py").write_text(SCRIPT)
    return folder


@pytest.mark.slow
def test_one_changed_batch_size_is_one_recompile_with_all_its_compiles(run_cli: RunCli, batches: Path) -> None:
    done = run_cli("recompiles", "net.py", "--format", "json", cwd=batches, status=0)
    document: dict[str, Any] = json.loads(done.stdout)
    (report,) = document["recompiles"]
    assert len(report["compile_ids"]) == document["summary"]["recompiles"] == 4
    assert document["summary"]["recompile_causes"] == 1
    (cause,) = report["cause"]
    assert (cause["expression"], cause["old"], cause["new"]) == ("x.shape[0]", "4", "8")
    assert cause["guard_location"]["line"] == 10
    assert (report["call_index"], report["nearest"], report["is_exact"]) == (3, "0/0", True)
    assert report["cost_s"] > 0
    text = run_cli("recompiles", cwd=batches).stdout
    assert "4 recompiles from 1 cause." in text


@pytest.mark.slow
def test_a_log_of_others_names_the_same_cause_from_torchs_text(run_cli: RunCli, batches: Path, tmp_path: Path) -> None:
    environment = clean_environment(TORCH_TRACE=str(tmp_path / "trace"))
    run_script(batches / "train.py", cwd=batches, env=environment)
    document = json.loads(run_cli("recompiles", tmp_path / "trace", "--format", "json").stdout)
    (report,) = document["recompiles"]
    assert len(report["compile_ids"]) == 4
    (cause,) = report["cause"]
    assert (cause["expression"], cause["old"], cause["new"]) == ("x.shape[0]", "4", "8")
    assert not report["is_exact"]
    assert report["call_site"]["file"].endswith("train.py")
    assert report["call_site"]["line"] == 6
    shown = run_cli("recompiles", tmp_path / "trace").stdout
    assert "first failed guard" in " ".join(shown.split())

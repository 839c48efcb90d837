"""``graphdoctor recompiles``: a target, a recording, a log of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunCli, clean_environment, run_script
from tests.each import for_each

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

DECORATED = """\
import functools
import torch


def first(function):
    @functools.wraps(function)
    def inner(x, *args):
        return function(x, *args)

    return inner


def all_of_them(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)

    return inner


class Net(torch.nn.Module):
    @all_of_them
    def forward(self, x, y):
        return x.sum() + y


net = Net()


@first
def added(x, y):
    return x.sum() + y


def example_inputs():
    for size in (4, 6):
        yield torch.ones(3), torch.ones(size)
"""
PARTIAL = """\
import functools
import torch


def scaled(x, scale, shift=0):
    return x * scale + shift


shifted = functools.partial(scaled, shift=2)


def example_inputs():
    for scale in (1.5, 2.5):
        yield torch.ones(3), scale
"""
PARTLY_CONSTANT = """\
import torch

FACTORS = {4: 0.5, 6: 1.5}


def net(x, y):
    return x * FACTORS[x.shape[0]] + y.sum()


def example_inputs():
    for size in (4, 6):
        yield torch.ones(size), torch.ones(size + 1)
"""


@pytest.fixture(scope="session")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model whose batch size changes once, and the same as a script."""
    folder = tmp_path_factory.mktemp("batches")
    (folder / "net.py").write_text(BATCHES)
    (folder / "train.py").write_text(SCRIPT)
    return folder


@pytest.mark.slow
def test_one_changed_batch_size_is_one_recompile(run_cli: RunCli, batches: Path) -> None:
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
    assert "4 recompiles from 1 cause." in run_cli("recompiles", cwd=batches).stdout


@pytest.mark.slow
def test_foreign_log_names_the_same_cause_from_torchs_text(
    run_cli: RunCli, batches: Path, tmp_path: Path
) -> None:
    environment = clean_environment(TORCH_TRACE=str(tmp_path / "trace"))
    run_script(batches / "train.py", cwd=batches, env=environment)
    (report,) = json.loads(run_cli("recompiles", tmp_path / "trace", "--format", "json").stdout)[
        "recompiles"
    ]
    assert len(report["compile_ids"]) == 4
    (cause,) = report["cause"]
    assert (cause["expression"], cause["old"], cause["new"]) == ("x.shape[0]", "4", "8")
    assert not report["is_exact"]
    assert report["call_site"]["file"].endswith("train.py")
    assert report["call_site"]["line"] == 6
    assert "first failed guard" in " ".join(
        run_cli("recompiles", tmp_path / "trace").stdout.split()
    )


@pytest.mark.slow
@for_each("target", ["net", "added"])
def test_an_argument_has_its_own_name_whatever_a_decorator_takes(
    run_cli: RunCli, tmp_path: Path, target: str
) -> None:
    (tmp_path / "model.py").write_text(DECORATED)
    done = run_cli("recompiles", f"model.py:{target}", "--format", "json", cwd=tmp_path, status=0)
    snippets = [
        fix["snippet"]
        for finding in json.loads(done.stdout)["findings"]
        for fix in finding["fixes"]
    ]
    assert "torch._dynamo.mark_dynamic(y, 0)" in snippets


@pytest.mark.slow
def test_size_used_as_a_constant_is_not_learned(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PARTLY_CONSTANT)
    done = run_cli("recompiles", "model.py:net", "--format", "json", cwd=tmp_path, status=0)
    document = json.loads(done.stdout)
    assert [finding["code"] for finding in document["findings"]] == ["GD202"]
    graphs = [
        {item["source"]: item["shape"] for item in graph["inputs"]}
        for graph in document["recording"]["graphs"]
    ]
    assert [graph["L['x']"] for graph in graphs] == [[4], [6]]


@pytest.mark.slow
def test_a_partial_is_called_as_the_program_does(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PARTIAL)
    done = run_cli("recompiles", "model.py:shifted", "--format", "json", cwd=tmp_path, status=0)
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["message"] == "`shifted` recompiled once because `scale` changed: 1.5 → 2.5"

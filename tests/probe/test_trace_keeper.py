"""Programs that take torch's trace logger apart while they are recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphdoctor.trace.reader import read_recording
from tests.conftest import RunCli, clean_environment

pytestmark = pytest.mark.slow

MODEL = """\
import logging, logging.config, torch

trace = logging.getLogger("torch.__trace")

class Net(torch.nn.Module):
    def forward(self, x):
        print("hi")
        return torch.relu(x) + 1

def take_apart():
    {taken_apart}

def example_inputs():
    yield (torch.randn(4),)
    take_apart()
    yield (torch.randn(5),)
"""
SCRIPT = (
    MODEL
    + """
net = torch.compile(Net(), backend="eager")
for inputs in example_inputs():
    net(*inputs)
"""
)
BACKEND = """\
import logging, torch

@torch._dynamo.register_backend
def careless(gm, inputs):
    logging.getLogger("torch.__trace").handlers.clear()
    return gm.forward

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1

def example_inputs():
    return (torch.randn(4),)
"""
WAYS = {
    "clear": "trace.handlers.clear()",
    "assign": "trace.handlers = []",
    "remove": "[trace.removeHandler(handler) for handler in list(trace.handlers)]",
    "level": "trace.setLevel(logging.CRITICAL)",
    "handler-level": "[handler.setLevel(logging.CRITICAL) for handler in trace.handlers]",
    "dictConfig": "logging.config.dictConfig({'version': 1, 'loggers': {'torch.__trace': {'level': 'ERROR'}}})",
    "disable": "logging.disable(logging.CRITICAL); trace.disabled = True",
    "set_logs": "torch._logging.set_logs(dynamo=logging.ERROR)",
    "shutdown": "logging.shutdown()",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_target_that_takes_the_logger_apart_between_calls_loses_nothing(tmp_path, explain_json, way):
    (tmp_path / "model.py").write_text(MODEL.format(taken_apart=way))
    found = explain_json("model.py", "--no-coverage")
    assert (found["summary"]["graphs"], found["summary"]["recompiles"], len(found["recording"]["calls"])) == (2, 1, 2)
    assert "GD101" in {finding["code"] for finding in found["findings"]}
    assert not [gap for gap in found["recording"]["gaps"] if gap["kind"] == "log_removed"]


@pytest.mark.parametrize("way", ["clear", "dictConfig", "set_logs"])
def test_a_script_that_takes_the_logger_apart_between_calls_loses_nothing(tmp_path, run_cli, way):
    (tmp_path / "train.py").write_text(SCRIPT.format(taken_apart=WAYS[way]))
    assert run_cli("run", "train.py").returncode == 0
    found = json.loads(run_cli("report", "--format", "json").stdout)
    assert (found["summary"]["graphs"], found["summary"]["recompiles"]) == (2, 1)
    assert not [gap for gap in found["recording"]["gaps"] if gap["kind"] == "log_removed"]


def test_a_model_file_that_clears_the_handlers_loses_nothing(tmp_path, explain_json):
    (tmp_path / "model.py").write_text(MODEL.format(taken_apart="pass") + "\ntrace.handlers.clear()\n")
    found = explain_json("model.py", "--no-coverage")
    assert (found["summary"]["graphs"], len(found["recording"]["calls"])) == (2, 2)


def test_what_is_lost_while_torch_compiles_is_said_and_the_exit_code_is_2(tmp_path: Path, run_cli: RunCli):
    (tmp_path / "model.py").write_text(BACKEND)
    process = run_cli("explain", "model.py:Net", "--backend", "careless", "--no-coverage", "-q")
    assert process.returncode == 2
    assert "error: The program changed torch's trace logger" in process.stderr
    assert "records of 1 compile are missing" in process.stderr
    gap = next(gap for gap in read_last(tmp_path).gaps if gap.kind == "log_removed")
    assert gap.code == "GD902"


def test_a_log_that_the_program_deletes_is_missed(tmp_path: Path, run_cli: RunCli):
    way = "import glob, os; [os.remove(log) for log in glob.glob('.graphdoctor/*/trace/*')]"
    (tmp_path / "model.py").write_text(MODEL.format(taken_apart=way))
    process = run_cli("explain", "model.py", "--no-coverage", env=clean_environment())
    assert process.returncode == 2
    assert "The trace log has none of the calls that were made" in process.stderr


def read_last(folder: Path):
    return read_recording(next((folder / ".graphdoctor").glob("2*")))

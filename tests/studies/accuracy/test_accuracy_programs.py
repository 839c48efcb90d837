"""``accuracy`` of programs that raise, print, or never repeat themselves."""

import json
from pathlib import Path

import pytest

from tests.conftest import RunCli

pytestmark = pytest.mark.slow

PROGRAM = """\
import torch

count = 0


@torch.compiler.disable
def helper(x):
    raise ValueError("no such shape")


@torch.compiler.disable
def alone(x):
    return x + 1


def f(x):
    global count
    count += 1
    {body}


def example_inputs():
    return (torch.ones(3),)
"""


@pytest.mark.parametrize(
    ("body", "verdict", "status"),
    [
        ("raise ValueError('no such shape')", "unknown", 2),
        ("return helper(x + 1)", "same bits", 0),
        ("return x + (1 if torch.compiler.is_compiling() else 2)", "different", 1),
        ("return x + 0.5", "same bits", 0),
        ("return x + torch.tensor(__import__('time').time_ns() % 1000003)", "unknown", 2),
    ],
)
def test_verdict_and_status(
    run_cli: RunCli, tmp_path: Path, body: str, verdict: str, status: int
) -> None:
    (tmp_path / "model.py").write_text(PROGRAM.format(body=body))
    done = run_cli("accuracy", "model.py:f", "--backend", "eager", "--format", "json")
    report = json.loads(done.stdout)
    assert (report["verdict"], done.returncode) == (verdict, status), done.stderr
    assert all(gap["kind"] != "coverage" for gap in report["gaps"])
    if verdict == "unknown":
        assert (report["reason"] or not report["graphs"]) and not report["differences"]


def test_results_of_no_graph_are_not_called_the_same(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAM.format(body="return alone(x)"))
    done = run_cli("accuracy", "model.py:f", "--backend", "eager")
    assert done.returncode == 2
    assert "torch made no graph" in done.stdout
    assert done.stdout.rstrip().endswith("Next: graphdoctor explain model.py:f")


def test_strides_alone_count_only_where_they_are_asked_for(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(STRIDES)
    arguments = ("accuracy", "model.py:f", "--backend", "planted", "--format", "json")
    alone, asked = (run_cli(*arguments, *more) for more in ((), ("--strides",)))
    reports = [json.loads(done.stdout) for done in (alone, asked)]
    assert (reports[0]["verdict"], alone.returncode) == ("same bits", 0)
    assert reports[0]["strides"]["reference"] == "(1, 2)"
    assert "Strides differ" in reports[0]["text"]
    assert (reports[1]["verdict"], asked.returncode) == ("different", 1)
    assert reports[1]["located"]["operation"] == "Tensor.t"


STRIDES = """\
import torch


@torch._dynamo.register_backend
def planted(graph, inputs):
    for node in graph.graph.find_nodes(op="call_method", target="t"):
        node.op, node.target = "call_function", lambda x: x.t().contiguous()
    graph.recompile()
    return graph


def f(x):
    return (x + 1).t()


def example_inputs():
    return (torch.ones(3, 2),)
"""


def test_a_target_without_inputs_ends_with_what_to_pass(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import torch\n\nmodel = torch.nn.Linear(8, 4)\n")
    done = run_cli("accuracy", "model.py")
    assert done.returncode == 2 and not done.stdout
    assert "Pass --input" in done.stderr

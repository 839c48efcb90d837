"""What the probe writes, a reader reads; names of files stand in one place."""

import ast
import json
import re
import typing
from functools import cache
from pathlib import Path

import pytest

import graphdoctor
from graphdoctor.facts.recording import GapKind
from graphdoctor.probe import wire
from graphdoctor.trace.grammar import LogDamage, read_records
from graphdoctor.trace.intake import Intake
from graphdoctor.trace.logs import find_logs
from graphdoctor.trials.launch.child import RECORDING_VARIABLE

PACKAGE = Path(graphdoctor.__file__).parent
PROBE = PACKAGE / "probe"


def recorded_in(recording):
    """The kinds of events and the names of artifacts in a recording."""
    events = {
        json.loads(line)["event"]
        for line in (recording / wire.EVENTS_FILE).read_text().splitlines()
    }
    artifacts = set()
    for log in find_logs(recording / wire.TRACE_FOLDER):
        with log.open() as lines:
            records = read_records(
                lines, lambda kind: kind.startswith(wire.ARTIFACT_PREFIX), LogDamage()
            )
            artifacts |= {record.kind for record in records}
    return events, artifacts


@cache
def nodes_of(file):
    """The constants and calls in a file."""
    return tuple(
        node
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant | ast.Call)
    )


@cache
def nodes(folder):
    files = [file for file in folder.rglob("*.py") if file.name not in ("wire.py", "file_names.py")]
    return tuple(node for file in files for node in nodes_of(file))


@cache
def texts(folder):
    return frozenset(
        node.value
        for node in nodes(folder)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def written_by(*methods):
    """The names that stand first in calls of methods."""
    calls = (
        node
        for node in nodes(PROBE)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
    )
    names = ((getattr(call.func, "attr", getattr(call.func, "id", "")), call) for call in calls)
    first = [call.args[0] for name, call in names if name in methods and call.args]
    constants = {node.value for node in first if isinstance(node, ast.Constant)}
    return {value for value in constants if isinstance(value, str) and value.isidentifier()}


def test_somebody_reads_each_event_and_each_artifact():
    read = texts(PACKAGE / "trace") | texts(PACKAGE / "trials" / "launch")
    # The methods of the intake are called as what they read.
    read |= {re.sub("^_(on|of)_", "", name) for name in vars(Intake)}
    raw = {
        json.loads(node.value.replace(b"%d", b"1").replace(b"%s", b'"pid": 1'))["event"]
        for node in nodes(PROBE)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, bytes)
        and b'"event"' in node.value
    }
    events = written_by("write", "_write") | raw
    artifacts = written_by("write_artifact", "_write_artifact")
    assert len(events) > 30
    assert len(artifacts) > 10
    assert (events | artifacts) - read == set()


def test_each_kind_of_gap_can_occur():
    written = texts(PROBE) | texts(PACKAGE / "trace") | texts(PACKAGE / "studies" / "ranks")
    assert set(typing.get_args(GapKind)) - written == set()


@pytest.mark.slow
def test_file_names_stand_in_one_place():
    names = {getattr(wire, name) for name in vars(wire) if name.endswith("_FILE")}
    for file in PACKAGE.rglob("*.py"):
        if file.name == "file_names.py":
            continue
        constants = [node.value for node in nodes_of(file) if isinstance(node, ast.Constant)]
        assert not names.intersection(value for value in constants if isinstance(value, str)), file


def test_a_programs_start_finds_the_recording_where_capture_puts_it():
    # sitecustomize.py runs before anything of ours can be imported, so it has a copy of the name.
    assert RECORDING_VARIABLE in {
        node.value
        for node in nodes_of(PROBE / "startup" / "sitecustomize.py")
        if isinstance(node, ast.Constant)
    }


@pytest.mark.slow
def test_a_full_run_writes_events_and_artifacts(tmp_path, run_cli):
    (tmp_path / "model.py").write_text(
        "import functools, torch\n"
        "@functools.lru_cache\ndef ones(size):\n    return torch.ones(size)\n"
        "def kept(forward):\n    @functools.wraps(forward)\n"
        "    def wrapper(self, x, n):\n        return forward(self, x, n)\n    return wrapper\n"
        "class Net(torch.nn.Module):\n    @kept\n"
        "    def forward(self, x, n):\n        x = x + n * ones(4)\n        print('a')\n"
        "        return x * (2 if torch.compiler.is_compiling() else 3 - 1)\n"
        "model = Net()\n"
        "def example_inputs():\n    yield torch.ones(4), 1.5\n    yield torch.ones(4), 2.5\n"
    )
    process = run_cli("explain", "model.py", "-o", "report.html")
    assert process.returncode == 0, process.stderr
    folder = tmp_path / ".graphdoctor"
    events, artifacts = recorded_in(folder / (folder / "last").read_text().strip())
    assert events >= {
        "process",
        "phase",
        "environment",
        "target",
        "coverage",
        "steady_call",
        "guard_cost",
        "lane",
    }
    assert events >= {"config", "finished"}
    of_others = {
        "graphdoctor_compile_call",
        "graphdoctor_root",
        "graphdoctor_generated",
        "graphdoctor_inductor_graph",
    }
    # The listener writes files under the names that their maker gives.
    written = written_by("write_artifact", "_write_artifact") | {"graphdoctor_file"}
    assert artifacts == written - of_others - {"graphdoctor_called", "graphdoctor_watched_call"}

    assert run_cli("recompiles", "model.py", "--vary").returncode == 0
    events, _ = recorded_in(folder / (folder / "last").read_text().strip())
    assert events >= {"vary_plan", "variation", "vary_end"}


@pytest.mark.slow
def test_a_scripts_run_is_as_declared(tmp_path, run_cli):
    (tmp_path / "script.py").write_text(
        "import torch\nnet = torch.compile(torch.nn.Sequential(torch.nn.ReLU()), backend='eager')\n"
        "net(torch.ones(2)), net(torch.ones(2))\n"
    )
    assert run_cli("run", "script.py").returncode == 0
    folder = tmp_path / ".graphdoctor"
    events, artifacts = recorded_in(folder / (folder / "last").read_text().strip())
    assert events >= {"process", "environment", "config", "ended"}
    assert artifacts >= {
        "graphdoctor_compile_call",
        "graphdoctor_graph",
        "graphdoctor_caller",
        "graphdoctor_file",
    }
    assert artifacts >= {"graphdoctor_root", "graphdoctor_called", "graphdoctor_watched_call"}

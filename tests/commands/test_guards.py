"""``graphdoctor guards``: a target, a recording, a log of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunCli, clean_environment, run_command, run_script

NET = """\
import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.scale = 1.5

    def forward(self, x):
        return self.fc(x) * self.scale


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(6))

    def forward(self, x, mode):
        print("called")
        for block in self.blocks:
            x = block(x)
        return x if mode == "plain" else -x


model = Net()


def example_inputs():
    return (torch.ones(2, 4), "plain")
"""
SCRIPT = """\
import torch
from net import example_inputs, model

torch.compile(model, backend="eager")(*example_inputs())
"""


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """A folder in which the guards of a model were measured, the document, and what it printed on
    standard error."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "net.py").write_text(NET)
    (folder / "script.py").write_text(SCRIPT)
    process = run_command("guards", "net.py", "--format", "json", cwd=folder, status=0)
    return folder, json.loads(process.stdout), process.stderr


def model_set(document: dict[str, Any]) -> dict[str, Any]:
    """The guards of the compile that runs the blocks."""
    return max(document["recording"]["guards"]["sets"], key=lambda found: found["guard_count"])


@pytest.mark.slow
def test_each_compile_has_its_guards_in_words(guarded) -> None:
    _, document, _ = guarded
    found = model_set(document)
    nodes = {
        node["expression"]: node
        for node in found["nodes"]
        if node["kind"] in ("EQUALS_MATCH", "TENSOR_MATCH")
    }
    assert nodes["mode"]["expected"] == "'plain'"
    assert nodes["mode"]["location"]["text"] == 'return x if mode == "plain" else -x'
    assert nodes["mode"]["location"]["origin"] == "user"
    assert nodes["x"]["expected"] == "f32[2, 4]"
    assert nodes["self.blocks[3].scale"]["expected"] == "1.5"
    assert nodes["self.blocks[3].scale"]["path"] == "self.blocks[3]"
    assert nodes["self.blocks[3].fc.weight"]["is_module_internal"]
    assert found["guard_count"] == len(found["nodes"]) == sum(found["kinds"].values())


@pytest.mark.slow
def test_the_cost_is_that_of_the_steady_call(guarded) -> None:
    _, document, _ = guarded
    guards = document["recording"]["guards"]
    assert guards["call_us"] > 0
    assert guards["share"] == pytest.approx(guards["searches_us"] / guards["call_us"])
    assert guards["warm_share"] == pytest.approx(guards["checks_us"] / guards["call_us"])
    assert guards["searches_low_us"] <= guards["searches_us"] <= guards["searches_high_us"]
    assert {found["search_us"] is None for found in guards["sets"] if found["runs_per_call"]} == {
        False
    }
    assert guards["checks_us"] == pytest.approx(
        sum(
            found["check_us"] * found["runs_per_call"]
            for found in guards["sets"]
            if found["runs_per_call"]
        )
    )
    parts = {part["path"]: part for part in model_set(document)["bill"]}
    assert {"x", "mode", "self", "self.blocks", "self.blocks[0]", "self.blocks[0].fc"} <= set(parts)
    assert (
        parts["self"]["guard_count"]
        > parts["self.blocks[0]"]["guard_count"]
        > parts["self.blocks[0].fc"]["guard_count"]
    )


@pytest.mark.slow
def test_our_own_calls_are_not_the_users(guarded) -> None:
    _, document, errors = guarded
    assert len(document["recording"]["calls"]) == 1
    assert errors.count("called") == 1


@pytest.mark.slow
def test_the_last_recording_is_shown_again_without_running(guarded) -> None:
    folder, document, _ = guarded
    again = run_command("guards", "--format", "json", cwd=folder)
    assert json.loads(again.stdout)["recording"]["guards"] == document["recording"]["guards"]
    for width in (80, 140):
        shown = run_command("guards", "-v", cwd=folder, env=clean_environment(COLUMNS=str(width)))
        # Code to paste is never broken.
        assert all(
            "guard_filter_fn" in line for line in shown.stdout.splitlines() if len(line) > width
        )
        assert "Guard checks take" in shown.stdout
        assert "6 alike" in shown.stdout


@pytest.mark.slow
def test_explain_has_no_guards_and_says_how_to_get_costs(guarded, run_cli: RunCli) -> None:
    folder, _, _ = guarded
    explained = run_cli("explain", folder / "net.py", "--no-coverage", "--format", "json")
    assert json.loads(explained.stdout)["recording"]["guards"] is None
    document = json.loads(run_cli("guards", "--format", "json").stdout)
    assert document["recording"]["guards"]["call_us"] is None
    assert model_set(document)["check_us"] is None
    assert "guard_cost" in {gap["kind"] for gap in document["recording"]["gaps"]}


@pytest.mark.slow
def test_a_log_of_others_has_the_same_guards(guarded, tmp_path: Path, run_cli: RunCli) -> None:
    folder, document, _ = guarded
    environment = clean_environment(TORCH_TRACE=str(tmp_path / "trace"))
    run_script(folder / "script.py", cwd=folder, env=environment)
    other = json.loads(run_cli("guards", tmp_path / "trace", "--format", "json").stdout)

    def checked(of: dict[str, Any]) -> list[tuple[str, str]]:
        return [
            (node["expression"], node["expected"])
            for node in model_set(of)["nodes"]
            if node["path"] != "globals"
        ]

    assert checked(other) == checked(document)
    assert other["recording"]["guards"]["share"] is None


@pytest.mark.slow
def test_always_compiling_call_has_a_gap_instead_of_cost(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "f.py").write_text(
        "import itertools, torch\n"
        "names = itertools.count()\n"
        "class Key:\n    pass\n"
        "state = Key()\n"
        "def f(x):\n"
        "    return x + len(state.name)\n"
        "def build():\n"
        "    def call(x):\n"
        "        state.name = 'n' * next(names)\n"
        "        return torch.compile(f, backend='eager')(x)\n"
        "    return torch.compiler.disable(call, recursive=False)\n"
        "def example_inputs():\n    return (torch.ones(2),)\n"
    )
    process = run_cli(
        "guards", "f.py", "--config", "torch._dynamo.config.recompile_limit=64", "--format", "json"
    )
    document = json.loads(process.stdout)
    assert document["recording"]["guards"]["call_us"] is None
    assert any(
        "cost of guard checks was not measured" in gap["message"]
        for gap in document["recording"]["gaps"]
    )


@pytest.mark.slow
def test_a_failing_target_still_shows_its_guards(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "f.py").write_text(
        "import torch\ndef f(x, n):\n    y = x + n\n    print(y)\n    raise ValueError('no')\n"
        "def build():\n    return f\ndef example_inputs():\n    return (torch.ones(2), 3)\n"
    )
    document = json.loads(run_cli("guards", "f.py", "--format", "json", status=2).stdout)
    assert document["recording"]["is_partial"]
    assert any(
        node["expression"] == "n"
        for found in document["recording"]["guards"]["sets"]
        for node in found["nodes"]
    )

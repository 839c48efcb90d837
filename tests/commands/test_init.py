"""``graphdoctor init``: which targets it finds, and what it does to pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from graphdoctor.commands.init import add_section, starter_section, with_budgets
from graphdoctor.commands.settings import load_project
from graphdoctor.commands.target_runs import TargetRun
from graphdoctor.facts.counts import Coverage
from graphdoctor.trials.launch.discover import discover, holds_no_target, is_script
from tests.conftest import CLEAN_TARGET, REPOSITORY, run_command
from tests.rules.gate.diagnoses import with_prints

NET = "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
INPUTS = "def example_inputs():\n    return (torch.ones(2),)\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (NET + INPUTS, "Net and example_inputs()"),
        (NET + INPUTS.replace("example", "get"), "Net and get_inputs()"),
        (
            NET + "class Other(Net):\n    def __init__(self, n): ...\n" + INPUTS,
            "Net and example_inputs()",
        ),
        (NET + "def build():\n    return Net()\n" + INPUTS, "build() and example_inputs()"),
        (
            NET + "def build():\n    return Net(), (torch.ones(2),)\n",
            "build() returns the inputs too",
        ),
        (NET + "    dummy_inputs = {}\n", "Net.dummy_inputs"),
        (
            NET + "    @property\n    def dummy_inputs(self):\n        return {}\n",
            "Net.dummy_inputs",
        ),
        (
            NET.replace("x):\n", "x):\n        self.example_input_array = x\n"),
            "Net.example_input_array",
        ),
        ("import torch\ndef f(x):\n    return x\n" + INPUTS, "f() and example_inputs()"),
        (NET + "class B(Net): ...\nmodel = B()\n" + INPUTS, "model and example_inputs()"),
        (NET, None),
        (NET + "class B(Net): ...\n" + INPUTS, None),
        (NET.replace("forward(self, x)", "__init__(self, n)") + INPUTS, None),
        (NET + "def build(size):\n    return Net()\n" + INPUTS, None),
        (NET + "def build():\n    return Net()\n", None),
        (NET + INPUTS.replace("inputs()", "inputs(n)"), None),
        ("class Net:\n    x = 'torch'\n" + INPUTS, None),
        (INPUTS, None),
        ("def broken(:\n  torch", None),
    ],
)
def test_only_what_needs_nothing_more_is_ready(tmp_path, text, why):
    (tmp_path / "model.py").write_text(text)
    assert [candidate.why for candidate in discover(tmp_path, limit=10).ready] == (
        [] if why is None else [why]
    )


def test_files_without_inputs_are_said_and_environments_are_skipped(tmp_path, run_here):
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "helper.py").write_text("import torch\ndef f(x):\n    return x\n")
    (tmp_path / "train.py").write_text("import torch\n\nf = torch.compile(abs)\n")
    for folder in ("tests", ".hidden", "mine/lib"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "net.py").write_text(CLEAN_TARGET)
    (tmp_path / "mine" / "pyvenv.cfg").touch()
    found = discover(tmp_path, limit=10)
    assert found == (
        (),
        (
            ("net.py", "defines Net, without example_inputs()"),
            ("train.py", "calls torch.compile in line 3"),
        ),
    )
    said = run_here("init").stderr
    assert "Left out net.py: it defines Net, without example_inputs()." in said


def test_there_are_no_more_than_asked_for(tmp_path):
    for number in range(5):
        (tmp_path / f"m{number}.py").write_text(CLEAN_TARGET)
    assert len(discover(tmp_path, limit=3).ready) == 3


def test_the_sample_models_are_ready():
    """All of them are run by other tests as they are, by the same names."""
    assert len(discover(REPOSITORY / "sample_models", limit=100).ready) >= 20


@pytest.mark.parametrize(
    "before", ["", "[project]\nname = 'x'\n", "[tool.ruff]\r\nline-length = 100", "# ünï\n"]
)
def test_the_section_is_added_and_the_rest_stays(tmp_path, run_here, before):
    path = tmp_path / "pyproject.toml"
    path.write_bytes(before.encode())
    for name in ('a "b".py', "model.py"):
        (tmp_path / name).write_text(CLEAN_TARGET)
    assert (run_here("init").returncode, path.read_bytes().startswith(before.encode())) == (0, True)
    project = load_project(tmp_path, {})
    assert [target.target for target in project.targets] == ['a "b".py', "model.py"]
    assert [target.name for target in project.targets] == ['a "b"', "model"]
    again = path.read_bytes()
    refused = run_here("init")
    assert (refused.returncode, path.read_bytes()) == (2, again)
    assert "already" in refused.stderr


def test_missing_file_is_made_and_its_comments_are_valid(tmp_path, run_here):
    assert run_here("init", "--stdout").stdout.startswith("[tool.graphdoctor]\n")
    assert list(tmp_path.iterdir()) == []
    assert run_here("init").returncode == 0
    assert load_project(tmp_path, {}).targets == ()
    lines = (tmp_path / "pyproject.toml").read_text().splitlines()
    shown = [
        line.removeprefix("# ")
        for line in lines
        if line.startswith(("# [", '# "')) or " = " in line
    ]
    settings = [line for line in shown if not line.startswith(("mode", "max-breaks,"))]
    (tmp_path / "pyproject.toml").write_text("\n".join(settings))
    project = load_project(tmp_path, {})
    assert (project.targets[0].name, project.settings.per_path_ignores) == (
        "model",
        (("experiments/**", ("GD1",)),),
    )


@pytest.mark.parametrize("text", ["tool = { ruff = 1 }\n", "[tool\n"])
def test_a_file_that_cannot_take_it_stays_as_it_is(tmp_path, run_here, text):
    path = tmp_path / "pyproject.toml"
    path.write_text(text)
    assert run_here("init").returncode == 2
    assert path.read_text() == text


def test_names_are_told_apart_by_their_folders(tmp_path, run_here):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.py").write_text(CLEAN_TARGET)
    section = tomllib.loads(run_here("init", "--stdout").stdout)["tool"]["graphdoctor"]
    assert [target["name"] for target in section["targets"]] == ["net", "b-net"]


def test_measured_budgets_hold_and_what_was_not_measured_is_said(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.py").write_text(CLEAN_TARGET)
    starter = starter_section(tmp_path)
    coverage = Coverage(graph_ops=2, eager_ops=1)
    measured = with_prints((5, "a"), coverage=coverage)
    ran = [
        TargetRun(starter.targets[0], measured),
        TargetRun(starter.targets[1], error="There is no\nfile."),
        TargetRun(starter.targets[2], with_prints(graphs=(), coverage=None)),
    ]
    with_them = with_budgets(starter, ran)
    assert "# Measured with torch 2.13.0: tighten" in with_them.section
    assert "# Not measured: There is no" in with_them.section
    assert "# Not measured: Nothing was compiled" in with_them.section
    add_section(with_them)
    first, *others = load_project(tmp_path).targets
    assert (first.max_breaks, first.max_recompiles, first.max_graphs, first.min_coverage) == (
        1,
        0,
        1,
        0.66,
    )
    assert [(target.max_breaks, target.min_coverage) for target in others] == [
        (None, None),
        (None, None),
    ]


@pytest.mark.slow
def test_init_measures_when_asked_and_the_gate_then_holds(tmp_path):
    (tmp_path / "net.py").write_text(CLEAN_TARGET)
    run_command("init", "--measure", cwd=tmp_path, status=0)
    (target,) = load_project(tmp_path).targets
    assert (target.max_breaks, target.max_graphs, target.min_coverage) == (0, 1, 1)
    assert run_command("check", "-q", cwd=tmp_path).returncode == 0


SCRIPT = "import torch\nnet = torch.compile(torch.nn.Linear(2, 2))\nfor _ in range(2):\n    net(torch.ones(2))\n"


@pytest.mark.parametrize(
    ("text", "is_certain"),
    [
        (SCRIPT, True),
        ("import torch\nprint(torch.ones(1))\n", True),
        ("import torch\ndef main():\n    print(torch.ones(1))\nmain()\n", True),
        (NET + "if __name__ == '__main__':\n    print(Net()(torch.ones(1)))\n", False),
        (NET + "with torch.no_grad():\n    Net()(torch.ones(1))\n", False),
        ("import torch\nstep = lambda x: x\nprint(step(torch.ones(1)))\n", False),
        ("import torch\nfrom shop import model\nprint(model)\n", False),
        ("import torch\nfrom shop import *\nrun()\n", False),
    ],
)
def test_a_script_is_told_from_a_target(text: str, *, is_certain: bool, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(text, encoding="utf-8")
    assert is_script(file)
    assert holds_no_target(file) is is_certain


@pytest.mark.parametrize(
    "text", [NET, NET + INPUTS, NET + INPUTS + "if __name__ == '__main__':\n    Net()\n", "", "x ="]
)
def test_a_file_with_a_target_is_no_script(text: str, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(text, encoding="utf-8")
    assert not is_script(file)
    assert not holds_no_target(file)


@pytest.mark.slow
def test_script_is_not_run_to_look_for_targets(tmp_path: Path) -> None:
    (tmp_path / "my train.py").write_text(SCRIPT + "open('ran', 'w')\n", encoding="utf-8")
    done = run_command("explain", "my train.py", cwd=tmp_path, status=2)
    assert "graphdoctor run 'my train.py'" in done.stderr
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / ".graphdoctor").exists()

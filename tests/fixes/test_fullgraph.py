"""Numbers and sizes that torch captures under ``fullgraph=True``, in place of settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.facts.recording import TargetInfo
from graphdoctor.fixes.entry_file import with_fullgraph
from tests.conftest import run_command

NET = "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
COMPILED = {
    "model = torch.compile(Net())\n": "model = torch.compile(Net(), fullgraph=True)\n",
    "net = Net()\nfast = torch.compile(\n    net,\n    mode='default',  # quick\n)\n":
        "net = Net()\nfast = torch.compile(\n    net,\n    mode='default', fullgraph=True,  # quick\n)\n",
    "from torch import compile as c\nmodel = c(Net())\n":
        "from torch import compile as c\nmodel = c(Net(), fullgraph=True)\n",
    # Neither compiles the target, or nobody knows which one does.
    "other = torch.compile(abs)\n": None,
    "a = torch.compile(Net())\nb = torch.compile(Net())\n": None,
    "": None,
}  # fmt: skip
DECORATED = {
    "@torch.compile\ndef f(x): return x\n": "@torch.compile(fullgraph=True)\ndef f(x): return x\n",
    "@torch.compile()\ndef f(x): return x\n": "@torch.compile(fullgraph=True)\ndef f(x): return x\n",
    "@torch.compile(dynamic=True)\ndef f(x): return 'ä'\n":
        "@torch.compile(dynamic=True, fullgraph=True)\ndef f(x): return 'ä'\n",
    "@torch.compile(fullgraph=True)\ndef f(x): return x\n": None,
    "@torch.compile\ndef other(x): return x\n": None,
}  # fmt: skip
PROGRAMS = {
    "the number is returned": ("return x.sum().item()", True),
    "the number is read in a loop": ("return [(row * 2).max().item() for row in x]", True),
    "the size of an index depends on values": ("return x[torch.nonzero(x > 0)[:, 0]] * 2", True),
    "the number decides": ("return (x, 'more') if x.sum().item() > 0 else (x - 1, 'less')", False),
}


@pytest.mark.parametrize("text", COMPILED)
def test_the_call_that_compiles_the_target_gets_the_argument(text: str) -> None:
    target = TargetInfo(text="model.py", name="model", class_name="Net")
    edited = with_fullgraph((NET + text).encode(), target)
    assert edited == (None if COMPILED[text] is None else f"{NET}{COMPILED[text]}".encode())


@pytest.mark.parametrize("text", DECORATED)
def test_the_decorator_of_the_target_gets_the_argument(text: str) -> None:
    target = TargetInfo(text="model.py", name="f", class_name="f")
    edited = with_fullgraph(f"import torch\n{text}".encode(), target)
    after = DECORATED[text]
    assert edited == (None if after is None else f"import torch\n{after}".encode())


def treated(folder: Path, body: str, decorator: str = "") -> dict[str, Any]:
    inputs = "def example_inputs():\n    return (torch.arange(8.0).reshape(4, 2) - 3,)\n"
    program = f"import torch\n\n\n{decorator}def f(x):\n    {body}\n\n\n{inputs}"
    (folder / "model.py").write_text(program)
    done = run_command(
        "fix", "model.py:f", "--no-timing", "--unsafe-fixes", "--format", "json", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    treatment: dict[str, Any] = json.loads(done.stdout)["recording"]["treatment"]
    return treatment


@pytest.mark.slow
@pytest.mark.parametrize("case", PROGRAMS)
def test_what_torch_captures_is_one_graph_without_a_setting(tmp_path: Path, case: str) -> None:
    body, is_captured = PROGRAMS[case]
    treatment = treated(tmp_path, body)
    applied = {fix["title"] for fix in treatment["tried"] if fix["is_applied"]}
    assert applied == ({"Compile it with `torch.compile(…, fullgraph=True)`"} & applied)
    assert bool(applied) is is_captured
    assert (treatment["settings"], treatment["diff"]) == ([], "")
    assert treatment["calls"] == ["fullgraph=True"] * is_captured
    counts = treatment["sites"]
    assert (counts["merged"], counts["left"]) == ((1, 0) if is_captured else (0, 1))
    if is_captured:
        assert treatment["whole"]["is_one_graph"]
        assert treatment["attacked"]["count"]


@pytest.mark.slow
def test_no_setting_stays_beside_an_edit_that_loses_an_exception(tmp_path: Path) -> None:
    body = "assert_finite(x)\n    return x * 2, x.sum().item()\n\n\ndef assert_finite(x):\n"
    body += "    if torch.isnan(x).any():\n        raise ValueError('not finite')"
    treatment = treated(tmp_path, body)
    assert (treatment["settings"], treatment["calls"]) == ([], ["fullgraph=True"])
    assert (treatment["whole"]["is_one_graph"], treatment["sites"]["merged"]) == (True, 2)


@pytest.mark.slow
def test_the_argument_is_written_where_the_program_compiles_the_target(tmp_path: Path) -> None:
    treatment = treated(tmp_path, "return x.sum().item()", "@torch.compile\n")
    assert "+@torch.compile(fullgraph=True)" in treatment["diff"].splitlines()
    assert (treatment["calls"], treatment["sites"]["merged"]) == ([], 1)

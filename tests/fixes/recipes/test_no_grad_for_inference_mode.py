"""no-grad-for-inference-mode: what it writes beyond its cases, what it declines, and that the recompile goes."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.recompiles import GuardChange
from graphdoctor.fixes.recipes import no_grad_for_inference_mode
from graphdoctor.fixes.source.tree import DeclinedError
from tests.fixes.recipes.places import outcomes, place_in

FLIP = (GuardChange(kind="inference_mode", expression="x"),)


def unflipped(text: str) -> str:
    """The file where a mode flip in its first line is to go."""
    code = no_grad_for_inference_mode.edit(place_in(text, "GD212", 1, changes=FLIP)).content.decode()
    ast.parse(code)
    return code


def body(text: str) -> str:
    """What becomes of a function's body where torch points to the line of its only question."""
    whole = "def f(x, y):\n" + indent(text, "    ") + "\n"
    line = next(number for number, line in enumerate(whole.split("\n"), 1) if "is_inference" in line)
    code = no_grad_for_inference_mode.edit(place_in(whole, "GD118", line)).content.decode()
    ast.parse(code)
    return "\n".join(line.removeprefix("    ") for line in code.removeprefix("def f(x, y):\n").splitlines())


def test_every_use_of_the_mode_in_the_file_goes(snapshot: SnapshotAssertion) -> None:
    cases = [
        "with torch.inference_mode(): pass",
        "with torch.inference_mode( True ) as a, b: pass",
        "@torch.inference_mode(mode=True)\ndef f(): pass",
        "@torch.inference_mode\ndef f(): pass",
        "with a, torch.inference_mode(): f(torch.inference_mode())",
    ]
    assert outcomes(lambda before: unflipped(f"import torch\n{before}\n"), cases) == snapshot


def test_a_mode_imported_by_its_own_name_goes() -> None:
    head = "from torch import inference_mode\n"
    assert unflipped(f"{head}with inference_mode(): pass\n") == f"{head}import torch\nwith torch.no_grad(): pass\n"


def test_the_question_goes(snapshot: SnapshotAssertion) -> None:
    cases = [
        "y = 1\nif x.is_inference(): y = 2\nreturn y",
        "if x.is_inference():\n    y = 2",
        "# a\nif not x.is_inference(): y = 2  # b\nreturn y",
        "if torch.is_inference(x): y = 1\nelse:\n    # a\n    with y: pass",
        "if y: y = 1\nelif x.is_inference(): y = 2",
        "if x.is_inference(): y = 2\nelif x: y = 1",
        "return (x + 1 if not x.is_inference() else y)",
        "return (lambda a: a if a.is_inference() else y)(x)",
        "a = 1; b = (x.is_inference()); c = 2",
        "return not torch.is_inference_mode_enabled()",
    ]
    assert outcomes(body, cases) == snapshot


def test_modes_that_are_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        "import torch\n",
        "import torch\nwith torch.inference_mode(a): pass\n",
        "import torch\nwith torch.inference_mode(mode=False): pass\n",
        "import torch\na = torch.inference_mode if b else torch.no_grad\n",
    ]
    assert outcomes(unflipped, cases) == snapshot


def test_other_flips_are_declined() -> None:
    place = place_in("import torch\nwith torch.inference_mode(): pass\n", "GD212", 1)
    with pytest.raises(DeclinedError, match="isn't what changed"):
        no_grad_for_inference_mode.edit(place)


def test_questions_that_are_declined(snapshot: SnapshotAssertion) -> None:
    cases = [
        "y = x.is_inference",
        "y = x.is_inference() or y.is_inference()",
        "if x.is_inference():\n    with torch.inference_mode(): y = x",
    ]
    assert outcomes(body, cases) == snapshot


TENSOR = """\
import torch


@torch.compile(backend="eager")
def step(x):
    return x.sin()


with torch.inference_mode():
    made = torch.ones(4)
with torch.no_grad():
    step(torch.ones(4))
    step(made)
"""
CALL = """\
import torch


@torch.compile(backend="eager")
def step(x):
    return x.sin()


with torch.no_grad():
    step(torch.ones(4))
with torch.inference_mode():
    step(torch.ones(4))
"""


@pytest.mark.slow
@pytest.mark.parametrize("text", [TENSOR, CALL], ids=["a-tensor-made-in-the-mode", "a-call-in-the-mode"])
def test_the_recompile_is_there_before_and_gone_after(text: str, tmp_path: Path, run_cli: Any) -> None:
    (tmp_path / "before.py").write_text(text)
    (tmp_path / "after.py").write_text(unflipped(text))
    for name, expected in (("before", ["GD212"]), ("after", [])):
        process = run_cli("run", "-q", "--report", f"{name}.json", f"{name}.py")
        assert process.returncode == 0, process.stderr
        document = json.loads((tmp_path / f"{name}.json").read_text())
        assert [found["code"] for found in document["findings"]] == expected

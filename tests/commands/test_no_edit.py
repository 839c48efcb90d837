"""What ``explain`` says of edits is what ``fix`` says: why there is none, and nothing where there
may be one."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import clean_environment, run_command, run_script
from tests.factories import why

pytestmark = pytest.mark.slow

PARTS = {
    "stores": "if x.sum() > 0:\n    seen.append(x)",
    "calls": "if x.sum() > 0:\n    seen.clear()",
    "asserts": "if x.sum() < 99:\n    assert x.shape[0] == 4",
    "used": 'y = print("x")\nx = x if y is None else -x',
    "selected": "x = x + x[x > 0].sum()",
    "copied": "y = copy.deepcopy(Box(x))\nx = y.x",
    "beta": "x = x * np.random.beta(1.0, 2.0)",
    "listed": "for n in x.tolist():\n    x = x + n",
    "chosen": "if x.sum() > 0:\n    x = x + 1",
    "printed": 'print("x")',
    "broken": "torch._dynamo.graph_break()",
    "repeated": "y = x.repeat_interleave(counts)\nx = x + y[:4]",
    "latin": 'if x.sum() > 0:\n    seen.append("é")',
    "deep": f"if x.sum() > 0:\n    seen.append({'(' * 99}1{',)' * 99})",
}
"""Bodies of functions, each in a file of its own, in each of which torch breaks."""
HEAD = """\
import copy

import numpy as np
import torch

seen = []


class Box:
    def __init__(self, x):
        self.x = x
"""
MAIN = """\
import torch

{imports}


def f(x, counts):
    for call in ({names}):
        x = call(x, counts)
    return x


def example_inputs():
    return torch.ones(4), torch.tensor([1, 2, 0, 1])


if __name__ == "__main__":
    torch.compile(f, backend="eager")(*example_inputs())
"""


def project(folder: Path, *names: str) -> Path:
    imports = "\n".join(f"from {name} import {name}" for name in names)
    (folder / "model.py").write_text(MAIN.format(imports=imports, names=", ".join(names)))
    for name in names:
        encoding = "latin-1" if name == "latin" else "utf-8"
        function = (
            f"def {name}(x, counts):\n{textwrap.indent(PARTS[name], '    ')}\n    return x * 2\n"
        )
        (folder / f"{name}.py").write_text(
            f"# coding: {encoding}\n{HEAD}\n\n{function}", encoding=encoding
        )
    return folder


def asked(folder: Path, *args: str) -> dict[str, Any]:
    done = run_command(*args, "--format", "json", cwd=folder)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_explain_says_why_there_is_no_edit_as_fix_does(tmp_path: Path) -> None:
    folder = project(tmp_path, *PARTS)
    explained = asked(folder, "explain", "model.py:f")
    assert asked(folder, "report") == explained, "who reads it again sees the same"
    treatment = asked(folder, "fix", "model.py:f", "--no-try")["recording"]["treatment"]
    said: dict[str, str] = explained["recording"]["declined"]["reasons"]
    edited = {tried["fingerprint"] for tried in treatment["tried"] if tried["diff"]}
    places = {
        found["fingerprint"]: Path(found["location"]["file"]).stem
        for found in explained["findings"]
    }
    may_be_edited = {"selected", "listed", "chosen", "printed", "broken"}
    assert {places[one] for one in edited} == may_be_edited
    # What equals the sum of the counts is learned in trials.
    assert {one: treatment["declined"][one] for one in said} == said
    assert {places[one] for one in treatment["declined"].keys() - said} == {"repeated"}
    assert {places[one] for one in said} == PARTS.keys() - may_be_edited - {"repeated"}
    for found in explained["findings"]:
        in_code = [fix for fix in found["fixes"] if fix["kind"] == "code"]
        if in_code and found["fingerprint"] in said:
            assert why(in_code[0]) == f"no edit: {said[found['fingerprint']]}"
            assert not any(fix["snippet"] for fix in in_code)
        else:
            assert not any(why(fix) for fix in found["fixes"])


REPORTED = """\
import sys

import graphdoctor
import model

graphdoctor.explain(model.f, *model.example_inputs()).save(sys.argv[1])
"""


def reasons(findings: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Why there is no edit, by the file of the finding."""
    found: dict[str, set[str]] = {}
    for finding in findings:
        said = {why(fix) for fix in finding["fixes"]} - {None}
        found.setdefault(Path(finding["location"]["file"]).stem, set()).update(said)
    return {name: said for name, said in found.items() if said}


def test_every_command_that_advises_says_it(tmp_path: Path) -> None:
    folder = project(tmp_path, "stores", "asserts", "chosen")
    expected = reasons(asked(folder, "explain", "model.py:f")["findings"])
    assert expected.keys() == {"stores", "asserts"}
    run_command("run", "--report", "run.json", "model.py", cwd=folder)
    assert reasons(json.loads((folder / "run.json").read_text())["findings"]) == expected
    (checked,) = asked(folder, "check", "model.py:f")["targets"]
    assert reasons(checked["diagnosis"]["findings"]) == expected
    (folder / "reported.py").write_text(REPORTED)
    run_script(folder / "reported.py", "api.json", cwd=folder, env=clean_environment())
    assert reasons(json.loads((folder / "api.json").read_text())["findings"]) == expected

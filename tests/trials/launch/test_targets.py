"""Every form of target and of inputs: first the text alone, then the command."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphdoctor.errors import GraphDoctorError
from graphdoctor.trials.launch.request import DTYPES, parse_assignments, parse_inputs, parse_target
from tests.each import for_each
from tests.sections import sections

pytest.importorskip("torch")

from graphdoctor.probe.record.describe import arguments_text
from graphdoctor.probe.record.errors import TargetError
from graphdoctor.probe.target import targets

HEAD = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x, scale=1):
        return torch.relu(x) * scale


def double(x, scale=2):
    return x * scale
"""


def one(text: str) -> object:
    parsed = parse_inputs([text])
    assert parsed is not None
    return parsed["args"][0]


# The text of a target.


def test_target_is_a_file_or_module_with_optional_name(tmp_path):
    file, odd = tmp_path / "model.py", tmp_path / "a:b.py"
    for path in (file, odd):
        path.write_text("")
    expected = {
        f"{file}": (str(file), None, None, False),
        f"{file}:Net": (str(file), None, "Net", False),
        f"{file}:make()": (str(file), None, "make", True),
        f"{file}:a.b": (str(file), None, "a.b", False),
        "package.module:build": (None, "package.module", "build", False),
        f"{odd}": (str(odd), None, None, False),
        f"{odd}:Net": (str(odd), None, "Net", False),
    }
    parsed = {text: parse_target(text) for text in expected}
    assert {
        text: (target.file, target.module, target.name, target.is_call)
        for text, target in parsed.items()
    } == expected


WRONG_TARGETS = {
    "": "empty",
    "  ": "empty",
    ".": "is a folder",
    "model.ipynb": "is a notebook",
    "modle.py": "There is no file modle.py",
    "nowhere/model.py": "There is no file",
    "model.py:": "after the colon is missing",
    "model.py:1x": "isn't a name",
    "model.py:Net(3)": "isn't a name",
    "model.py:Net:x": "isn't a target",
    "a b": "isn't a target",
    "\udcff.py": "isn't valid UTF-8",
    "a\0b": "isn't valid UTF-8",
    "x" * 5000 + ".py": "can't be read",
}


def test_a_wrong_target_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model.py", "model.ipynb"):
        Path(name).write_text("")
    for text, message in WRONG_TARGETS.items():
        with pytest.raises(GraphDoctorError, match=message) as caught:
            parse_target(text)
        assert text != "modle.py" or caught.value.hint == "Did you mean model.py?"


@given(st.text())
def test_any_text_is_a_target_or_an_error(text):
    try:
        parse_target(text)
    except GraphDoctorError as error:
        assert error.message


# The text of --input.


def test_an_input_is_a_plain_value_or_a_tensor():
    plain = {
        **{
            "int:3": 3,
            "int:-3": -3,
            "float:0.5": 0.5,
            "float:inf": math.inf,
            "bool:true": True,
            "bool:False": False,
        },
        **{"str:abc": "abc", "str:a:b=c[1]": "a:b=c[1]", "str:": "", "none": None, "None": None},
    }
    assert {text: one(text) for text in plain} == {
        text: {"kind": "value", "value": value} for text, value in plain.items()
    }
    tensors = {
        "f32[8,128]": ("f32", [8, 128]),
        "bf16[4, 8]": ("bf16", [4, 8]),
        "i64[8]": ("i64", [8]),
        "bool[2,2]": ("bool", [2, 2]),
        "f32[]": ("f32", []),
        "f32[0]": ("f32", [0]),
    }
    assert {text: one(text) for text in tensors} == {
        text: {"kind": "tensor", "dtype": dtype, "shape": shape}
        for text, (dtype, shape) in tensors.items()
    }
    assert parse_inputs(["int:1", "mask=bool[2]"]) == {
        "args": [{"kind": "value", "value": 1}],
        "kwargs": {"mask": {"kind": "tensor", "dtype": "bool", "shape": [2]}},
    }


@for_each(
    "texts, message",
    [
        (["f32[8"], "unknown form"),
        (["f32"], "unknown form"),
        (["int"], "unknown form"),
        (["bool:2"], "unknown form"),
        (["int:x"], "'x' isn't an int"),
        (["float:x"], "'x' isn't a float"),
        (["int:" + "9" * 5000], "isn't an int"),
        (["f23[8]"], "unknown dtype 'f23', did you mean f32"),
        (["f32[a]"], "isn't a list of sizes"),
        (["f32[8,]"], "isn't a list of sizes"),
        (["f32[-1]"], "negative"),
        (["f32[9999999999999999999]"], "too large for torch"),
        (["x=int:1", "int:2"], "can't follow a named one"),
        (["x=int:1", "x=int:2"], "given twice"),
        (["str:\udcff"], "isn't valid UTF-8"),
    ],
)
def test_a_wrong_input_is_a_clear_error(texts, message):
    with pytest.raises(GraphDoctorError, match=message) as caught:
        parse_inputs(texts)
    assert "f32[8,128]" in (caught.value.hint or "")


SHAPED = st.builds(
    "{}[{}]".format,
    st.sampled_from(list(DTYPES)) | st.text(max_size=4),
    st.lists(st.integers()).map(str) | st.text(),
)
INPUT_LIKE = (
    SHAPED
    | st.builds("{}:{}".format, st.sampled_from(["int", "float", "bool", "str"]), st.text())
    | st.text()
)


# The text of --option and --config.


def test_assignments_are_python_literals_or_text():
    texts = ["a=1", "b=true", "c=None", "d=max-autotune", "e=[1, 2]", "f=x=y", " g = 0.5 ", "h="]
    assert parse_assignments(texts, "--option") == {
        "a": 1,
        "b": True,
        "c": None,
        "d": "max-autotune",
        "e": [1, 2],
        "f": "x=y",
        "g": 0.5,
        "h": "",
    }


@for_each(
    "text", ["a", "=1", " =1", "", "a={1, 2}", "a=b'x'", "a=1j", "a={1: 2}", "a=...", "a=\udcff"]
)
def test_a_wrong_assignment_is_a_clear_error(text):
    with pytest.raises(GraphDoctorError, match="--config"):
        parse_assignments([text], "--config")


# What a target and its inputs turn out to be.


def imported(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> ModuleType:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "file", raising=False)
    file = folder / f"{len(list(folder.iterdir()))}" / "file.py"
    file.parent.mkdir()
    file.write_text(text)
    return targets.import_target(str(file), None)


def said_of(text: str, ending: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The target of a file and the arguments of its calls, or why there is none."""
    asked = parse_target(f"{Path(__file__)}{ending}")
    try:
        target = targets.find_target(
            imported(folder, monkeypatch, text), asked.name, is_call=asked.is_call
        )
        assert not hasattr(target.function, "_torchdynamo_orig_callable")
        yield f"{target.name}, a {target.kind}"
        yield from (arguments_text(*call) for call in targets.find_calls(target, None).rounds())
    except TargetError as error:
        yield f"{error}\n{error.hint}".replace(str(folder), "")


def test_targets_and_inputs_are_found_or_said_to_be_none(tmp_path, monkeypatch, snapshot):
    lines = []
    for heading, text in sections(Path(__file__).with_suffix(".txt")).items():
        ending = heading[heading.index(":") :] if ":" in heading else ""
        lines += [
            f"# {heading}",
            *said_of(text.replace("…\n", f"{HEAD}\n"), ending, tmp_path, monkeypatch),
        ]
    assert "\n".join(lines) == snapshot


@pytest.mark.slow
def test_call_options_reach_the_model(tmp_path, explain_json):
    (tmp_path / "file.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Linear):\n"
        "    def __init__(self): super().__init__(4, 4)\n"
        "    def __call__(self, x, n):\n"
        "        print(self.training, torch.is_grad_enabled(), n)\n"
        "        return super().__call__(x)\n"
        "    def forward(self, x): return super().forward(x)\n"
    )
    arguments = (
        "--input",
        "f32[2,4]",
        "--input",
        "n=int:5",
        "--calls",
        2,
        "--eval",
        "--no-coverage",
    )
    document = explain_json("file.py", *arguments, "--backward")
    assert document["summary"]["calls"] == 2
    assert document["recording"]["target"]["call_options"]["backward"] is True
    assert not document["recording"]["is_partial"]


PACKAGE = {
    "pkg/__init__.py": "",
    "pkg/sub/__init__.py": "",
    "pkg/sub/helper.py": "def h(x):\n    return x.sin()\n",
    "pkg/sub/net.py": "from .helper import h\nimport torch\nclass Net(torch.nn.Module):\n"
    "    def forward(self, x): return h(x)\n",
}


@pytest.mark.slow
def test_relative_imports_of_a_package_work(tmp_path, explain_json):
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for target in ("pkg/sub/net.py", "pkg.sub.net:Net"):
        assert explain_json(target, "--input", "f32[4]", "--no-coverage")["summary"]["graphs"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["types", "random", "coverage", "events", "torch", "[red]x", "a.b", "模"]
)
def test_a_file_may_have_any_name(tmp_path, run_cli, name):
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / f"{name}.py").write_text(
        HEAD.replace("return torch", "print('a')\n        return torch")
    )
    process = run_cli(
        "explain", f"models{os.sep}{name}.py:Net", "--input", "f32[4]", "--no-coverage"
    )
    assert process.returncode == 0, process.stderr
    assert f"models{os.sep}{name}.py:6" in process.stdout.replace("\n", "")

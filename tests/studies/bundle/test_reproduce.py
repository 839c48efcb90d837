"""Which recordings a script can be made of, and what is in it."""

import ast
import sys
import types

import pytest

from graphdoctor.facts.picture import Picture, SourceText
from graphdoctor.facts.recording import BatchedTensor, Call, Environment, Recording, TargetInfo
from graphdoctor.facts.run import ProbeExit
from graphdoctor.probe.wire import INPUTS_FROM_OPTIONS
from graphdoctor.studies.bundle.script import write_script
from tests.each import for_each

FILE = "/nowhere/model.py"
TEXT = '''\
"""A model."""
from __future__ import annotations

import torch
import helper


class Net(torch.nn.Module):
    def forward(self, x):
        return helper.double(x)


if __name__ == "__main__":
    raise SystemExit("not the target's business")
'''
HELPER = "import math\n\n\ndef double(x):\n    return x * 2\n"


def recording(files, *, calls=1, **target):
    info = {
        "name": "Net",
        "kind": "module class",
        "file": FILE,
        "inputs_from": INPUTS_FROM_OPTIONS,
    } | target
    return Recording(
        environment=Environment(),
        target=TargetInfo(**info),
        exit=ProbeExit(status=0, reason="finished"),
        is_partial=False,
        calls=tuple(Call(index=index + 1) for index in range(calls)),
        frames=(),
        compiles=(),
        graphs=(),
        breaks=(),
        coverage=None,
        picture=Picture(
            files=tuple(SourceText(file=file, text=text) for file, text in files.items())
        ),
        gaps=(),
    )


def request(**changes):
    tensor = {"kind": "tensor", "dtype": "f32", "shape": [2, 3]}
    number = {"kind": "value", "value": 0.5}
    return {
        "file": FILE,
        "module": None,
        "inputs": {"args": [tensor], "kwargs": {"scale": number}},
        "calls": 1,
        "backend": "eager",
        "seed": 0,
        **changes,
    }


def script(**changes):
    made = write_script(recording({FILE: TEXT.replace("import helper\n", "")}), request(**changes))
    assert made.text is not None, made.reason
    ast.parse(made.text)
    return made.text


def test_the_script_has_the_recorded_file_without_its_main_block():
    text = script()
    assert text.startswith('"""A model."""\nfrom __future__ import annotations\n')
    assert "        return helper.double(x)\n" in text
    assert "business" not in text


def test_inputs_are_drawn_as_the_probe_draws_them():
    assert "calls = [((torch.randn([2, 3], dtype=torch.float32),), {'scale': 0.5})]" in script()


def test_a_factory_that_returns_arguments_is_called_once():
    factory = "def make():\n    return Net(), torch.ones(2)\n"
    made = write_script(
        recording(
            {FILE: TEXT.replace("import helper\n", "") + factory},
            name="make",
            kind="factory",
            inputs_from="make()",
        ),
        request(inputs=None),
    )
    assert made.text is not None, made.reason
    assert "target = make()\n    given = _given(target[1:])\n" in made.text
    assert "for args, kwargs in [given]:" in made.text
    assert made.text.count("make()") == 2  # its definition, its call


def test_arguments_and_config_are_those_of_the_recording():
    text = script(
        dynamic=True,
        fullgraph=True,
        mode=None,
        options={},
        config={"torch._dynamo.config.recompile_limit": 2},
    )
    assert "torch.compile(target, backend='eager', dynamic=True, fullgraph=True)" in text
    assert "import torch._dynamo.config\ntorch._dynamo.config.recompile_limit = 2\n" in text
    assert text.index("recompile_limit = 2") < text.index("class Net")


def test_rounds_modes_and_backward_are_those_of_the_recording():
    text = script(calls=3, train=False, no_grad=True, device="cuda", backward=True)
    for line in (
        "for _ in range(3):",
        "target.train(False)",
        "with torch.no_grad():",
        "target.to('cuda')",
        ".backward()",
    ):
        assert line in text


def test_a_module_beside_the_target_comes_along():
    made = write_script(recording({FILE: TEXT, "/nowhere/helper.py": HELPER}), request())
    assert made.text is not None
    assert "/modules" in made.text
    assert made.modules == {"helper.py": HELPER}


@for_each(
    "files, changes, target, reason",
    [
        ({FILE: None}, {}, {}, "doesn't have the text of model.py"),
        ({}, {}, {}, "doesn't have the text of model.py"),
        ({FILE: TEXT}, {}, {"kind": "script"}, "a whole program"),
        ({FILE: TEXT}, {}, {"name": None}, "ended before the target was created"),
        ({FILE: TEXT}, {"file": None, "module": "pack.model"}, {}, "a module in a package"),
        (
            {FILE: "from . import near\n" + TEXT[TEXT.index("import torch") :]},
            {},
            {},
            "imports from its own package",
        ),
        ({FILE: TEXT, "/nowhere/helper.py": None}, {}, {}, "doesn't have the text of helper.py"),
        (
            {FILE: "import own\n", "/elsewhere/own/layers.py": "x = 1\n"},
            {},
            {},
            "imports the project's own, which isn't in the recording",
        ),
        ({FILE: "def broken(:\n"}, {}, {}, "can't parse model.py"),
    ],
)
def test_there_is_none_and_it_says_why(files, changes, target, reason):
    made = write_script(recording(files, **target), request(**changes))
    assert made.text is None
    assert reason in (made.reason or "")


CHANGED = """\
from dataclasses import dataclass

import torch

scale = torch.nn.Linear(3, 3)
seen = []


@dataclass
class Batch:
    x: torch.Tensor
    sizes: tuple


def double(batch, table):
    seen.append((scale.weight.dtype, batch.x, batch.sizes[0], table))
    return scale(batch.x) * 2


def example_inputs():
    x = torch.arange(6.0).reshape(2, 3)
    return [(Batch(x, (torch.tensor([1, 2]), 3)), torch.ones(3)), (Batch(torch.ones(5, 3), (torch.ones(5), 3)), x)]
"""


def test_the_script_uses_the_recorded_dtype_and_batch(monkeypatch):
    torch = pytest.importorskip("torch")
    places = {
        "batch.x": "(('item', 0), ('item', 0), ('attribute', 'x'))",
        "batch.sizes[0]": "(('item', 0), ('item', 0), ('attribute', 'sizes'), ('item', 0))",
    }
    batched = tuple(
        BatchedTensor(expression=expression, path=path) for expression, path in places.items()
    )
    known = recording(
        {FILE: CHANGED},
        name="double",
        kind="function",
        inputs_from="example_inputs()",
        calls=4,
        batched=batched,
    )
    made = write_script(known, request(inputs=None, dtype="bfloat16", batch=3, calls=2))
    assert made.text is not None, made.reason
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    namespace = {"__name__": "reproduce"}
    monkeypatch.setitem(sys.modules, "reproduce", types.ModuleType("reproduce"))
    exec(made.text, namespace)
    namespace["_reproduce"]()
    seen = namespace["seen"]
    assert len(seen) == 4
    for dtype, x, size, table in seen:
        assert dtype is x.dtype is table.dtype is torch.bfloat16
        assert x.shape == (3, 3)
        assert size.shape == (3,)
    assert seen[0][1].tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]
    assert seen[0][2].tolist() == [1, 2, 1]
    assert [table.shape[0] for _, _, _, table in seen] == [3, 2, 3, 2]

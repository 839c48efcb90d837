"""Numbers that module-number-to-buffer leaves on their modules, and what it writes for the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.recompiles import ChangeKind, GuardChange
from graphdoctor.fixes.recipe import Edit, Place
from graphdoctor.fixes.recipes import module_number_to_buffer
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile
from tests.fixes.recipes.places import finding, outcomes

HEAD = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
"""


def edit(
    body: str, *, head: str = HEAD, expression: str = "self.step", kind: ChangeKind = "module_number", new: str = "1"
) -> Edit:
    text = head + "".join(f"        {line}\n" for line in body.splitlines())
    change = GuardChange(kind=kind, expression=expression, old="0", new=new)
    return module_number_to_buffer.edit(
        Place(SourceFile.parse(Path("model.py"), text.encode()), finding("GD205", 1, changes=(change,)))
    )


def test_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "for i in range(self.step): x = x + i\nreturn x",
        "return x[self.step]",
        "return x[: self.step + 1]",
        "return x if self.step % 2 else -x",
        "if self.step > 3: x = x + 1\nreturn x",
        "y = self.step\nreturn x + y",
        "return self.step",
        "print(f'{self.step}')\nreturn x",
        "return x.view(self.step + 1, -1)",
        "return x * math.sqrt(self.step + 1)",
        "return torch.full((1,), self.step * 2)",
        "return x * int(self.step + 1)",
        "self.step, y = 1, 2\nreturn x + self.step",
        "self.step = y = 1\nreturn x + self.step",
        "for self.step in x: pass\nreturn x + self.step",
        "del self.step",
        "self.step //= 2\nreturn x + self.step",
        "setattr(self, 'step', 1)\nreturn x + self.step",
    ]
    assert outcomes(edit, cases) == snapshot


def test_it_declines_a_class(snapshot: SnapshotAssertion) -> None:
    cases = [
        HEAD.replace("self.step = 0", "pass"),
        HEAD.replace("self.step = 0", "self.step = [0]"),
        HEAD.replace("        super().__init__()\n", ""),
        HEAD.replace("    def __init__", "    step = 0\n\n    def __init__"),
        HEAD[:-26] + "\n\n" + HEAD.replace("Net", "Other"),
        HEAD.replace("class Net", "class A(B):\n    def f(self): return self.step\n\n\nclass Net"),
    ]
    assert outcomes(lambda head: edit("return x + self.step", head=head), cases) == snapshot


def test_it_declines_what_it_does_not_know() -> None:
    with pytest.raises(DeclinedError, match="it's unknown which number changed"):
        edit("return x", kind="size")
    with pytest.raises(DeclinedError, match="isn't an attribute"):
        edit("return x", expression="self.sizes[0].steps[1]")


def test_a_number_of_an_inner_module_is_found_by_its_name() -> None:
    assert 'register_buffer("step", torch.tensor(0)' in edit("return x", expression="self.inner.step").content.decode()


def test_a_float_anywhere_makes_a_float_buffer(snapshot: SnapshotAssertion) -> None:
    cases = [
        ("return x + self.step", "1"),
        ("return x + self.step", "0.5"),
        ("self.step = 0.5\nreturn x + self.step", "1"),
        ("self.step = self.step / 2\nreturn x + self.step", "1"),
    ]
    assert outcomes(lambda body, new: edit(body, new=new).content.decode(), cases) == snapshot


def test_an_optimizer_is_no_number() -> None:
    assert "optimizer.step()" in edit("optimizer.step()\nreturn x + self.step").content.decode()


def test_arithmetic_in_calls_and_containers_stays() -> None:
    body = "x *= self.step\nreturn {'y': torch.relu(x / (1 + self.step)), 'z': [(x * -self.step).sum()]}"
    assert body.splitlines()[1] in edit(body).content.decode()


def test_tabs_newlines_and_neighbours_on_the_line_stay() -> None:
    head = HEAD.replace("    ", "\t").replace("\n", "\r\n")
    text = head + "\t\tself.step = 1; x = x + self.step  # now\r\n\t\treturn x\r\n"
    change = GuardChange(kind="module_number", expression="self.step")
    place = Place(SourceFile.parse(Path("model.py"), text.encode()), finding("GD205", 1, changes=(change,)))
    result = module_number_to_buffer.edit(place).content.decode()
    assert "\t\tself.step.fill_(1); x = x + self.step  # now\r\n" in result
    assert '\t\tself.register_buffer("step", torch.tensor(0), persistent=False)\r\n' in result

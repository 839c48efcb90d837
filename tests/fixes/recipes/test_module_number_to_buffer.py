"""Numbers that module-number-to-buffer leaves on their modules, and what it writes for the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoctor.facts.recompiles import ChangeKind, GuardChange
from graphdoctor.fixes.recipe import Edit, Place
from graphdoctor.fixes.recipes import module_number_to_buffer
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile
from tests.each import for_each
from tests.fixes.recipes.places import finding, reason_of

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


@for_each(
    "body, reason",
    [
        ("for i in range(self.step): x = x + i\nreturn x", "line 10 does more than arithmetic"),
        ("return x[self.step]", "line 10 does more than arithmetic"),
        ("return x[: self.step + 1]", "line 10 does more than arithmetic"),
        ("return x if self.step % 2 else -x", "line 10 does more than arithmetic"),
        ("if self.step > 3: x = x + 1\nreturn x", "line 10 does more than arithmetic"),
        ("y = self.step\nreturn x + y", "line 10 does more than arithmetic"),
        ("return self.step", "line 10 does more than arithmetic"),
        ("print(f'{self.step}')\nreturn x", "line 10 does more than arithmetic"),
        ("return x.view(self.step + 1, -1)", "line 10 does more than arithmetic"),
        ("return x * math.sqrt(self.step + 1)", "line 10 does more than arithmetic"),
        ("return torch.full((1,), self.step * 2)", "line 10 does more than arithmetic"),
        ("return x * int(self.step + 1)", "line 10 does more than arithmetic"),
        ("self.step, y = 1, 2\nreturn x + self.step", "line 10 does more than set `step`"),
        ("self.step = y = 1\nreturn x + self.step", "line 10 does more than set `step`"),
        ("for self.step in x: pass\nreturn x + self.step", "line 10 does more than set `step`"),
        ("del self.step", "line 10 does more than set `step`"),
        ("self.step //= 2\nreturn x + self.step", "`self.step //= 2` has no in-place version that keeps the dtype"),
        ("setattr(self, 'step', 1)\nreturn x + self.step", 'the file has "step" as a string'),
    ],
)
def test_it_declines(body: str, reason: str) -> None:
    assert reason_of(lambda: edit(body)).startswith(reason)


@for_each(
    "head, reason",
    [
        (HEAD.replace("self.step = 0", "pass"), "no class in the file sets `step` to a number in `__init__`"),
        (HEAD.replace("self.step = 0", "self.step = [0]"), "no class in the file sets `step` to a number"),
        (HEAD.replace("        super().__init__()\n", ""), "`step` is set before the module is initialized"),
        (HEAD.replace("    def __init__", "    step = 0\n\n    def __init__"), "the class also has its own `step`"),
        (HEAD[:-26] + "\n\n" + HEAD.replace("Net", "Other"), "more than one class in the file sets `step`"),
        (
            HEAD.replace("class Net", "class A(B):\n    def f(self): return self.step\n\n\nclass Net"),
            "another class",
        ),
    ],
)
def test_it_declines_a_class(head: str, reason: str) -> None:
    assert reason_of(lambda: edit("return x + self.step", head=head)).startswith(reason)


def test_it_declines_what_it_does_not_know() -> None:
    with pytest.raises(DeclinedError, match="it's unknown which number changed"):
        edit("return x", kind="size")
    with pytest.raises(DeclinedError, match="isn't an attribute"):
        edit("return x", expression="self.sizes[0].steps[1]")


def test_a_number_of_an_inner_module_is_found_by_its_name() -> None:
    assert 'register_buffer("step", torch.tensor(0)' in edit("return x", expression="self.inner.step").content.decode()


@for_each(
    "body, new, value",
    [
        ("return x + self.step", "1", "0"),
        ("return x + self.step", "0.5", "0.0"),
        ("self.step = 0.5\nreturn x + self.step", "1", "0.0"),
        ("self.step = self.step / 2\nreturn x + self.step", "1", "0.0"),
    ],
)
def test_a_float_anywhere_makes_a_float_buffer(body: str, new: str, value: str) -> None:
    assert f"torch.tensor({value})" in edit(body, new=new).content.decode()


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


def test_it_needs_judgement() -> None:
    found = edit("return x + self.step")
    assert (found.is_safe, found.title) == (False, "Keep `self.step` in a buffer and write into it")

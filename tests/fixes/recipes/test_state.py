"""What the recipes of ``state`` leave alone, and how they write what they edit."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.recompiles import ChangeKind, GuardChange
from graphdoctor.fixes.recipe import Edit, Place
from graphdoctor.fixes.recipes.state import (
    iterable_to_list,
    list_argument,
    local_parameter_to_tensor,
    module_number_to_buffer,
)
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile
from tests.fixes.recipes.places import finding, outcomes, place_in

# iterable-to-list


LOOP = "\n\ndef f(x):\n    for part in parts:\n        x = x + part\n    return x\n"


def edit_iterable_to_list(text: str) -> Edit:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "for part in" in line or "next(" in line)
    return iterable_to_list.edit(place_in(text, "GD122", line))


def test_iterable_to_list_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "parts = {a, b}\nx = next(parts)\n",
        "for part in {a, b}:\n    pass\n",
        "for part in model.parts:\n    pass\n",
        LOOP,
        "parts = {a}\nparts = {b}\n" + LOOP,
        "parts = others = {a}\n" + LOOP,
        "parts = {a}\nparts.add(b)\n" + LOOP,
        "parts = iter(a)\nfirst = parts.__next__()\n" + LOOP,
        "from other import parts\n" + LOOP,
        LOOP.replace("f(x)", "f(x, parts)"),
        "parts = load()\n" + LOOP,
        "parts = {'a': 1}\n" + LOOP,
    ]
    assert outcomes(edit_iterable_to_list, cases) == snapshot


def test_it_becomes_a_list(snapshot: SnapshotAssertion) -> None:
    cases = [
        "{a, b}",
        "{*a}",
        "{a + i for i in b if i}",
        "(a + i for i in b)",
        "set(a)",
        "iter([1, 2])",
        "enumerate(a, 1)",
        "map(f, a)",
    ]
    assert (
        outcomes(lambda made: edit_iterable_to_list(f"parts: object = {made}\n{LOOP}").content.decode(), cases)
        == snapshot
    )


def test_tabs_newlines_and_comments_stay() -> None:
    text = f"parts = {{\n\ta,  # one\n\tb,\n}}\n{LOOP}".replace("\n", "\r\n")
    result = edit_iterable_to_list(text).content.decode()
    assert result == text.replace("{", "[").replace("}", "]")


def test_other_things_of_the_same_name_do_not_matter() -> None:
    text = f"parts = {{a}}\nother.parts(parts=1)\n{LOOP}"
    assert "parts = [a]\nother.parts(parts=1)\n" in edit_iterable_to_list(text).content.decode()


# list-argument


CLIP = "def clip(parts, limit=1):\n    found = [part for part in parts]\n    return found\n\n\n"


def edited(text: str) -> str:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "for part in" in line)
    return list_argument.edit(place_in(text, "GD121", line)).content.decode()


def test_a_call_passes_a_list(snapshot: SnapshotAssertion) -> None:
    cases = [
        "clip(model.parameters())",
        "clip(limit=2, parts=zip(a, b))",
        "clip((p.grad for p in ps), 2)",
        "clip(ps, 2) + clip(iter(ps))",
    ]
    assert outcomes(lambda call: edited(CLIP + call + "\n"), cases) == snapshot


def test_a_method_has_its_object_first() -> None:
    text = "class A:\n    def f(self, parts):\n        for part in parts:\n            pass\n\n"
    text += "    def g(self):\n        self.f(CALL)\n"
    assert edited(text.replace("CALL", "self.children()")) == text.replace("CALL", "list(self.children())")


def test_list_argument_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        CLIP + "clip(ps)\n",
        CLIP + "clip(*model.parameters())\n",
        CLIP + "other(model.parameters())\n",
        CLIP + "clip(ps, model.parameters())\n",
        CLIP.replace("in parts", "in parts.all()"),
        CLIP.replace("    found", "    parts = parts or ()\n    found"),
        CLIP.replace("for part in parts", "for part in limit for part in parts"),
    ]
    assert outcomes(edited, cases) == snapshot


# local-parameter-to-tensor


def edit_local_parameter_to_tensor(body: str, columns: tuple[int, int] | None = None) -> Edit:
    text = "import torch\ndef f(self, x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return local_parameter_to_tensor.edit(place_in(text, "GD115", 3, columns))


def test_local_parameter_to_tensor_it_declines(snapshot: SnapshotAssertion) -> None:
    cases = [
        "y = make(x)",
        "y = Parameter(x) + Parameter(x)",
        "if Parameter(x): pass",
        "p = Parameter()",
        "p = Parameter(*x)",
        "p = Parameter(x, False)",
        "p = Parameter(x, dtype=int)",
        "self.p = Parameter(x)",
        "p = q = Parameter(x)",
        "return Parameter(x)",
        "y = g(Parameter(x))",
        "p = Parameter(x)\nreturn p",
        "p = Parameter(x)\nself.p = p",
        "p = Parameter(x)\ny = p.grad",
        "p = Parameter(x)\ng(p)",
        "p = Parameter(x)\no = torch.optim.SGD([p])",
    ]
    assert outcomes(edit_local_parameter_to_tensor, cases) == snapshot


def test_it_declines_outside_of_a_function() -> None:
    with pytest.raises(DeclinedError, match="outlives the call"):
        local_parameter_to_tensor.edit(place_in("p = Parameter(x)\n", "GD115", 1))


def test_it_becomes_a_tensor(snapshot: SnapshotAssertion) -> None:
    cases = [
        "y = x * nn.Parameter(torch.ones(8))",
        "y = x * nn.Parameter(data=torch.ones(8))",
        "y = torch.add(x, Parameter(x))",
        "y = x * Parameter(x + 1, requires_grad=True)",
        "p: object = Parameter(x[0])  # one",
    ]
    assert outcomes(lambda line: edit_local_parameter_to_tensor(line).content.decode(), cases) == snapshot


def test_torchs_columns_tell_which_parameter_is_meant() -> None:
    assert (
        "y = Parameter(x) + x.detach()\n"
        in edit_local_parameter_to_tensor("y = Parameter(x) + Parameter(x)", (24, 36)).content.decode()
    )


def test_newlines_and_tabs_stay() -> None:
    place = place_in("import torch\r\ndef f(x):\r\n\treturn x * Parameter(x)\r\n", "GD115", 3)
    assert local_parameter_to_tensor.edit(place).content.decode() == (
        "import torch\r\ndef f(x):\r\n\treturn x * x.detach()\r\n"
    )


# module-number-to-buffer


HEAD = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
"""


def edit_module_number_to_buffer(
    body: str, *, head: str = HEAD, expression: str = "self.step", kind: ChangeKind = "module_number", new: str = "1"
) -> Edit:
    text = head + "".join(f"        {line}\n" for line in body.splitlines())
    change = GuardChange(kind=kind, expression=expression, old="0", new=new)
    return module_number_to_buffer.edit(
        Place(SourceFile.parse(Path("model.py"), text.encode()), finding("GD205", 1, changes=(change,)))
    )


def test_module_number_to_buffer_it_declines(snapshot: SnapshotAssertion) -> None:
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
    assert outcomes(edit_module_number_to_buffer, cases) == snapshot


def test_it_declines_a_class(snapshot: SnapshotAssertion) -> None:
    cases = [
        HEAD.replace("self.step = 0", "pass"),
        HEAD.replace("self.step = 0", "self.step = [0]"),
        HEAD.replace("        super().__init__()\n", ""),
        HEAD.replace("    def __init__", "    step = 0\n\n    def __init__"),
        HEAD[:-26] + "\n\n" + HEAD.replace("Net", "Other"),
        HEAD.replace("class Net", "class A(B):\n    def f(self): return self.step\n\n\nclass Net"),
    ]
    assert outcomes(lambda head: edit_module_number_to_buffer("return x + self.step", head=head), cases) == snapshot


def test_it_declines_what_it_does_not_know() -> None:
    with pytest.raises(DeclinedError, match="it's unknown which number changed"):
        edit_module_number_to_buffer("return x", kind="size")
    with pytest.raises(DeclinedError, match="isn't an attribute"):
        edit_module_number_to_buffer("return x", expression="self.sizes[0].steps[1]")


def test_a_number_of_an_inner_module_is_found_by_its_name() -> None:
    assert (
        'register_buffer("step", torch.tensor(0)'
        in edit_module_number_to_buffer("return x", expression="self.inner.step").content.decode()
    )


def test_a_float_anywhere_makes_a_float_buffer(snapshot: SnapshotAssertion) -> None:
    cases = [
        ("return x + self.step", "1"),
        ("return x + self.step", "0.5"),
        ("self.step = 0.5\nreturn x + self.step", "1"),
        ("self.step = self.step / 2\nreturn x + self.step", "1"),
    ]
    assert outcomes(lambda body, new: edit_module_number_to_buffer(body, new=new).content.decode(), cases) == snapshot


def test_an_optimizer_is_no_number() -> None:
    assert "optimizer.step()" in edit_module_number_to_buffer("optimizer.step()\nreturn x + self.step").content.decode()


def test_arithmetic_in_calls_and_containers_stays() -> None:
    body = "x *= self.step\nreturn {'y': torch.relu(x / (1 + self.step)), 'z': [(x * -self.step).sum()]}"
    assert body.splitlines()[1] in edit_module_number_to_buffer(body).content.decode()


def test_tabs_newlines_and_neighbours_on_the_line_stay() -> None:
    head = HEAD.replace("    ", "\t").replace("\n", "\r\n")
    text = head + "\t\tself.step = 1; x = x + self.step  # now\r\n\t\treturn x\r\n"
    change = GuardChange(kind="module_number", expression="self.step")
    place = Place(SourceFile.parse(Path("model.py"), text.encode()), finding("GD205", 1, changes=(change,)))
    result = module_number_to_buffer.edit(place).content.decode()
    assert "\t\tself.step.fill_(1); x = x + self.step  # now\r\n" in result
    assert '\t\tself.register_buffer("step", torch.tensor(0), persistent=False)\r\n' in result

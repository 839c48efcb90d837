"""Parameters that local-parameter-to-tensor leaves alone, and what it writes for the others."""

from __future__ import annotations

import pytest

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes import local_parameter_to_tensor
from graphdoctor.fixes.source.tree import DeclinedError
from tests.each import for_each
from tests.fixes.recipes.places import place_in, reason_of


def edit(body: str, columns: tuple[int, int] | None = None) -> Edit:
    text = "import torch\ndef f(self, x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return local_parameter_to_tensor.edit(place_in(text, "GD115", 3, columns))


@for_each(
    "body, reason",
    [
        ("y = make(x)", "the line doesn't create exactly one parameter"),
        ("y = Parameter(x) + Parameter(x)", "the line doesn't create exactly one parameter"),
        ("if Parameter(x): pass", "the line begins a compound statement"),
        ("p = Parameter()", "it doesn't say what the parameter is initialized with"),
        ("p = Parameter(*x)", "it doesn't say what the parameter is initialized with"),
        ("p = Parameter(x, False)", "it has arguments that a tensor doesn't take"),
        ("p = Parameter(x, dtype=int)", "it has arguments that a tensor doesn't take"),
        ("self.p = Parameter(x)", "the parameter outlives the call"),
        ("p = q = Parameter(x)", "the parameter outlives the call"),
        ("return Parameter(x)", "the parameter may be passed to other code"),
        ("y = g(Parameter(x))", "the parameter may be passed to other code"),
        ("p = Parameter(x)\nreturn p", "line 4 may pass `p` to other code"),
        ("p = Parameter(x)\nself.p = p", "line 4 may pass `p` to other code"),
        ("p = Parameter(x)\ny = p.grad", "line 4 may pass `p` to other code"),
        ("p = Parameter(x)\ng(p)", "line 4 may pass `p` to other code"),
        ("p = Parameter(x)\no = torch.optim.SGD([p])", "line 4 may pass `p` to other code"),
    ],
)
def test_it_declines(body: str, reason: str) -> None:
    assert reason_of(lambda: edit(body)) == reason


def test_it_declines_outside_of_a_function() -> None:
    with pytest.raises(DeclinedError, match="outlives the call"):
        local_parameter_to_tensor.edit(place_in("p = Parameter(x)\n", "GD115", 1))


@for_each(
    "line, written",
    [
        ("y = x * nn.Parameter(torch.ones(8))", "y = x * torch.ones(8)"),
        ("y = x * nn.Parameter(data=torch.ones(8))", "y = x * torch.ones(8)"),
        ("y = torch.add(x, Parameter(x))", "y = torch.add(x, x.detach())"),
        ("y = x * Parameter(x + 1, requires_grad=True)", "y = x * (x + 1).detach()"),
        ("p: object = Parameter(x[0])  # one", "p: object = x[0].detach()  # one"),
    ],
)
def test_it_becomes_a_tensor(line: str, written: str) -> None:
    assert edit(line).content.decode() == f"import torch\ndef f(self, x):\n    {written}\n"


def test_torchs_columns_tell_which_parameter_is_meant() -> None:
    assert "y = Parameter(x) + x.detach()\n" in edit("y = Parameter(x) + Parameter(x)", (24, 36)).content.decode()


def test_newlines_and_tabs_stay() -> None:
    place = place_in("import torch\r\ndef f(x):\r\n\treturn x * Parameter(x)\r\n", "GD115", 3)
    assert local_parameter_to_tensor.edit(place).content.decode() == (
        "import torch\r\ndef f(x):\r\n\treturn x * x.detach()\r\n"
    )


def test_it_needs_judgement() -> None:
    assert not edit("y = x * Parameter(x)").is_safe

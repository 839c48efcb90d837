"""Parameters that local-parameter-to-tensor leaves alone, and what it writes for the others."""

from __future__ import annotations

import pytest

from graphdoctor.fixes.recipe import Edit
from graphdoctor.fixes.recipes.local_parameter_to_tensor import LocalParameterToTensor
from graphdoctor.fixes.syntax.declined import DeclinedError
from tests.fixes.recipes.places import place_in


def edit(body: str, columns: tuple[int, int] | None = None) -> Edit:
    text = "import torch\ndef f(self, x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return LocalParameterToTensor().edit(place_in(text, "GD115", 3, columns))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y = make(x)", "the line makes no parameter, or several"),
        ("y = Parameter(x) + Parameter(x)", "the line makes no parameter, or several"),
        ("if Parameter(x): pass", "the line begins a compound statement"),
        ("p = Parameter()", "it does not say what the parameter begins with"),
        ("p = Parameter(*x)", "it does not say what the parameter begins with"),
        ("p = Parameter(x, False)", "it has arguments that a tensor has not"),
        ("p = Parameter(x, dtype=int)", "it has arguments that a tensor has not"),
        ("self.p = Parameter(x)", "the parameter is kept beyond the function"),
        ("p = q = Parameter(x)", "the parameter is kept beyond the function"),
        ("return Parameter(x)", "the parameter may go to someone else"),
        ("y = g(Parameter(x))", "the parameter may go to someone else"),
        ("p = Parameter(x)\nreturn p", "in line 4 `p` may go to someone else"),
        ("p = Parameter(x)\nself.p = p", "in line 4 `p` may go to someone else"),
        ("p = Parameter(x)\ny = p.grad", "in line 4 `p` may go to someone else"),
        ("p = Parameter(x)\ng(p)", "in line 4 `p` may go to someone else"),
        ("p = Parameter(x)\no = torch.optim.SGD([p])", "in line 4 `p` may go to someone else"),
    ],
)
def test_it_declines(body: str, reason: str) -> None:
    with pytest.raises(DeclinedError) as caught:
        edit(body)
    assert caught.value.reason == reason


def test_it_declines_outside_of_a_function() -> None:
    with pytest.raises(DeclinedError, match="kept beyond the function"):
        LocalParameterToTensor().edit(place_in("p = Parameter(x)\n", "GD115", 1))


@pytest.mark.parametrize(
    ("line", "written"),
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
    assert LocalParameterToTensor().edit(place).content.decode() == (
        "import torch\r\ndef f(x):\r\n\treturn x * x.detach()\r\n"
    )


def test_it_needs_judgement() -> None:
    assert not edit("y = x * Parameter(x)").is_safe
